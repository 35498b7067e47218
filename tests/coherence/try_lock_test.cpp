/// \file
/// Threads of several ranks that lock a mutex, or take it if nobody has it: random programs on simulated
/// ranks. Who does not get it can name one who had it, or was about to, in the meantime: what others try in
/// vain is no reason.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/sim/random.hpp"
#include "schedules.hpp"
#include "sim_run.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr space::MutexId mutex = 1;

class TryLockRun : public SimRun {
 public:
  explicit TryLockRun(std::uint64_t seed) : SimRun(seed, 0x747279ULL) {}

  std::string go() {
    const Rank ranks = static_cast<Rank>(random_.between(2, 5));
    threads_ = static_cast<unsigned>(random_.between(1, 2));
    lock_one_in_ = random_.pick(std::array<std::uint64_t, 3>{2, 8, 64});
    make_world(ranks);
    std::string failure = run_ranks([this](SimFabric& fabric) { main(fabric); });
    if (failure.empty()) failure = unfounded();
    seen["taken"] += holds_.size();
    seen["not taken"] += failures_.size();
    return told(failure, "Part/TryLock.*/0");
  }

 private:
  /// Of the run's moments, from the first to the last.
  struct Span {
    std::uint64_t first;
    std::uint64_t last;
  };

  void main(SimFabric& fabric) {
    const Rank rank = fabric.rank();
    ranks_[rank] = std::make_unique<SimRank>(fabric, std::vector{SegmentShape{}}, SpaceDials{}, 1, mutex + 1);
    SimRank& own = *ranks_[rank];
    own.barrier().wait();
    unsigned running = threads_;
    for (unsigned thread = 0; thread < threads_; ++thread) {
      world_->spawn(rank, [&, this](SimFabric& same) {
        for (unsigned step = 0; step < steps; ++step) visit(own.mutexes());
        --running;
        same.notify();
      });
    }
    static_cast<void>(fabric.wait_until([&] { return running == 0; }, no_deadline));
    own.barrier().wait();
    own.close();
  }

  void visit(space::Mutexes& mutexes) {
    if (random_.one_in(2)) world_->compute(static_cast<TimeNs>(random_.below(pause_ns)));
    Span span{.first = ++moment_, .last = 0};
    if (random_.one_in(lock_one_in_)) {
      mutexes.lock(mutex);
    } else if (!mutexes.try_lock(mutex)) {
      span.last = ++moment_;
      return failures_.push_back(span);
    }
    if (holders_++ != 0) world_->fail("two threads have the mutex");
    if (random_.one_in(2)) world_->compute(static_cast<TimeNs>(random_.below(pause_ns)));
    --holders_;
    mutexes.unlock(mutex);
    span.last = ++moment_;
    holds_.push_back(span);
  }

  /// What went wrong where nobody else had the mutex, or got it soon after.
  std::string unfounded() const {
    const auto is_unfounded = [&](const Span& failed) {
      return std::none_of(holds_.begin(), holds_.end(), [&](const Span& hold) {
        return hold.first <= failed.last && hold.last >= failed.first;
      });
    };
    const auto found = std::find_if(failures_.begin(), failures_.end(), is_unfounded);
    if (found == failures_.end()) return {};
    return "between moments " + std::to_string(found->first) + " and " + std::to_string(found->last) +
           " nobody had the mutex, and yet it could not be taken";
  }

  static constexpr unsigned steps = 12;
  static constexpr std::uint64_t pause_ns = 4'000;

  unsigned threads_ = 1;  ///< of each rank
  std::uint64_t lock_one_in_ = 2;
  unsigned holders_ = 0;
  std::uint64_t moment_ = 0;
  std::vector<Span> holds_;
  std::vector<Span> failures_;
};

class TryLock : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TryLock, FailsOnlyWhereSomebodyHasTheMutex) {
  const Schedules all = run_schedules<TryLockRun>(GetParam(), schedules_wanted(20'000, 500));
  EXPECT_GT(all.seen.at("taken"), 0U);
  EXPECT_GT(all.seen.at("not taken"), 0U);
}

INSTANTIATE_TEST_SUITE_P(Part, TryLock, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::coherence::test
