// Ours, as the rivals' programs do it: put, get and fetch-and-add, each complete at the target before the
// next one, while the target waits and while it computes. scripts/bench runs this and the rivals in turn.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "base/error.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"

namespace craton::bench {
namespace {

constexpr fabric::RegionId region = 1;
constexpr std::size_t region_bytes = std::size_t{1} << 20;
/// A busy target is measured for longer: its threads take turns of some milliseconds.
constexpr int computing_turns = 5;

enum class Operation { get, put, fetch_add };
struct Case {
  const char* name;
  Operation operation;
  std::size_t bytes;
};
// The same as in mpi_rma.c.
constexpr Case cases[] = {{"get 8 B", Operation::get, 8},
                          {"get 4 KiB", Operation::get, 4096},
                          {"put 8 B", Operation::put, 8},
                          {"put 4 KiB", Operation::put, 4096},
                          {"fetch_add 8 B", Operation::fetch_add, 8}};

Sample turn(fabric::Fabric& fabric, const Case& each, std::byte* local, TimeNs turn_ns) {
  const fabric::RemoteAddress remote{1, region, 0};
  return time_batches(turn_ns, [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      fabric::Completion completion;
      switch (each.operation) {
        case Operation::get:
          fabric.get(local, remote, each.bytes, completion);
          break;
        case Operation::put:
          fabric.put(remote, local, each.bytes, completion);
          break;
        case Operation::fetch_add:
          fabric.fetch_add(remote, 1, reinterpret_cast<std::uint64_t*>(local), completion);
          break;
      }
      if (fabric.wait(completion) != fabric::Status::ok) {
        throw Error(ErrorCode::peer_lost, {"cannot measure an operation", "it failed", "", ""});
      }
      touch_memory(local);
    }
  });
}

void measure(const Arguments& arguments, const std::string& transport, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  const fabric::RegionMemory local("bench-local", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  for (const TargetMode mode : {TargetMode::waiting, TargetMode::computing}) {
    const bool computing = mode == TargetMode::computing;
    control.set_mode(mode);
    for (const Case& each : cases) {
      const std::string what =
          transport + ": " + each.name + (computing ? ", target computes" : ", target waits");
      report_time({"rivals", what, "craton", arguments.first_round},
                  turn(fabric, each, local.data(), arguments.turn_ns * (computing ? computing_turns : 1)));
    }
  }
  control.set_mode(TargetMode::quit);
  fabric.unregister_region(region);
}

void serve(fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  control.serve();
  fabric.unregister_region(region);
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    run_pair(
        over_shm(), [&](auto& fabric) { measure(arguments, "shm", fabric); }, serve);
    run_pair(
        over_tcp(), [&](auto& fabric) { measure(arguments, "tcp", fabric); }, serve);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rivals: %s\n", error.what());
    return 1;
  }
  return 0;
}
