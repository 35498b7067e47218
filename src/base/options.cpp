#include "base/options.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/option_value.hpp"

namespace craton {
namespace {

constexpr std::string_view variable_prefix = "CRATON_";
constexpr std::string_view config_variable = "CRATON_CONFIG";

const OptionSpec* find_variable(std::string_view name) {
  for (const OptionSpec& spec : option_table) {
    if (variable_name(spec) == name) return &spec;
  }
  return nullptr;
}

/// The known variable that was meant, if the name of one differs by a slip. The prefix, which they share, is
/// left out of the comparison.
std::optional<std::string> variable_meant_by(std::string_view name) {
  std::vector<std::string> known = {std::string(config_variable.substr(variable_prefix.size()))};
  for (const OptionSpec& spec : option_table)
    known.push_back(variable_name(spec).substr(variable_prefix.size()));
  const std::optional<std::string> nearest = nearest_name(name.substr(variable_prefix.size()), known);
  return nearest ? std::optional(std::string(variable_prefix) + *nearest) : std::nullopt;
}

/// Edits (insert, delete, replace, swap of neighbours) that turn one text into the other, '-' and '_' being
/// equal.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before_previous;
  std::vector<std::size_t> previous(to.size() + 1);
  std::iota(previous.begin(), previous.end(), std::size_t{0});
  const auto same = [](char a, char b) {
    return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
  };
  for (std::size_t i = 1; i <= from.size(); ++i) {
    std::vector<std::size_t> current(to.size() + 1, i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (same(from[i - 1], to[j - 1]) ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
      }
    }
    before_previous = std::exchange(previous, std::move(current));
  }
  return previous.back();
}

std::string with_separator(std::string_view name, char separator) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '-', separator);
  return result;
}

std::string in_words(OptionType type, std::string_view choices) {
  switch (type) {
    case OptionType::flag:
      return "yes or no";
    case OptionType::automatic:
      return "yes, no or auto";
    case OptionType::integer:
      return "a whole number";
    case OptionType::bytes:
      return "a number of bytes such as 4096, 64Ki or 10M";
    case OptionType::duration:
      return "a time such as 20us, 1.5s or 5min";
    case OptionType::choice:
      return "one of " + std::string(choices);
    case OptionType::text:
      return "text";
  }
  return {};
}

}  // namespace

Options::Options() {
  for (const OptionSpec& spec : option_table) {
    Entry& entry = entries_[static_cast<std::size_t>(spec.id)];
    entry.text = spec.default_text;
    entry.number = parse_value(spec, spec.default_text).number;
  }
}

Options Options::from_environment(const char* const* environment) {
  Options options;
  for (const char* const* variable = environment; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with(config_variable) && text.substr(config_variable.size()).starts_with('=')) {
      const std::string path(text.substr(config_variable.size() + 1));
      if (!path.empty()) options.read_file(path);
    }
  }
  options.read_environment(environment);
  return options;
}

void Options::read_environment(const char* const* environment) {
  for (const char* const* variable = environment; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(variable_prefix) || equals == text.npos) continue;
    const std::string name(text.substr(0, equals));
    if (const OptionSpec* spec = find_variable(name)) {
      set(spec->id, text.substr(equals + 1), OptionSource::environment, "environment variable " + name);
    } else if (const auto meant = variable_meant_by(name); meant && name != config_variable) {
      misspelt_variables_.push_back("environment variable " + name +
                                    " is no option of Craton; did you mean " + *meant + "?");
    }
  }
}

void Options::set(Option option, std::string_view value, OptionSource source, std::string where) {
  const OptionSpec& spec = spec_of(option);
  const ParsedValue parsed = parse_value(spec, value);
  if (!parsed.problem.empty()) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot use \"" + std::string(value) + "\" of " + where,
                 .happened = parsed.problem,
                 .limit = "it takes " + type_and_limits(spec),
                 .remedy = {}});
  }
  Entry& entry = entries_[static_cast<std::size_t>(option)];
  if (source < entry.source) return;
  entry = {.text = std::string(value), .number = parsed.number, .source = source, .where = std::move(where)};
}

std::vector<std::string> Options::rank_environment() const {
  std::vector<std::string> variables;
  for (const OptionSpec& spec : option_table) {
    if (spec.scope != OptionScope::rank || source(spec.id) == OptionSource::default_value) continue;
    variables.push_back(variable_name(spec) + "=" + value_text(spec.id));
  }
  if (file_read_) variables.push_back(std::string(config_variable) + "=");
  return variables;
}

std::string variable_name(const OptionSpec& spec) {
  std::string name = std::string(variable_prefix) + with_separator(spec.name, '_');
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return name;
}

std::string key_name(const OptionSpec& spec) {
  return with_separator(spec.name, '_');
}

std::optional<bool> Options::flag_or_auto(OptionKey<OptionType::automatic> key) const noexcept {
  const std::int64_t value = number(key.option());
  return value == automatic_number ? std::nullopt : std::optional(value != 0);
}

std::string type_and_limits(const OptionSpec& spec) {
  std::string words = in_words(spec.type, spec.choices);
  if (!has_limits(spec.type)) return words;
  if (spec.power_of_two) words += ", a power of two";
  const bool bounded = spec.maximum != std::numeric_limits<std::int64_t>::max();
  if (bounded) {
    words +=
        ", from " + format_value(spec.type, spec.minimum) + " to " + format_value(spec.type, spec.maximum);
  } else if (spec.minimum != 0) {
    words += ", at least " + format_value(spec.type, spec.minimum);
  }
  return words;
}

std::string value_placeholder(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::flag:
    case OptionType::automatic:
      return {};
    case OptionType::integer:
      return "NUMBER";
    case OptionType::bytes:
      return "BYTES";
    case OptionType::duration:
      return "TIME";
    case OptionType::choice:
      return std::string(spec.choices);
    case OptionType::text:
      return "TEXT";
  }
  return {};
}

std::string_view name_of(OptionSource source) noexcept {
  switch (source) {
    case OptionSource::default_value:
      return "default";
    case OptionSource::file:
      return "file";
    case OptionSource::environment:
      return "environment";
    case OptionSource::flag:
      return "flag";
  }
  return "unknown";
}

std::optional<std::string> nearest_name(std::string_view typed, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(typed, name);
    if (distance < best_distance) {
      best = &name;
      best_distance = distance;
    }
  }
  // A third of the letters may be wrong; beyond that a suggestion only confuses.
  if (best == nullptr || best_distance > std::max(typed.size(), best->size()) / 3) {
    return std::nullopt;
  }
  return *best;
}

}  // namespace craton
