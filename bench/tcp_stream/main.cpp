// Bandwidth of puts and gets over tcp beside the same bytes over a bare socket.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "base/error.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"
#include "tcp_stream/tcp_stream.hpp"

namespace craton::bench {
namespace {

constexpr fabric::RegionId region = 1;
constexpr std::size_t region_bytes = std::size_t{128} << 20;

struct Case {
  std::size_t bytes;
  std::uint32_t window;  ///< window * bytes fits the region
};
constexpr Case cases[] = {{std::size_t{64} << 10, 16}, {std::size_t{1} << 20, 8}, {std::size_t{64} << 20, 2}};

/// Enough pieces for a turn at 1 GB/s, a byte a nanosecond, and each piece of memory at least once.
std::uint64_t pieces(const Case& each, TimeNs turn_ns) {
  return std::max<std::uint64_t>(each.window, static_cast<std::uint64_t>(turn_ns) / each.bytes);
}

/// Bytes there and back again: a stream that lost some would be fast.
void check_stream(fabric::Fabric& fabric, std::byte* local) {
  constexpr Case checked = cases[1];
  const std::size_t bytes = checked.bytes * checked.window;
  for (std::size_t i = 0; i < bytes; ++i) local[i] = static_cast<std::byte>(i * 31 >> 3);
  static_cast<void>(
      craton_turn(fabric, region, local, {Direction::put, checked.bytes, checked.window, checked.window}));
  std::memset(local, 0, bytes);
  static_cast<void>(
      craton_turn(fabric, region, local, {Direction::get, checked.bytes, checked.window, checked.window}));
  for (std::size_t i = 0; i < bytes; ++i) {
    if (local[i] != static_cast<std::byte>(i * 31 >> 3)) {
      throw Error(ErrorCode::protocol,
                  {"cannot measure a stream", "what was put is not what was got", "", ""});
    }
  }
}

void measure_all(const Arguments& arguments, UniqueFd end, fabric::Fabric& fabric, TargetControl& control,
                 std::byte* local) {
  BareSocket socket(std::move(end));
  check_stream(fabric, local);
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const Case& each : cases) {
      for (const Direction direction : {Direction::get, Direction::put}) {
        const std::string what = (direction == Direction::get ? "get " : "put ") + size_text(each.bytes);
        const Stream stream{direction, each.bytes, each.window, pieces(each, arguments.turn_ns)};
        report_rate({"tcp_stream", what, "craton", round}, "GB/s",
                    craton_turn(fabric, region, local, stream));
        report_rate({"tcp_stream", what, "bare", round}, "GB/s", bare_turn(socket, local, stream));
      }
    }
  }
  control.set_mode(TargetMode::quit);
}

void measure(const Arguments& arguments, UniqueFd end, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  const fabric::RegionMemory local("bench-local", region_bytes);
  std::memset(local.data(), 1, region_bytes);  // page faults are no part of a stream
  TargetControl control(fabric);
  fabric.register_region(region, mine);
  measure_all(arguments, std::move(end), fabric, control, local.data());
  // The bare socket has gone by now: the target waits for that before it ends the region with us.
  fabric.unregister_region(region);
}

void serve(UniqueFd end, fabric::WiredFabric& fabric) {
  const fabric::RegionMemory mine("bench", region_bytes);
  std::memset(mine.data(), 1, region_bytes);
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
    std::fprintf(stderr, "tcp_stream: %s\n", error.what());
    return 1;
  }
  return 0;
}
