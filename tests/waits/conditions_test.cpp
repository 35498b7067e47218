// Conditions and barriers: queues of few places, from which threads that are cancelled, interrupted or out of
// time take nothing; signals that are counted; barriers that are used again at once.
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/scope_exit.hpp"
#include "posix/waits/barriers.hpp"
#include "posix/waits/conditions.hpp"
#include "posix/waits/mutexes.hpp"
#include "programs.hpp"

namespace craton::posix::test {

namespace {

/// A mutex and what threads wait for under it.
class UnderMutex : public WaitingRun {
 protected:
  using WaitingRun::WaitingRun;

  /// \throws Cancelled, with the mutex locked
  int wait_for(pthread_cond_t& condition, TimeNs deadline_ns = no_deadline) {
    Monitor& monitor = job_.monitor();
    let_go();
    const auto unlock_it = [&] { return unlock(monitor, &mutex_); };
    const auto lock_it = [&] { return lock(monitor, &mutex_); };
    // Also where it is cancelled.
    const ScopeExit then([&] { have(); });
    const int got =
        wait(monitor, &condition, {.object = &mutex_, .unlock = unlock_it, .lock = lock_it}, deadline_ns);
    return got == EOWNERDEAD ? make_consistent(monitor, &mutex_) : got;
  }
  void lock_mutex() {
    Monitor& monitor = job_.monitor();
    const int got = lock(monitor, &mutex_);
    job_.require(got == 0 || (got == EOWNERDEAD && make_consistent(monitor, &mutex_) == 0), "locking fails");
    have();
  }
  void unlock_mutex() {
    let_go();
    job_.require(unlock(job_.monitor(), &mutex_) == 0, "unlocking fails");
  }
  /// The thread ends with the mutex, which is robust.
  void die() {
    let_go();
    leave_mutexes(job_.monitor());
  }
  int recover() { return make_consistent(job_.monitor(), &mutex_); }
  void make_robust() {
    pthread_mutexattr_t attributes;
    ::pthread_mutexattr_init(&attributes);
    ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    ::pthread_mutex_init(&mutex_, &attributes);
  }

 private:
  void have() {
    job_.require(owner_ == 0, "two threads have the mutex");
    owner_ = job_.self();
    job_.know_at_least(known_);
    job_.wrote();
  }
  void let_go() {
    job_.require(owner_ == job_.self(), "a thread has the mutex no more");
    owner_ = 0;
    known_ = job_.known();
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_t owner_ = 0;
  Known known_ = Known(job_.size());
};

class QueueRun : public UnderMutex {
 public:
  explicit QueueRun(std::uint64_t seed) : UnderMutex(seed) {}

  std::string go() {
    places_ = random().between(1, 2);
    tells_all_ = random().one_in(3);
    is_robust_ = random().one_in(2);
    if (is_robust_) make_robust();
    to_put_ = to_get_ = random().between(2, 16);
    const Side puts{.left = to_put_, .puts = true, .own = is_room_, .other = is_filled_};
    const Side gets{.left = to_get_, .puts = false, .own = is_filled_, .other = is_room_};
    // Rank 0's first thread and the second one do what is left.
    spawn_threads(2, [&](std::size_t i) {
      const bool may_die = is_robust_ && i >= 2;
      move_all(i % 2 == 0 ? puts : gets, may_die);
    });
    for (std::size_t i = 2; i < threads_.size(); ++i) {
      if (random().one_in(4)) job_.cancel_later(*threads_[i]);
      if (random().one_in(4)) job_.interrupt_later(*threads_[i]);
    }
    const std::string failure = said(job_.run());
    if (failure.empty() && (to_put_ != 0 || to_get_ != 0 || filled_ != 0)) return said("something is left");
    return failure;
  }

 private:
  /// Of what waits for one of the two conditions, and makes the other one hold.
  struct Side {
    std::uint64_t& left;  ///< items to put or to get
    bool puts;
    pthread_cond_t& own;
    pthread_cond_t& other;
  };

  void move_all(const Side& side, bool may_die) {
    lock_mutex();
    try {
      while (side.left != 0) {
        if (filled_ == (side.puts ? places_ : 0)) {
          sleep_on(side.own);
          continue;
        }
        --side.left;
        side.puts ? ++filled_ : --filled_;
        tell(side.other);
        if (side.left == 0) tell_all(side.own);
        if (may_die && random().one_in(16)) return end_early();
        others();
      }
    } catch (const Cancelled&) {
      ++seen["cancelled"];
      static_cast<void>(recover());  // whose owner may have died before
    }
    unlock_mutex();
  }

  void sleep_on(pthread_cond_t& condition) {
    job_.maybe_switch();
    const int got = random().one_in(4) ? wait_for(condition, job_.soon()) : wait_for(condition);
    if (got == ETIMEDOUT) ++seen["not in time"];
    job_.require(got == 0 || got == ETIMEDOUT, "a wait fails");
  }
  void end_early() {
    ++seen["owner died"];
    die();
  }
  void tell(pthread_cond_t& condition) {
    if (tells_all_) return tell_all(condition);
    const bool unlocks = random().one_in(4);
    if (unlocks) unlock_mutex();
    signal(job_.monitor(), &condition, Wakes::one);
    if (unlocks) lock_mutex();
  }
  void tell_all(pthread_cond_t& condition) { signal(job_.monitor(), &condition, Wakes::all); }
  /// Others may have the mutex.
  void others() {
    job_.maybe_switch();
    if (random().one_in(2)) return;
    unlock_mutex();
    lock_mutex();
  }

  pthread_cond_t is_room_ = PTHREAD_COND_INITIALIZER, is_filled_ = PTHREAD_COND_INITIALIZER;
  bool tells_all_ = false, is_robust_ = false;
  std::uint64_t places_ = 0, filled_ = 0, to_put_ = 0, to_get_ = 0;
};

/// Without limits of time as many go on as have been signalled, no more and no fewer.
class SignalsRun : public UnderMutex {
 public:
  explicit SignalsRun(std::uint64_t seed) : UnderMutex(seed) {}

  std::string go() {
    spawn_threads(random().one_in(8) ? 20 : 2, [&](std::size_t) { wait_and_count(); });
    std::size_t signalled = 0;
    while (went_on_ < threads_.size()) {
      if (const std::string failure = job_.run(true); !failure.empty()) return said(failure);
      if (went_on_ != signalled)
        return said(std::to_string(went_on_) + " went on where " + std::to_string(signalled) + " were to");
      const std::size_t left = threads_.size() - signalled;
      const std::size_t more = random().one_in(4) ? left : random().between(1, left);
      const bool all = more == left && random().one_in(2);
      signalled += more;
      if (left > 16) ++seen["more than are remembered"];
      job_.spawn(static_cast<Rank>(random().below(job_.size())),
                 [this, more, all] { signal_some(more, all); });
    }
    return said(job_.run());
  }

 private:
  void wait_and_count() {
    lock_mutex();
    job_.require(wait_for(condition_) == 0, "a wait fails");
    ++went_on_;
    unlock_mutex();
  }
  void signal_some(std::size_t count, bool all) {
    const bool has_mutex = random().one_in(2);
    if (has_mutex) lock_mutex();
    for (std::size_t i = 0; i < (all ? 1 : count); ++i) {
      signal(job_.monitor(), &condition_, all ? Wakes::all : Wakes::one);
      job_.maybe_switch();
    }
    if (has_mutex) unlock_mutex();
  }

  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
  std::size_t went_on_ = 0;
};

/// An ordinary mutex may be unlocked by another thread than the one that has locked it, which then signals
/// without it.
class HandedOverRun : public WaitingRun {
 public:
  explicit HandedOverRun(std::uint64_t seed) : WaitingRun(seed) {}

  std::string go() {
    spawn([&] {
      lock(job_.monitor(), &mutex_);
      is_locked_ = true;
      while (!is_over_) {
        job_.compute();
        if (is_unlocked_) signal(job_.monitor(), &condition_, Wakes::one);
      }
    });
    spawn([&] {
      while (!is_locked_) job_.compute();
      unlock(job_.monitor(), &mutex_);
      is_unlocked_ = true;
    });
    spawn([&] {
      while (!is_unlocked_) job_.compute();
      Monitor& monitor = job_.monitor();
      const auto unlock_it = [&] { return unlock(monitor, &mutex_); };
      const auto lock_it = [&] { return lock(monitor, &mutex_); };
      lock_it();
      wait(monitor, &condition_, {.object = &mutex_, .unlock = unlock_it, .lock = lock_it});
      unlock_it();
      is_over_ = true;
    });
    return said(job_.run());
  }

 private:
  template <typename Body>
  void spawn(const Body& body) {
    job_.spawn(static_cast<Rank>(random().below(job_.size())), body);
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
  bool is_locked_ = false, is_unlocked_ = false, is_over_ = false;
};

class BarrierRun : public WaitingRun {
 public:
  explicit BarrierRun(std::uint64_t seed) : WaitingRun(seed) {}

  std::string go() {
    rounds_.resize(random().between(1, 5), Round{.known = Known(job_.size())});
    spawn_threads(1, [&](std::size_t i) { run_thread(i); });
    count_ = random().one_in(2) ? threads_.size() : random().between(1, threads_.size());
    for (Round& round : rounds_) round.first = random().below(threads_.size());
    ::pthread_barrier_init(&barrier_, nullptr, static_cast<unsigned>(count_));
    for (SimThread* const thread : threads_)
      if (random().one_in(4)) job_.interrupt_later(*thread);
    const std::string failure = said(job_.run());
    for (const Round& round : rounds_)
      if (failure.empty() && round.serial != 1) return said("not one was the last");
    return failure;
  }

 private:
  struct Round {
    std::size_t arrived = 0;
    std::size_t first = 0;  ///< of the threads that take part, which follow each other
    std::size_t serial = 0, left = 0;
    Known known;
  };

  void run_thread(std::size_t own) {
    for (Round& round : rounds_) {
      const bool takes_part = (own + threads_.size() - round.first) % threads_.size() < count_;
      if (!takes_part) {
        while (round.left == 0) job_.compute();
        continue;
      }
      job_.maybe_switch();
      job_.wrote();
      round.known.merge(job_.known());
      ++round.arrived;
      const int got = wait(job_.monitor(), &barrier_);
      if (got == PTHREAD_BARRIER_SERIAL_THREAD) ++round.serial;
      ++round.left;
      job_.require(round.arrived == count_, "a barrier is left before all have come");
      job_.know_at_least(round.known);
    }
  }

  pthread_barrier_t barrier_{};
  std::size_t count_ = 0;  ///< of threads that take part in a round
  std::vector<Round> rounds_;
};

template <typename Run>
void expect_schedules(std::uint64_t part, std::uint64_t wanted, const std::vector<const char*>& names) {
  const Schedules all = run_schedules<Run>(part, schedules_wanted(wanted, 1000));
  expect_names_seen(all, names);
}

class WaitsForSignals : public testing::TestWithParam<std::uint64_t> {};

TEST_P(WaitsForSignals, LeaveNothingInAQueue) {
  expect_schedules<QueueRun>(GetParam(), 100'000, {"not in time", "cancelled", "owner died"});
}
TEST_P(WaitsForSignals, EndWithThoseThatAreMeant) {
  expect_schedules<SignalsRun>(GetParam(), 30'000, {"more than are remembered"});
}
TEST_P(WaitsForSignals, EndWithoutTheMutex) {
  expect_schedules<HandedOverRun>(GetParam(), 2'000, {});
}
TEST_P(WaitsForSignals, EndTogetherAtABarrier) {
  expect_schedules<BarrierRun>(GetParam(), 30'000, {});
}

INSTANTIATE_TEST_SUITE_P(Part, WaitsForSignals, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::posix::test
