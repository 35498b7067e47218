// Small messages inside a node and over tcp, each beside the barest way to do the same.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "frame/arguments.hpp"
#include "frame/report.hpp"
#include "frame/target_control.hpp"
#include "frame/two_ranks.hpp"
#include "message_rate/message_rate.hpp"

namespace craton::bench {

std::uint64_t send_for(TimeNs turn_ns, int threads, FunctionRef<void()> send) {
  constexpr int sends_between_clocks = 64;
  const TimeNs until = now_ns() + turn_ns;
  std::atomic<std::uint64_t> total{0};
  const auto sender = [&] {
    std::uint64_t sent = 0;
    do {
      for (int i = 0; i < sends_between_clocks; ++i) send();
      sent += sends_between_clocks;
    } while (now_ns() < until);
    total.fetch_add(sent);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(sender);
  sender();
  others.clear();  // joins
  return total.load();
}

double rate(std::uint64_t sent, std::uint64_t arrived, TimeNs elapsed_ns) {
  if (arrived != sent) {
    throw Error(ErrorCode::protocol, {"cannot measure messages",
                                      fmt::format("{} were sent and {} arrived", sent, arrived), "", ""});
  }
  return static_cast<double>(sent) * 1e9 / static_cast<double>(elapsed_ns);
}

namespace {

struct RateCase {
  std::size_t bytes;
  int threads;
};
constexpr RateCase rate_cases[] = {{8, 1}, {64, 1}, {8, 4}};

void measure(const Arguments& arguments, const std::string& transport, MessageWay& craton, MessageWay& bare) {
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const RateCase& each : rate_cases) {
      const std::string what = fmt::format("{}: {}, {} thread{}", transport, size_text(each.bytes),
                                           each.threads, each.threads == 1 ? "" : "s");
      report_rate({"message_rate", what, "craton", round}, "messages/s",
                  craton.rate_turn(arguments.turn_ns, each.threads, each.bytes));
      report_rate({"message_rate", what, "bare", round}, "messages/s",
                  bare.rate_turn(arguments.turn_ns, each.threads, each.bytes));
    }
    const std::string what = transport + ": round trip 8 B";
    report_time({"message_rate", what, "craton", round}, craton.round_trip_turn(arguments.turn_ns));
    report_time({"message_rate", what, "bare", round}, bare.round_trip_turn(arguments.turn_ns));
  }
}

/// Wires a pair; the bare ways are made in the ranks, after the fork.
template <typename MakeBareWay, typename MakeBareServer>
void run(PairOptions options, const Arguments& arguments, const std::string& transport, MakeBareWay make_bare,
         MakeBareServer make_server) {
  options.placement = Placement::half_each;
  run_pair(
      options,
      [&](fabric::WiredFabric& fabric) {
        const fabric::RegionMemory none("bench", 8);
        CratonMessages craton(fabric);
        TargetControl control(fabric);
        fabric.register_region(1, none);  // collective: the target's handlers are set now
        {
          auto bare = make_bare();
          measure(arguments, transport, craton, *bare);
        }
        control.set_mode(TargetMode::quit);
        fabric.unregister_region(1);
      },
      [&](fabric::WiredFabric& fabric) {
        const fabric::RegionMemory none("bench", 8);
        const CratonMessages craton(fabric);
        TargetControl control(fabric);
        fabric.register_region(1, none);
        {
          const auto server = make_server();
          control.serve();
        }
        fabric.unregister_region(1);
      });
}

void run_shm(const Arguments& arguments) {
  void* memory =
      ::mmap(nullptr, sizeof(SharedRings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error::from_errno("cannot map the bare rings", errno);
  auto* rings = new (memory) SharedRings;
  run(
      over_shm(), arguments, "shm", [rings] { return std::make_unique<RingMessages>(*rings); },
      [rings] { return std::make_unique<RingServer>(*rings); });
  ::munmap(memory, sizeof(SharedRings));
}

void run_tcp(const Arguments& arguments) {
  TcpPair pair;
  std::uint64_t word = 0;
  run(
      over_tcp(), arguments, "tcp", [&pair] { return std::make_unique<SocketMessages>(pair.keep(0)); },
      [&pair, &word] {
        return std::make_unique<BareServer>(pair.keep(1), reinterpret_cast<std::byte*>(&word), sizeof word);
      });
}

}  // namespace
}  // namespace craton::bench

int main(int argc, char** argv) {
  using namespace craton::bench;
  const Arguments arguments = parse_arguments(argc, argv);
  try {
    run_shm(arguments);
    run_tcp(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "message_rate: %s\n", error.what());
    return 1;
  }
  return 0;
}
