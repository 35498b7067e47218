// A barrier of two ranks that have written nothing, beside one of two futexes between the same processes,
// which waits alike: 20 us of looking, then asleep.
#include "space/ranks.hpp"

namespace craton::bench {
namespace {

constexpr std::uint64_t batch = 512;
enum Orders : Order { meet_ours = quit_order + 1, meet_bare };

/// Each publishes how often it has come, and waits for the other.
struct BareBarrier {
  alignas(64) SharedCounter come[2];

  void wait(fabric::Rank rank) noexcept {
    SharedCounter& own = come[rank];
    SharedCounter& other = come[1 - rank];
    const std::uint32_t generation = own.load() + 1;
    own.publish(generation);
    // The other may be one ahead, never one behind.
    if (other.load() == generation - 1) static_cast<void>(other.wait_beyond(generation - 1));
  }
};

}  // namespace

void measure_barrier(const Arguments& arguments) {
  const Forked<Steering> steering;
  const Forked<BareBarrier> bare;
  run_space("shm", 2, {}, [&](SpaceRank& rank) {
    const auto meet = [&](Order order) {
      for (std::uint64_t i = 0; i < batch; ++i) {
        if (order == meet_ours) {
          rank.barrier();
        } else {
          bare->wait(rank.rank());
        }
      }
    };
    if (rank.rank() == 1) {
      for (Order order = steering->next(); order != quit_order; order = steering->next()) {
        bare->wait(1);
        meet(order);
        steering->done();
      }
      return;
    }
    for (int round = 0; round < arguments.rounds; ++round) {
      for (const Order order : {meet_ours, meet_bare}) {
        std::vector<double> times_ns;
        TimeNs all_ns = 0;
        const TimeNs until = now_ns() + arguments.turn_ns;
        do {
          steering->order(order);
          bare->wait(0);
          const TimeNs start = now_ns();
          meet(order);
          const TimeNs elapsed = now_ns() - start;
          steering->wait_until_done();
          all_ns += elapsed;
          times_ns.push_back(static_cast<double>(elapsed) / batch);
        } while (now_ns() < until);
        report_time(
            {space_kernel, "shm: barrier, nothing written", order == meet_ours ? "craton" : "bare", round},
            summarise(times_ns, times_ns.size() * batch, all_ns));
      }
    }
    steering->order(quit_order);
  });
}

}  // namespace craton::bench
