// User-level threads beside those of other libraries and those of the kernel.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "fibers/fibers.hpp"
#include "frame/arguments.hpp"
#include "frame/own_process.hpp"
#include "frame/placement.hpp"
#include "frame/report.hpp"

namespace craton::bench {
namespace {

constexpr std::string_view kernel = "fibers";
constexpr unsigned turn_limit_s = 60;

struct FiberCase {
  std::string_view what;
  Workload workload;
  unsigned workers;
};
constexpr FiberCase cases[] = {
    {"context switch there and back", Workload::context_switch, 1},
    {"fork and join, 1 worker", Workload::fork_join, 1},
    {"fork and join, 2 workers", Workload::fork_join, 2},
    {"mutex, 1 worker", Workload::mutex, 1},
    {"mutex, 2 workers", Workload::mutex, 2},
    {"mutex, holder yields, 1 worker", Workload::yielding_mutex, 1},
    {"mutex, holder yields, 2 workers", Workload::yielding_mutex, 2},
    {"barrier, 1 worker", Workload::barrier, 1},
    {"barrier, 2 workers", Workload::barrier, 2},
    {"yield", Workload::yield, 1},
    {"mutex, uncontended", Workload::uncontended_mutex, 1},
};

/// Of all that this was built with; tells scripts/bench what that is.
std::vector<Way> all_ways() {
  std::vector<Way> ways;
  const auto add = [&ways](const std::vector<Way>& more) {
    ways.insert(ways.end(), more.begin(), more.end());
  };
  add(craton_ways());
#if defined(CRATON_BENCH_HAVE_BOOST)
  add(boost_context_ways());
  add(boost_fiber_ways());
  report_rival("boost", boost_version());
#else
  report_problem("boost.context, boost.fiber",
                 "not measured: CMake did not find them (libboost-context-dev, libboost-fiber-dev)");
#endif
#if defined(CRATON_BENCH_HAVE_ONETBB)
  add(onetbb_ways());
  report_rival("onetbb", onetbb_version());
#else
  report_problem("onetbb", "not measured: CMake did not find it (libtbb-dev)");
#endif
  add(kernel_thread_ways());
  return ways;
}

/// \returns false if it is ours and broke; a rival that breaks is reported, and its other turns are not worth
/// less
bool take_turn(const FiberCase& each, const Way& way, int round, const Arguments& arguments) {
  const std::string problem = in_own_process(turn_limit_s, [&] {
    pin_to_first(each.workers);
    report_time({kernel, each.what, way.variant, round}, way.turn({each.workers, arguments.turn_ns}));
  });
  if (problem.empty()) return true;
  if (!way.variant.starts_with("craton")) {
    report_problem(way.variant, std::string(each.what) + ": " + problem);
    return true;
  }
  std::fprintf(stderr, "%s, %s, round %d: %s\n", way.variant.data(), each.what.data(), round,
               problem.c_str());
  return false;
}

bool measure(const Arguments& arguments) {
  const std::vector<Way> ways = all_ways();
  bool good = true;
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const FiberCase& each : cases) {
      for (const Way& way : ways) {
        if (way.workload == each.workload) good &= take_turn(each, way, round, arguments);
      }
    }
  }
  return good;
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    return measure(arguments) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fibers: %s\n", error.what());
    return 1;
  }
}
