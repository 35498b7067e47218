/// \file
/// Reading and writing option values: numbers with units, exactly, in integer arithmetic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/option_table.hpp"

namespace craton {

/// Of OptionType::automatic, where it is neither yes nor no.
inline constexpr std::int64_t automatic_number = 2;

/// What a text means for an option, or what is wrong with it.
struct ParsedValue {
  std::int64_t number = 0;  ///< integer; bytes; nanoseconds; 0 or 1 for a flag, or automatic_number; 0 for
                            ///< choice and text
  std::string problem;      ///< empty if the value may be used, else "not a power of two"
};

/// Parses a value and checks it against the limits of its line.
ParsedValue parse_value(const OptionSpec& spec, std::string_view text);

/// A value of the option's type as a person would write it: 65536 bytes are "64Ki", 20000 ns are "20us".
std::string format_value(OptionType type, std::int64_t number);

}  // namespace craton
