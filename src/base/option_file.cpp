/// \file
/// Options from a TOML file. The only file that includes toml++, which is slow to compile.
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/options.hpp"

namespace craton {
namespace {

constexpr std::size_t max_file_bytes = 1 << 20;

const OptionSpec* find_key(std::string_view key) {
  for (const OptionSpec& spec : option_table) {
    if (key_name(spec) == key) return &spec;
  }
  return nullptr;
}

std::string place(const std::string& path, const toml::source_region& region) {
  return path + ":" + std::to_string(region.begin.line);
}

[[noreturn]] void fail_unknown_key(const std::string& at, std::string_view key) {
  std::vector<std::string> known;
  for (const OptionSpec& spec : option_table) known.push_back(key_name(spec));
  const auto nearest = nearest_name(key, known);
  throw Error(ErrorCode::invalid_argument,
              {.asked = "cannot use the key \"" + std::string(key) + "\" of " + at,
               .happened = "no option has this name",
               .limit = {},
               .remedy = nearest ? "did you mean " + *nearest + "?" : "craton info --options lists all"});
}

/// The text of a value as a user would write it for a flag; nothing for what no option can be.
std::optional<std::string> as_text(const toml::node& node) {
  if (auto text = node.value_exact<std::string>()) return text;
  if (const auto number = node.value_exact<std::int64_t>()) return std::to_string(*number);
  if (const auto truth = node.value_exact<bool>()) return std::string(*truth ? "true" : "false");
  return std::nullopt;
}

std::string read_whole(const std::string& path) {
  const std::string asked = "cannot read the config file " + path;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error::from_errno(asked, errno != 0 ? errno : EIO, {}, "correct CRATON_CONFIG or --config");
  std::string text(max_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw Error::from_errno(asked, errno != 0 ? errno : EIO);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_file_bytes) {
    throw Error(ErrorCode::invalid_argument, {.asked = asked,
                                              .happened = "it is no config file of Craton",
                                              .limit = "such a file has 1 MiB at most",
                                              .remedy = "correct CRATON_CONFIG or --config"});
  }
  return text;
}

}  // namespace

void Options::read_file(const std::string& path) {
  read_toml(read_whole(path), path);
}

void Options::read_toml(std::string_view text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot read " + place(path, error.source()),
                 .happened = std::string(error.description()),
                 .limit = {},
                 .remedy = "correct the file; it is TOML, as in: link_delay = \"50us\""});
  }
  for (const auto& [key, node] : table) {
    const std::string at = place(path, node.source());
    const OptionSpec* spec = find_key(key.str());
    if (spec == nullptr) fail_unknown_key(at, key.str());
    const std::optional<std::string> value = as_text(node);
    if (!value) {
      throw Error(ErrorCode::invalid_argument,
                  {.asked = "cannot use the key " + key_name(*spec) + " of " + at,
                   .happened = "its value is no text, whole number or boolean",
                   .limit = "it takes " + type_and_limits(*spec),
                   .remedy = {}});
    }
    set(spec->id, *value, OptionSource::file, at + ", key " + key_name(*spec));
  }
  file_read_ = true;
}

}  // namespace craton
