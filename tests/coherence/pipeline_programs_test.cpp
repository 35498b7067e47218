/// \file
/// Pipelines as NPB LU has them (docs/run.md: a flag with `flush`): threads in a row hand planes on by flags.
/// A flag lies between two threads, and both write it: the first sets it when its part of a plane is done and
/// it is clear, the second clears it when it has seen it. One sweep goes up, the next one down, with a
/// barrier between.
///
///     tell:      flush; while (flag) flush; flag = 1; flush
///     wait_for:  while (!flag) flush; flag = 0; flush
///
/// Flags, and what different threads write, share blocks: so these are merged, and their homes move, all the
/// time. A flag set or cleared in vain ends in threads that wait for ever, or in a part that is too old.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/sim/random.hpp"
#include "random_dials.hpp"
#include "schedules.hpp"
#include "sim_run.hpp"
#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr std::array<std::pair<const char*, Counters::Count Counters::*>, 6> pipeline_counts{{
    {"merges", &Counters::merges},
    {"merged alone", &Counters::merged_alone},
    {"sole", &Counters::sole},
    {"migrated", &Counters::migrated},
    {"kept", &Counters::kept},
    {"sent", &Counters::sent},
}};

class PipelineRun : public SimRun {
 public:
  explicit PipelineRun(std::uint64_t seed) : SimRun(seed, 0x70697065ULL) {}

  std::string go() {
    const Rank ranks = static_cast<Rank>(random_.between(2, 4));
    threads_a_rank_ = static_cast<unsigned>(random_.between(1, 2));
    threads_ = ranks * threads_a_rank_;
    planes_ = random_.between(1, 4);
    steps_ = random_.between(1, 3);
    spread_ = random_.pick(std::array<std::uint64_t, 3>{1, 2, 8});
    shape_.block_bytes = block_bytes;
    shape_.blocks = (first_part() + 2 * planes_ * threads_) * word_bytes / block_bytes + 1;
    shape_.initial_homes.kind = random_.one_in(2) ? InitialHomes::Kind::cyclic : InitialHomes::Kind::one;
    shape_.initial_homes.rank = static_cast<Rank>(random_.below(ranks));
    shape_.dials = random_dials(random_);
    if (!random_.one_in(4)) let_migrate(shape_.dials);
    // Without twins at their homes others see what is not published, and never is if it is written back.
    if (shape_.dials.release == Release::fast) shape_.dials.hot_blocks = true;
    const std::size_t notices = random_.pick(std::array<std::size_t, 3>{1, 16, 1024});
    make_world(ranks);
    const std::string failure = run_ranks([this, notices](SimFabric& fabric) { main(fabric, notices); });
    return told(failure, "Part/PipelinePrograms.*/0",
                "\n  " + std::to_string(threads_) + " threads, " + std::to_string(threads_a_rank_) +
                    " a rank, " + std::to_string(planes_) + " planes\n  " + describe(shape_.dials) +
                    "\n  notices: " + std::to_string(notices));
  }

 private:
  static constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  static constexpr TimeNs poll_at_most_ns = 100'000'000;  ///< ranks pause for 10 ms and more
  static constexpr std::uint64_t pause_ns = 2'000;

  void main(SimFabric& fabric, std::size_t notices) {
    const Rank rank = fabric.rank();
    ranks_[rank] = std::make_unique<SimRank>(
        fabric, std::vector{shape_},
        SpaceDials{.notice_capacity = notices, .barrier_factor = seed_ % 2 == 0 ? 1U : 16U}, threads_a_rank_,
        1);
    unsigned running = threads_a_rank_;
    for (unsigned local = 0; local < threads_a_rank_; ++local) {
      world_->spawn(rank, [&, this, local](SimFabric& same) {
        run_thread(*ranks_[same.rank()], same.rank() * threads_a_rank_ + local);
        --running;
        same.notify();
      });
    }
    static_cast<void>(fabric.wait_until([&] { return running == 0; }, no_deadline));
    SimRank& own = *ranks_[rank];
    own.close();
    for (const auto& [name, count] : pipeline_counts) seen[name] += own.protocol().count(count);
  }

  void run_thread(SimRank& rank, std::uint64_t thread) {
    const bool is_first = thread == 0;
    const bool is_last = thread + 1 == threads_;
    rank.barrier().wait(1);
    for (std::uint64_t step = 1; step <= steps_; ++step) {
      for (std::uint64_t plane = 0; plane < planes_; ++plane) {
        if (!is_first) wait_for(rank, thread);
        if (!is_first) expect(rank, part(false, plane, thread - 1), step);
        work();
        write(rank, 0, part(false, plane, thread), step);
        if (!is_last) tell(rank, thread + 1);
      }
      rank.barrier().wait(2);
      for (std::uint64_t plane = planes_; plane-- > 0;) {
        if (!is_last) wait_for(rank, thread + 1);
        if (!is_last) expect(rank, part(true, plane, thread + 1), step);
        work();
        write(rank, 0, part(true, plane, thread), step);
        if (!is_first) tell(rank, thread);
      }
      rank.barrier().wait(3);
    }
  }

  void wait_for(SimRank& rank, std::uint64_t flag) {
    poll_until(rank, flag, 1);
    write(rank, 0, flag_word(flag), 0);
    flush(rank);
  }
  void tell(SimRank& rank, std::uint64_t flag) {
    flush(rank);
    poll_until(rank, flag, 0);
    write(rank, 0, flag_word(flag), 1);
    flush(rank);
  }
  void poll_until(SimRank& rank, std::uint64_t flag, std::uint64_t wanted) {
    const Clock& clock = rank.fabric().clock();
    const TimeNs until_ns = clock.now_ns() + poll_at_most_ns;
    bool is_news = true;  // since the flag was looked at before
    while (read(rank, 0, flag_word(flag)) != wanted) {
      if (clock.now_ns() > until_ns) {
        world_->fail("flag " + std::to_string(flag) + " is never " + std::to_string(wanted));
        return;
      }
      is_news = rank.protocol().flush();
      work();
    }
    // Else a thread could see the flag before what was flushed before it. Another thread's flush may bring
    // it; and a directory takes the copy away when the flag is written.
    if (!is_news && threads_a_rank_ == 1 && shape_.dials.invalidation == Invalidation::leases)
      world_->fail("flag " + std::to_string(flag) + " changed by a flush that found nothing");
  }
  void expect(SimRank& rank, std::uint64_t word, std::uint64_t wanted) {
    const std::uint64_t found = read(rank, 0, word);
    if (found != wanted)
      world_->fail("word " + std::to_string(word) + " is " + std::to_string(found) + " instead of " +
                   std::to_string(wanted));
  }
  static void flush(SimRank& rank) { static_cast<void>(rank.protocol().flush()); }
  void work() {
    if (random_.one_in(3)) world_->compute(static_cast<TimeNs>(random_.below(pause_ns)));
  }

  // Words: flags, then what the threads make of planes, upwards and downwards.
  std::uint64_t flag_word(std::uint64_t flag) const noexcept { return flag * spread_; }
  std::uint64_t first_part() const noexcept { return (threads_ + 1) * spread_; }
  std::uint64_t part(bool down, std::uint64_t plane, std::uint64_t thread) const noexcept {
    return first_part() + ((down ? planes_ : 0) + plane) * threads_ + thread;
  }
  SegmentShape shape_;
  unsigned threads_a_rank_ = 1;
  std::uint64_t threads_ = 0;
  std::uint64_t planes_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t spread_ = 1;  ///< words from a flag to the next
};

class PipelinePrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(PipelinePrograms, HandOnEachPlaneOnce) {
  const Schedules all = run_schedules<PipelineRun>(GetParam(), schedules_wanted(4'000, 200));
  expect_all_seen(all, pipeline_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, PipelinePrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::coherence::test
