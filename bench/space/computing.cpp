// What a rank that computes for seconds without a call into the library costs the others: read faults, a
// mutex that it held last, releases of blocks whose home it is; beside the same while it sleeps.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::size_t block_bytes = 4096;
/// What the target computes at a stretch, in turns of the kernel: 0.5 s with --quick, else 5 s.
constexpr TimeNs stretch_turns = 100;
constexpr TimeNs sleeping_stretch_part = 4;
/// Of each operation. Below what a signature holds, so that none is announced otherwise than by a notice.
constexpr std::size_t most_tries = 400;
enum Orders : Order { sleep_on = quit_order + 1, compute_on };

void pause(TimeNs pause_ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = pause_ns};
  ::nanosleep(&time, nullptr);
}

/// So many of each: blocks to read, blocks to write, mutexes.
struct Initiator {
  const SpaceRank& rank;
  volatile std::byte* data;
  const std::string transport;

  void turn(TimeNs stretch_ns, TimeNs pause_ns, const char* variant, int round) const {
    std::vector<double> read_ns;
    std::vector<double> mutex_ns;
    std::vector<double> release_ns;
    const auto time = [](std::vector<double>& times_ns, const auto& operation) {
      const TimeNs before = now_ns();
      operation();
      times_ns.push_back(static_cast<double>(now_ns() - before));
    };
    const TimeNs until = now_ns() + stretch_ns;
    for (std::size_t i = 0; i < most_tries && now_ns() < until; ++i) {
      time(read_ns, [&] { static_cast<void>(data[i * block_bytes]); });
      data[(most_tries + i) * block_bytes] = std::byte{2};
      time(release_ns, [&] { rank.space.protocol().release(); });
      time(mutex_ns, [&] {
        rank.space.mutexes().lock(static_cast<space::MutexId>(i));
        rank.space.mutexes().unlock(static_cast<space::MutexId>(i));
      });
      pause(pause_ns);
    }
    report(read_ns, "read fault", variant, round);
    report(mutex_ns, "mutex that it held last", variant, round);
    report(release_ns, "release of a block at its home", variant, round);
  }
  void report(std::vector<double>& times_ns, const char* what, const char* variant, int round) const {
    double sum_ns = 0;
    for (const double time_ns : times_ns) sum_ns += time_ns;
    const std::size_t count = times_ns.size();
    report_time({space_kernel, transport + ": beside a rank that computes: " + what, variant, round},
                summarise(times_ns, count, static_cast<TimeNs>(sum_ns)));
  }
};

/// One turn, with ranks of its own, so that what they know at its beginning is the same in each.
void run_turn(std::string_view transport, Order order, TimeNs stretch_ns, TimeNs pause_ns, int round) {
  const Forked<Steering> steering;
  run_space(transport, 2, {}, [&](SpaceRank& rank) {
    std::byte* const data = rank.space
                                .create_segment({.name = "bench",
                                                 .bytes = 2 * most_tries * block_bytes,
                                                 .block_bytes = block_bytes,
                                                 .initial_homes = {},
                                                 .dials = {.prefetch = false}})
                                .data();
    if (rank.rank() == 0) {
      const Initiator initiator{.rank = rank, .data = data, .transport = std::string(transport)};
      steering->order(order);
      rank.barrier(1);
      rank.barrier(2);
      initiator.turn(stretch_ns, pause_ns, order == compute_on ? "craton" : "waiting", round);
      steering->let_go();
      rank.barrier(3);
      return;
    }
    static_cast<void>(steering->next());
    std::memset(data, 1, 2 * most_tries * block_bytes);
    // Not by way of the mutexes: whoever takes those is to pay for them alone.
    rank.barrier(1);
    for (std::size_t i = 0; i < most_tries; ++i) {
      rank.space.mutexes().lock(static_cast<space::MutexId>(i));
      rank.space.mutexes().unlock(static_cast<space::MutexId>(i));
    }
    rank.barrier(2);
    if (order == compute_on) steering->compute();
    rank.barrier(3);
  });
}

}  // namespace

void measure_computing(const Arguments& arguments, std::string_view transport) {
  const TimeNs stretch_ns = arguments.turn_ns * stretch_turns;
  const TimeNs pause_ns = std::min(stretch_ns / static_cast<TimeNs>(most_tries), TimeNs{999'999'999});
  for (int round = 0; round < arguments.rounds; ++round) {
    run_turn(transport, sleep_on, stretch_ns / sleeping_stretch_part, pause_ns, round);
    run_turn(transport, compute_on, stretch_ns, pause_ns, round);
  }
}

}  // namespace craton::bench
