// Direct injection, static and dynamic offloading with 1 to 16 requesters: figures 4.2 to 4.6 of the
// dissertation. Every turn of a variant has a pair of processes of its own, since static executors take a
// core also while another variant is measured.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/ucx/ucx.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"
#include "offload/offload.hpp"

namespace craton::bench {
namespace {

using fabric::offload::OffloadMode;

constexpr int requester_counts[] = {1, 2, 4, 8, 16};
constexpr std::size_t latency_bytes[] = {8, 4096};
constexpr std::size_t stream_bytes[] = {8, 64, 512, 4096, 32768, 262144, 1048576};
constexpr std::uint32_t rate_window = 256;
/// A stream has so much in flight, but at least 4 and at most `rate_window` operations.
constexpr std::size_t stream_bytes_in_flight = std::size_t{4} << 20;

struct Variant {
  const char* name;
  OffloadMode mode;
  unsigned endpoints = 1;
  bool gather = true;
};

std::string requesters_text(int count) {
  return fmt::format("{} requester{}", count, count == 1 ? "" : "s");
}

void measure_all(fabric::Fabric& fabric, const std::string& transport, const Variant& variant, int round,
                 TimeNs turn_ns) {
  const auto turn = [&](const std::string& what) { return Turn{"offload", what, variant.name, round}; };
  for (const int requesters : requester_counts) {
    for (const std::size_t bytes : latency_bytes) {
      const LatencySample sample = latency_turn(fabric, requesters, bytes, turn_ns);
      const std::string suffix = fmt::format(" {}, {}", size_text(bytes), requesters_text(requesters));
      report_time(turn(transport + ": latency" + suffix), sample.latency);
      report_time(turn(transport + ": injection" + suffix), sample.injection);
    }
    const std::string what = fmt::format("{}: rate 8 B, {}", transport, requesters_text(requesters));
    report_rate(turn(what), "messages/s", rate_turn(fabric, requesters, 8, rate_window, turn_ns));
  }
  for (const std::size_t bytes : stream_bytes) {
    const auto window =
        static_cast<std::uint32_t>(std::clamp<std::size_t>(stream_bytes_in_flight / bytes, 4, rate_window));
    const double rate = rate_turn(fabric, 1, bytes, window, turn_ns);
    const std::string what = fmt::format("{}: bandwidth {}", transport, size_text(bytes));
    report_rate(turn(what), "GB/s", rate * static_cast<double>(bytes) / 1e9);
  }
  report_rate(turn(transport + ": processor time while idle"), "of a CPU", idle_share(turn_ns));
}

void measure_endpoints(fabric::Fabric& fabric, const std::string& transport, const Variant& variant,
                       int round, TimeNs turn_ns) {
  for (const int requesters : requester_counts) {
    const std::string what = fmt::format("{}: rate by endpoints, {}", transport, requesters_text(requesters));
    report_rate({"offload", what, variant.name, round}, "messages/s",
                rate_turn(fabric, requesters, 8, rate_window, turn_ns));
  }
}

template <typename Measure>
void run(const std::string& transport, const Variant& variant, const Measure& measure) {
  PairOptions options = over_tcp();
  options.placement = Placement::anywhere;
  if (transport == "ucx") {
    options.wired.network = "ucx";
    options.wired.ucx.transports = "tcp";
    options.wired.ucx.devices = "lo";
  }
  options.wired.tcp_gather = variant.gather;
  options.wired.offload = {.mode = variant.mode, .endpoints = variant.endpoints};
  run_pair(
      options,
      [&](fabric::WiredFabric& fabric) {
        const fabric::RegionMemory none("bench", 8);
        TargetControl control(fabric);
        fabric.register_region(offload_region, none);
        measure(fabric);
        control.set_mode(TargetMode::quit);
        fabric.unregister_region(offload_region);
      },
      [&](fabric::WiredFabric& fabric) {
        const fabric::RegionMemory memory("bench", offload_region_bytes);
        TargetControl control(fabric);
        fabric.register_region(offload_region, memory);
        control.serve();
        fabric.unregister_region(offload_region);
      });
}

// The first over tcp only: our ucx posts each anyway.
constexpr Variant variants[] = {{"direct, posting each", OffloadMode::direct, 1, false},
                                {"direct", OffloadMode::direct},
                                {"static", OffloadMode::fixed},
                                {"dynamic", OffloadMode::dynamic}};
constexpr Variant endpoint_variants[] = {{"1 endpoint", OffloadMode::dynamic, 1},
                                         {"2 endpoints", OffloadMode::dynamic, 2},
                                         {"3 endpoints", OffloadMode::dynamic, 3},
                                         {"4 endpoints", OffloadMode::dynamic, 4}};

void run_transport(const std::string& transport, int round, TimeNs turn_ns) {
  for (const Variant& variant : variants) {
    if (!variant.gather && transport != "tcp") continue;
    run(transport, variant,
        [&](fabric::Fabric& fabric) { measure_all(fabric, transport, variant, round, turn_ns); });
  }
  for (const Variant& variant : endpoint_variants) {
    run(transport, variant,
        [&](fabric::Fabric& fabric) { measure_endpoints(fabric, transport, variant, round, turn_ns); });
  }
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    for (int round = 0; round < arguments.rounds; ++round) {
      run_transport("tcp", round, arguments.turn_ns);
      if (craton::fabric::ucx::ucx_availability().available()) {
        run_transport("ucx", round, arguments.turn_ns);
      } else if (round == 0) {
        report_problem("ucx", "UCX is not installed");
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "offload: %s\n", error.what());
    return 1;
  }
  return 0;
}
