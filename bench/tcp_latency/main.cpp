// The time of an operation over tcp beside a bare ping-pong of the same sizes in the same wait mode, while
// the target's application thread sleeps in a wait and while it computes on the core that serves.
#include <cstdio>
#include <exception>
#include <string>

#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"
#include "tcp_latency/tcp_latency.hpp"

namespace craton::bench {
namespace {

constexpr fabric::RegionId region = 1;
constexpr std::size_t region_bytes = 64 * 1024;
/// While the target computes, its threads take turns of some milliseconds: a turn of ours must hold many of
/// them.
constexpr int computing_turns = 5;

struct Case {
  const char* name;
  Operation operation;
  std::size_t bytes;
};
constexpr Case cases[] = {{"get 8 B", Operation::get, 8},
                          {"get 4 KiB", Operation::get, 4096},
                          {"put 8 B", Operation::put, 8},
                          {"put 4 KiB", Operation::put, 4096},
                          {"fetch_add 8 B", Operation::fetch_add, 8}};

void measure_all(const Arguments& arguments, UniqueFd end, fabric::Fabric& fabric, TargetControl& control,
                 void* local) {
  BareSocket socket(std::move(end));
  const fabric::RemoteAddress remote{1, region, 0};
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const Case& each : cases) {
      for (const TargetMode mode : {TargetMode::waiting, TargetMode::computing}) {
        const bool computing = mode == TargetMode::computing;
        const std::string what =
            std::string(each.name) + (computing ? ", target computes" : ", target waits");
        const TimeNs turn_ns = arguments.turn_ns * (computing ? computing_turns : 1);
        control.set_mode(mode);
        report_time({"tcp_latency", what, "craton", round},
                    craton_turn(fabric, remote, each.operation, local, each.bytes, turn_ns));
        report_time({"tcp_latency", what, "bare", round},
                    bare_turn(socket, each.operation, local, each.bytes, turn_ns));
      }
    }
  }
  control.set_mode(TargetMode::quit);
}

void measure(const Arguments& arguments, UniqueFd end, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  const fabric::RegionMemory local("bench-local", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  measure_all(arguments, std::move(end), fabric, control, local.data());
  // The bare socket has gone by now: the target waits for that before it ends the region with us.
  fabric.unregister_region(region);
}

void serve(UniqueFd end, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  {
    const BareServer server(std::move(end), mine.data(), mine.bytes());
    control.serve();
  }
  fabric.unregister_region(region);
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    TcpPair pair;
    run_pair(
        over_tcp(), [&](auto& fabric) { measure(arguments, pair.keep(0), fabric); },
        [&](auto& fabric) { serve(pair.keep(1), fabric); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tcp_latency: %s\n", error.what());
    return 1;
  }
  return 0;
}
