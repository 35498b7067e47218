// Mutexes of all kinds, semaphores, locks for readers and writers, spin locks, pthread_once and guards:
// threads take them in any way there is, and give up, are interrupted, cancelled and die while they wait or
// hold one.
#include <gtest/gtest.h>
#include <pthread.h>
#include <semaphore.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "posix/waits/flags.hpp"
#include "posix/waits/mutexes.hpp"
#include "posix/waits/readers_writers.hpp"
#include "posix/waits/semaphores.hpp"
#include "programs.hpp"

namespace craton::posix::test {

namespace {

constexpr std::array<const char*, 10> section_counts = {"mutex not in time",     "owner died",
                                                        "unrecoverable",         "semaphore not in time",
                                                        "semaphore interrupted", "semaphore cancelled",
                                                        "lock not in time",      "routine thrown out of",
                                                        "more ranks than bits",  "waited in an initialiser"};

class SectionsRun : public WaitingRun {
 public:
  explicit SectionsRun(std::uint64_t seed) : WaitingRun(seed) {}

  std::string go() {
    dies_often_ = random().one_in(8);
    mutexes_ = dies_often_ ? 1 : random().between(1, 3);
    for (std::size_t i = 0; i < mutexes_; ++i) init(all_[i]);
    units_ = static_cast<std::uint32_t>(random().between(1, 2));
    ::sem_init(&semaphore_, 1, units_);
    ::pthread_rwlock_init(&lock_, nullptr);
    given_ = written_ = spun_ = made_ = done_ = Known(job_.size());
    only_ = dies_often_          ? std::optional(std::uint64_t{0})
            : random().one_in(2) ? std::optional(random().below(kinds))
                                 : std::nullopt;
    spawn_threads(2, [&](std::size_t) { run_thread(); });
    for (SimThread* const thread : threads_) {
      if (random().one_in(4)) job_.interrupt_later(*thread);
      if (random().one_in(8)) job_.cancel_later(*thread);
    }
    if (job_.size() > 32) ++seen["more ranks than bits"];
    return said(job_.run());
  }

 private:
  static constexpr std::uint64_t kinds = 6;

  struct Mutex {
    pthread_mutex_t object{};
    int kind = PTHREAD_MUTEX_NORMAL;
    bool is_robust = false;
    bool has_died = false;  ///< an owner, since it was sound
    bool is_lost = false;
    pthread_t owner = 0;
    Known known;  ///< when it was unlocked last
  };

  void init(Mutex& mutex) {
    mutex.kind = random().pick(std::array{PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                          PTHREAD_MUTEX_ERRORCHECK});
    mutex.is_robust = dies_often_ || random().one_in(3);
    mutex.known = Known(job_.size());
    pthread_mutexattr_t attributes;
    ::pthread_mutexattr_init(&attributes);
    ::pthread_mutexattr_settype(&attributes, mutex.kind);
    if (mutex.is_robust) ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    ::pthread_mutex_init(&mutex.object, &attributes);
  }

  void run_thread() {
    for (std::uint64_t left = random().between(1, 6); left > 0; --left) {
      job_.maybe_switch();
      bool goes_on = true;
      switch (only_.value_or(random().below(kinds))) {
        case 0:
          goes_on = use(all_[random().below(mutexes_)]);
          break;
        case 1:
          use_semaphore();
          break;
        case 2:
          use_lock();
          break;
        case 3:
          use_spin_lock();
          break;
        case 4:
          call_once();
          break;
        default:
          make_object();
      }
      if (!goes_on) return;
    }
  }

  /// \returns whether the thread lives on
  bool use(Mutex& mutex) {
    Monitor& monitor = job_.monitor();
    if (random().one_in(8) && mutex.owner != job_.self() &&
        (mutex.kind == PTHREAD_MUTEX_ERRORCHECK || mutex.is_robust))
      job_.require(unlock(monitor, &mutex.object) == EPERM, "another one's mutex is unlocked");
    int got = 0;
    switch (random().below(4)) {
      case 0:
        got = lock_if_free(monitor, &mutex.object);
        break;
      case 1:
        got = lock(monitor, &mutex.object, job_.soon());
        break;
      default:
        got = lock(monitor, &mutex.object);
        job_.require(got != EBUSY && got != ETIMEDOUT, "a lock without a limit of time gives up");
    }
    if (got == ETIMEDOUT) ++seen["mutex not in time"];
    if (got == EBUSY || got == ETIMEDOUT) return true;
    if (got == ENOTRECOVERABLE) {
      ++seen["unrecoverable"];
      job_.require(mutex.is_lost, "a mutex cannot be recovered that nobody has lost");
      return true;
    }
    job_.require(!mutex.is_lost, "a mutex is locked that cannot be recovered");
    job_.require((got == EOWNERDEAD) == mutex.has_died,
                 "an owner's death is told where none has died, or not told");
    job_.require(got == 0 || got == EOWNERDEAD, "locking a mutex fails");
    return hold(mutex);
  }

  bool hold(Mutex& mutex) {
    Monitor& monitor = job_.monitor();
    const pthread_t self = job_.self();
    job_.require(mutex.owner == 0, "two threads have a mutex");
    mutex.owner = self;
    job_.know_at_least(mutex.known);
    job_.wrote();
    job_.maybe_switch();
    if (mutex.kind == PTHREAD_MUTEX_RECURSIVE && random().one_in(2)) {
      job_.require(lock(monitor, &mutex.object) == 0 && lock_if_free(monitor, &mutex.object) == 0 &&
                       unlock(monitor, &mutex.object) == 0 && unlock(monitor, &mutex.object) == 0,
                   "a recursive mutex is not locked again");
    }
    if (mutex.kind == PTHREAD_MUTEX_ERRORCHECK && random().one_in(2))
      job_.require(lock(monitor, &mutex.object) == EDEADLK, "a deadlock is not told of");
    job_.require(mutex.owner == self, "a mutex has another owner meanwhile");
    if (mutex.is_robust && random().one_in(dies_often_ ? 2 : 4)) {
      mutex.has_died = true;
      let_go(mutex);
      leave_mutexes(monitor);
      ++seen["owner died"];
      return false;
    }
    if (mutex.has_died) {
      if (random().one_in(dies_often_ ? 2 : 3)) {
        mutex.is_lost = true;
      } else {
        job_.require(make_consistent(monitor, &mutex.object) == 0, "a mutex is not made consistent");
        mutex.has_died = false;
      }
    }
    let_go(mutex);
    job_.require(unlock(monitor, &mutex.object) == 0, "unlocking a mutex fails");
    return true;
  }

  void let_go(Mutex& mutex) {
    mutex.owner = 0;
    mutex.known = job_.known();
  }

  void use_semaphore() {
    Monitor& monitor = job_.monitor();
    const Known least = given_;
    const std::uint32_t interruptions = job_.interruptions();
    const int got = take_semaphore(monitor);
    if (got == ETIMEDOUT) ++seen["semaphore not in time"];
    if (got == EINTR) {
      ++seen["semaphore interrupted"];
      job_.require(job_.interruptions() != interruptions, "a wait is interrupted by nothing");
    }
    if (got != 0) return;
    job_.require(++taken_ <= units_, "more is taken from a semaphore than it has");
    job_.know_at_least(least);
    job_.wrote();
    job_.maybe_switch();
    --taken_;
    const Known known = job_.known();
    job_.require(give(monitor, &semaphore_) == 0, "giving fails");
    given_.merge(known);
  }

  int take_semaphore(Monitor& monitor) {
    switch (random().below(4)) {
      case 0:
        return take_if_there(monitor, &semaphore_);
      case 1:
        return take(monitor, &semaphore_, job_.soon());
      default:
        try {
          const int got = take(monitor, &semaphore_);
          job_.require(got == 0 || got == EINTR, "a wait without a limit of time gives up");
          return got;
        } catch (const Cancelled&) {
          ++seen["semaphore cancelled"];
          throw;
        }
    }
  }

  void use_lock() {
    Monitor& monitor = job_.monitor();
    const bool writes = random().one_in(3);
    const Known least = written_;
    int got = 0;
    switch (random().below(4)) {
      case 0:
        got = lock_if_free(monitor, &lock_, writes);
        break;
      case 1:
        got = lock(monitor, &lock_, writes, job_.soon());
        break;
      default:
        got = lock(monitor, &lock_, writes);
        job_.require(got == 0, "a lock without a limit of time gives up");
    }
    if (got == ETIMEDOUT) ++seen["lock not in time"];
    if (got != 0) return;
    job_.require(!is_written_ && (!writes || readers_ == 0), "who writes is not alone");
    job_.know_at_least(least);
    is_written_ = writes;
    if (!writes) ++readers_;
    job_.wrote();
    job_.maybe_switch();
    is_written_ = false;
    if (!writes) --readers_;
    const Known known = job_.known();
    job_.require(unlock(monitor, &lock_) == 0, "unlocking fails");
    if (writes) written_.merge(known);
  }

  void use_spin_lock() {
    Monitor& monitor = job_.monitor();
    if (random().one_in(3)) {
      if (spin_lock_if_free(monitor, &spin_) != 0) return;
    } else {
      spin_lock(monitor, &spin_);
    }
    job_.require(!is_spun_, "two threads have a spin lock");
    job_.know_at_least(spun_);
    is_spun_ = true;
    job_.wrote();
    job_.maybe_switch();
    is_spun_ = false;
    spun_ = job_.known();
    spin_unlock(monitor, &spin_);
  }

  struct Thrown {};

  void call_once() {
    try {
      run_once(job_.monitor(), &once_, [&] {
        job_.require(!is_called_ && !is_once_done_, "a routine is called again");
        is_called_ = true;
        job_.wrote();
        job_.maybe_switch();
        is_called_ = false;
        if (random().one_in(3)) throw Thrown();
        done_ = job_.known();
        is_once_done_ = true;
      });
      job_.require(is_once_done_, "a routine is taken for called");
      job_.know_at_least(done_);
    } catch (const Thrown&) {
      ++seen["routine thrown out of"];
    }
  }

  void make_object() {
    Monitor& monitor = job_.monitor();
    if (is_made_ == (guard_.done != 0) && guard_.running != 0) ++seen["waited in an initialiser"];
    if (begin_object(monitor, &guard_)) {
      job_.require(!is_being_made_ && !is_made_, "an object is made again");
      is_being_made_ = true;
      job_.wrote();
      job_.maybe_switch();
      is_being_made_ = false;
      if (random().one_in(2)) {
        is_made_ = true;
        made_ = job_.known();
        monitor.inside(&guard_, [&] { guard_.done = 1; });  // as an atomic store to a strong block
      }
      return end_object(monitor, &guard_);
    }
    job_.require(is_made_, "an object is taken for made");
    job_.know_at_least(made_);
  }

  bool dies_often_ = false;  ///< who has a mutex
  std::size_t mutexes_ = 0;
  std::array<Mutex, 3> all_;
  sem_t semaphore_{};
  std::uint32_t units_ = 0, taken_ = 0;
  Known given_;
  pthread_rwlock_t lock_{};
  bool is_written_ = false;
  std::uint32_t readers_ = 0;
  Known written_;
  pthread_spinlock_t spin_ = 1;
  bool is_spun_ = false;
  Known spun_;
  pthread_once_t once_ = PTHREAD_ONCE_INIT;
  bool is_called_ = false, is_once_done_ = false;
  Known done_;
  Guard guard_{};
  bool is_being_made_ = false, is_made_ = false;
  Known made_;
  std::optional<std::uint64_t> only_;  ///< all threads use the same kind of object
};

class WaitsForSections : public testing::TestWithParam<std::uint64_t> {};

TEST_P(WaitsForSections, AreNeitherLostNorShared) {
  const Schedules all = run_schedules<SectionsRun>(GetParam(), schedules_wanted(100'000, 1000));
  expect_names_seen(all, section_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, WaitsForSections, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::posix::test
