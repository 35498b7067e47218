#include "base/option_value.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>
#include <optional>
#include <span>

namespace craton {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// Decimal prefixes are powers of 1000, binary ones of 1024, as in IEC 80000-13; k is also written K.
constexpr std::array<Unit, 10> byte_units = {{{"", 1},
                                              {"k", 1'000},
                                              {"K", 1'000},
                                              {"M", 1'000'000},
                                              {"G", 1'000'000'000},
                                              {"T", 1'000'000'000'000},
                                              {"Ki", std::int64_t{1} << 10},
                                              {"Mi", std::int64_t{1} << 20},
                                              {"Gi", std::int64_t{1} << 30},
                                              {"Ti", std::int64_t{1} << 40}}};
constexpr std::array<Unit, 6> time_units = {{{"ns", 1},
                                             {"us", 1'000},
                                             {"ms", 1'000'000},
                                             {"s", 1'000'000'000},
                                             {"min", 60'000'000'000},
                                             {"h", 3'600'000'000'000}}};

/// Digits after the decimal point: with the largest unit above, 10^6 * 3.6 * 10^12 still fits 63 bits.
constexpr std::size_t max_fraction_digits = 6;

std::optional<std::int64_t> find_unit(std::span<const Unit> units, std::string_view name) {
  for (const Unit& unit : units) {
    if (unit.name == name) return unit.factor;
  }
  return std::nullopt;
}

ParsedValue problem(std::string what) {
  return {.number = 0, .problem = std::move(what)};
}

/// whole[.fraction] * factor, exactly.
ParsedValue scale(std::string_view whole_digits, std::string_view fraction_digits, std::int64_t factor,
                  const char* base_unit) {
  std::int64_t whole = 0;
  if (std::from_chars(whole_digits.begin(), whole_digits.end(), whole).ec != std::errc{}) {
    return problem("too large");
  }
  std::int64_t fraction = 0;
  std::int64_t divisor = 1;
  for (const char digit : fraction_digits) {
    fraction = fraction * 10 + (digit - '0');
    divisor *= 10;
  }
  if (fraction * factor % divisor != 0) return problem(std::string("not a whole number of ") + base_unit);
  std::int64_t number = 0;
  if (__builtin_mul_overflow(whole, factor, &number) ||
      __builtin_add_overflow(number, fraction * factor / divisor, &number)) {
    return problem("too large");
  }
  return {.number = number, .problem = {}};
}

std::size_t digits_at(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

/// A number with one of the units; `whole_suffix` may follow the unit (the B of KiB).
ParsedValue parse_scaled(std::string_view text, std::span<const Unit> units, const char* base_unit) {
  if (text.starts_with('-')) return problem("negative");
  const std::string_view whole = text.substr(0, digits_at(text));
  if (whole.empty()) return problem("not a number");
  std::string_view rest = text.substr(whole.size());
  std::string_view fraction;
  if (rest.starts_with('.')) {
    fraction = rest.substr(1, digits_at(rest.substr(1)));
    if (fraction.empty()) return problem("not a number");
    rest.remove_prefix(1 + fraction.size());
    if (fraction.size() > max_fraction_digits) {
      return problem("more than " + std::to_string(max_fraction_digits) + " digits after the point");
    }
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const std::optional<std::int64_t> factor = find_unit(units, rest);
  if (factor) return scale(whole, fraction, *factor, base_unit);
  if (!rest.empty()) return problem("unknown unit \"" + std::string(rest) + "\"");
  // Nothing stands for nothing in every unit; anything else must say what it counts.
  const bool zero =
      whole.find_first_not_of('0') == whole.npos && fraction.find_first_not_of('0') == fraction.npos;
  return zero ? ParsedValue{} : problem("without a unit");
}

ParsedValue parse_bytes(std::string_view text) {
  if (text.ends_with('B')) text.remove_suffix(1);  // 64KiB is 64Ki
  return parse_scaled(text, byte_units, "bytes");
}

ParsedValue parse_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
  if (error == std::errc::result_out_of_range)
    return problem(text.starts_with('-') ? "too small" : "too large");
  if (error != std::errc{} || end != text.end()) return problem("not a whole number");
  return {.number = number, .problem = {}};
}

ParsedValue parse_flag(std::string_view text) {
  for (const std::string_view yes : {"1", "yes", "true", "on"}) {
    if (text == yes) return {.number = 1, .problem = {}};
  }
  for (const std::string_view no : {"0", "no", "false", "off"}) {
    if (text == no) return {.number = 0, .problem = {}};
  }
  return problem("neither yes nor no");
}

ParsedValue parse_automatic(std::string_view text) {
  if (text == "auto") return {.number = automatic_number, .problem = {}};
  const ParsedValue parsed = parse_flag(text);
  return parsed.problem.empty() ? parsed : problem("none of yes, no and auto");
}

ParsedValue parse_choice(const OptionSpec& spec, std::string_view text) {
  std::string_view rest = spec.choices;
  while (!rest.empty()) {
    const std::size_t length = std::min(rest.find('|'), rest.size());
    if (rest.substr(0, length) == text) return {};
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return problem("not one of the choices");
}

ParsedValue parse_text(std::string_view text) {
  const bool control =
      std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; });
  return control ? problem("holds a control character") : ParsedValue{};
}

ParsedValue parse_by_type(const OptionSpec& spec, std::string_view text) {
  switch (spec.type) {
    case OptionType::flag:
      return parse_flag(text);
    case OptionType::automatic:
      return parse_automatic(text);
    case OptionType::integer:
      return parse_integer(text);
    case OptionType::bytes:
      return parse_bytes(text);
    case OptionType::duration:
      return parse_scaled(text, time_units, "nanoseconds");
    case OptionType::choice:
      return parse_choice(spec, text);
    case OptionType::text:
      return parse_text(text);
  }
  return problem("of an unknown type");
}

/// The largest unit that divides the number; decimal before binary for equal length is never ambiguous in
/// practice, since a power of 1000 is a multiple of 1024 only from 1000^10 on.
std::string format_scaled(std::int64_t number, std::span<const Unit> units, std::string_view zero) {
  if (number == 0) return std::string(zero);
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (number % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  }
  return std::to_string(number / best->factor) + std::string(best->name);
}

}  // namespace

ParsedValue parse_value(const OptionSpec& spec, std::string_view text) {
  ParsedValue parsed = parse_by_type(spec, text);
  if (!parsed.problem.empty() || !has_limits(spec.type)) return parsed;
  if (parsed.number < spec.minimum)
    return problem("below the minimum of " + format_value(spec.type, spec.minimum));
  if (parsed.number > spec.maximum)
    return problem("above the maximum of " + format_value(spec.type, spec.maximum));
  if (spec.power_of_two && !std::has_single_bit(static_cast<std::uint64_t>(parsed.number))) {
    return problem("not a power of two");
  }
  return parsed;
}

std::string format_value(OptionType type, std::int64_t number) {
  switch (type) {
    case OptionType::flag:
      return number != 0 ? "yes" : "no";
    case OptionType::automatic:
      return number == automatic_number ? "auto" : format_value(OptionType::flag, number);
    case OptionType::bytes:
      return format_scaled(number, byte_units, "0");
    case OptionType::duration:
      return format_scaled(number, time_units, "0s");
    default:
      return std::to_string(number);
  }
}

}  // namespace craton
