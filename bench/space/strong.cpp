// A strong block that two ranks write in turn: a transfer is the read fault and the write fault of who comes
// next. Beside the same two faults on release blocks, which order nothing. The rank whose turn it is not
// sleeps, which leaves its CPU to its service and shows the transfers themselves; or it looks at the block,
// as programs with flags do, beside its service on the same CPU.
#include "space/strong.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "space/ranks.hpp"
#include "space/touches.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = 4096;
/// So many transfers the other rank sleeps through: one alone would be measured with its falling asleep.
constexpr std::size_t blocks = 256;
constexpr Order take_all = quit_order + 1;
constexpr std::uint64_t the_end = ~std::uint64_t{0};

/// Prefetching would leave no faults to measure.
space::SegmentOptions segment_options(std::size_t block_count, coherence::Strength strength) {
  return {.name = "bench",
          .bytes = block_count * block_bytes,
          .block_bytes = block_bytes,
          .initial_homes = {},
          .dials = {.prefetch = false, .strength = strength}};
}

struct Times {
  std::vector<double> read_ns;
  std::vector<double> write_ns;
};

Sample summary(std::vector<double> times_ns) {
  double sum_ns = 0;
  for (const double time_ns : times_ns) sum_ns += time_ns;
  const std::size_t count = times_ns.size();
  return summarise(times_ns, count, static_cast<TimeNs>(sum_ns));
}

void report_strong(std::string_view transport, const std::string& what, const char* variant, int round,
                   const Sample& sample) {
  report_time({space_kernel, std::string(transport) + ": strong: " + what, variant, round}, sample);
}

std::byte next_value(std::byte value) {
  return static_cast<std::byte>(static_cast<unsigned>(value) + 1);
}

/// Rank 0 takes all blocks, each touch timed, then rank 1 does, and so on; who does not take sleeps.
void take_turns(SpaceRank& rank, Steering& steering, TimeNs turn_ns, coherence::Strength strength,
                Times& times) {
  std::byte* const data = rank.space.create_segment(segment_options(blocks, strength)).data();
  auto value = std::byte{0};
  const auto take = [&](Times& taken) {
    time_reads(data, blocks, block_bytes, taken.read_ns);
    // What the other rank has written, and before the first turn nobody.
    for (std::size_t i = 0; i < blocks; ++i) {
      if (data[i * block_bytes] != value)
        throw Error(ErrorCode::protocol, {"cannot measure transfers", "a write was lost", "", ""});
    }
    value = next_value(value);
    time_writes(data, blocks, block_bytes, value, taken.write_ns);
    value = next_value(value);
  };
  const auto meet = [&] {
    // Strong blocks know without.
    if (strength == coherence::Strength::release) rank.barrier();
  };
  if (rank.rank() == 0) value = next_value(value);  // the second to take
  if (rank.rank() != 0) {
    Times not_counted;
    while (steering.next() != quit_order) {
      meet();
      take(not_counted);
      meet();
      steering.done();
    }
    return;
  }
  const auto iterate = [&] {
    steering.order(take_all);
    meet();
    meet();
    steering.wait_until_done();
    take(times);
  };
  iterate();
  iterate();
  times = {};
  const TimeNs until = now_ns() + turn_ns;
  do iterate();
  while (now_ns() < until);
  steering.order(quit_order);
}

/// Each in turn stores a number that follows the one it has seen, and looks until the other has done so.
/// \returns half round trips
std::vector<double> ping_pong(SpaceRank& rank, TimeNs turn_ns, bool yields) {
  std::byte* const data = rank.space.create_segment(segment_options(1, coherence::Strength::strong)).data();
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(data));
  const auto wait_for = [&](std::uint64_t wanted) {
    std::uint64_t seen = 0;
    while ((seen = word.load()) != wanted && seen != the_end) {
      if (yields) ::sched_yield();
    }
    return seen;
  };
  rank.barrier();
  std::vector<double> times_ns;
  if (rank.rank() == 0) {
    const TimeNs warm_until = now_ns() + turn_ns / 10;
    TimeNs before = now_ns();
    std::uint64_t next = 1;
    while (before < warm_until + turn_ns || times_ns.empty()) {
      word.store(next);
      next = wait_for(next + 1) + 1;
      const TimeNs after = now_ns();
      if (before >= warm_until) times_ns.push_back(static_cast<double>(after - before) / 2);
      before = after;
    }
    word.store(the_end);
  } else {
    for (std::uint64_t next = 1; wait_for(next) != the_end; next += 2) word.store(next + 1);
  }
  rank.barrier();
  return times_ns;
}

void measure_transfers(const Arguments& arguments, std::string_view transport) {
  constexpr const char* slept = "transfer, the other sleeps";
  constexpr const char* looked = "transfer, the other looks";
  constexpr const char* yielded = "transfer, the other looks and yields";
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const auto strength : {coherence::Strength::strong, coherence::Strength::release}) {
      const char* const variant = strength == coherence::Strength::strong ? "strong" : "release";
      const Forked<Steering> steering;
      run_space(transport, 2, {}, [&](SpaceRank& rank) {
        Times times;
        take_turns(rank, *steering, arguments.turn_ns, strength, times);
        if (rank.rank() != 0) return;
        std::vector<double> both_ns;
        for (std::size_t i = 0; i < times.read_ns.size(); ++i)
          both_ns.push_back(times.read_ns[i] + times.write_ns[i]);
        const Sample both = summary(both_ns);
        report_strong(transport, slept, variant, round, both);
        report_strong(transport, "read fault", variant, round, summary(times.read_ns));
        report_strong(transport, "write fault", variant, round, summary(times.write_ns));
        if (strength == coherence::Strength::strong) return;
        // What the ping-pongs are beside, too.
        report_strong(transport, looked, variant, round, both);
        report_strong(transport, yielded, variant, round, both);
      });
    }
    for (const bool yields : {false, true}) {
      run_space(transport, 2, {}, [&](SpaceRank& rank) {
        const std::vector<double> times_ns = ping_pong(rank, arguments.turn_ns, yields);
        if (rank.rank() == 0)
          report_strong(transport, yields ? yielded : looked, "strong", round, summary(times_ns));
      });
    }
  }
}

}  // namespace

void measure_strong(const Arguments& arguments, std::string_view transport) {
  measure_transfers(arguments, transport);
  Arguments fewer = arguments;
  fewer.rounds = std::max(1, arguments.rounds / 2);
  measure_counters(fewer, transport);
  measure_store(fewer, transport);
}

}  // namespace craton::bench
