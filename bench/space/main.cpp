// The coherent space: faults, upgrades, barriers and merges beside the least that they could cost; programs
// under all dials; figures 3.1, 3.22, 3.23, 3.30 and 3.31 of the dissertation; strong blocks. Each part has
// processes of its own. `--part=NAME` runs one of them.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "space/ranks.hpp"

namespace craton::bench {
namespace {

struct Part {
  std::string_view name;
  void (*over_each)(const Arguments&, std::string_view transport);
  void (*once)(const Arguments&);
  int of_rounds;  ///< one in so many
  TimeNs of_turn;
};
constexpr Part parts[] = {{"faults", &measure_faults, nullptr, 1, 1},
                          {"barrier", nullptr, &measure_barrier, 1, 1},
                          {"merge", nullptr, &measure_merge, 1, 1},
                          {"fences", &measure_fences, nullptr, 2, 1},
                          {"computing", &measure_computing, nullptr, 5, 1},
                          {"remote-write", &measure_remote_write, nullptr, 2, 2},
                          {"dials", &measure_dials, nullptr, 2, 1},
                          {"notices", &measure_notices, nullptr, 2, 1},
                          {"reading", &measure_reading, nullptr, 2, 2},
                          {"false-sharing", &measure_false_sharing, nullptr, 2, 5},
                          {"strong", &measure_strong, nullptr, 1, 1}};

void run(const Arguments& arguments, std::string_view wanted) {
  for (const Part& part : parts) {
    if (!wanted.empty() && part.name != wanted) continue;
    Arguments own = arguments;
    own.rounds = std::max(1, arguments.rounds / part.of_rounds);
    own.turn_ns = std::max<TimeNs>(1'000'000, arguments.turn_ns / part.of_turn);
    const TimeNs begun = now_ns();
    if (part.once != nullptr) part.once(own);
    for (const char* const transport : transports) {
      if (part.over_each != nullptr) part.over_each(own, transport);
    }
    std::fprintf(stderr, "space: %s took %.1f s\n", std::string(part.name).c_str(),
                 static_cast<double>(now_ns() - begun) / 1e9);
  }
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  std::vector<char*> others(argv, argv + argc);
  std::string_view part;
  constexpr std::string_view option = "--part=";
  if (argc > 1 && std::string_view(argv[1]).starts_with(option)) {
    part = std::string_view(argv[1]).substr(option.size());
    others.erase(others.begin() + 1);
  }
  try {
    run(parse_arguments(static_cast<int>(others.size()), others.data()), part);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "space: %s\n", error.what());
    return 1;
  }
}
