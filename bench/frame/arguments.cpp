#include "frame/arguments.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace craton::bench {
namespace {

std::optional<int> value_of(std::string_view argument, std::string_view name, int least, int most) {
  if (!argument.starts_with(name)) return std::nullopt;
  const std::string_view text = argument.substr(name.size());
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

}  // namespace

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (const auto rounds = value_of(argument, "--rounds=", 1, 10'000)) {
      arguments.rounds = *rounds;
    } else if (const auto turn_ms = value_of(argument, "--turn-ms=", 1, 60'000)) {
      arguments.turn_ns = TimeNs{*turn_ms} * 1'000'000;
    } else if (const auto first = value_of(argument, "--first-round=", 0, 10'000)) {
      arguments.first_round = *first;
    } else {
      std::fprintf(
          stderr,
          "%s: cannot use '%s'; usage: [--rounds=1..10000] [--turn-ms=1..60000] [--first-round=0..10000]\n",
          argv[0], argv[i]);
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace craton::bench
