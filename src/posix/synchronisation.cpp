// Synchronisation functions of pthreads other than those of mutexes and conditions, and the guards of C++'s
// local statics, for objects that all ranks share (synchronised.hpp).
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "base/scope_exit.hpp"
#include "posix/atomic_hooks.hpp"
#include "posix/signals.hpp"
#include "posix/synchronised.hpp"

namespace {

using craton::no_deadline;
using craton::ScopeExit;
using craton::TimeNs;
using craton::posix::change_and_wake;
using craton::posix::interruptions;
using craton::posix::Monitor;
using craton::posix::monitor_of;
using craton::posix::state_of;
using craton::posix::wait_to_take;
using craton::posix::wait_until;
using craton::posix::WaitingTake;
using craton::posix::Wakes;

// ---- Locks for readers and writers

struct ReadersWriters {
  std::uint32_t readers;
  std::uint32_t writer;
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
};

bool try_lock(ReadersWriters& lock, bool write) {
  const bool is_free = lock.writer == 0 && (!write || lock.readers == 0);
  if (is_free) (write ? lock.writer : lock.readers) += 1;
  return is_free;
}

int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, TimeNs deadline_ns = no_deadline) {
  auto& lock = state_of<ReadersWriters>(object);
  const auto take = [&] { return try_lock(lock, write); };
  const auto may_take = [] { return false; };  // who unlocks has all look
  return wait_to_take(monitor, object, lock.waiting, take, may_take, deadline_ns) ? 0 : ETIMEDOUT;
}

int lock_until(Monitor& monitor, pthread_rwlock_t* object, bool write, clockid_t clock,
               const timespec* until) {
  return wait_until(clock, until,
                    [&](TimeNs deadline_ns) { return lock(monitor, object, write, deadline_ns); });
}

int lock_if_free(Monitor& monitor, pthread_rwlock_t* object, bool write) {
  bool got = false;
  monitor.inside(object, [&] { got = try_lock(state_of<ReadersWriters>(object), write); });
  return got ? 0 : EBUSY;
}

int unlock(Monitor& monitor, pthread_rwlock_t* object) {
  auto& lock = state_of<ReadersWriters>(object);
  change_and_wake(monitor, object, lock.waiting, [&] {
    if (lock.writer != 0) {
      lock.writer = 0;
    } else if (lock.readers != 0) {
      --lock.readers;
    }
    return lock.readers == 0 ? Wakes::all : Wakes::nobody;
  });
  return 0;
}

// ---- Semaphores, barriers

struct Semaphore {
  std::uint32_t value;    ///< where sem_init puts it
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
};

bool try_take(Semaphore& semaphore) {
  if (semaphore.value == 0) return false;
  --semaphore.value;
  return true;
}

int result_of(bool taken, int otherwise) {
  if (!taken) errno = otherwise;
  return taken ? 0 : -1;
}

/// Ends early where a handler of a signal interrupts it, or a cancellation. \returns 0 or an error number
int wait_for_one(Monitor& monitor, sem_t* object, TimeNs deadline_ns) {
  ::pthread_testcancel();
  const std::uint32_t interruptions_before = interruptions();
  auto& semaphore = state_of<Semaphore>(object);
  WaitingTake step(
      monitor, object, semaphore.waiting, [&] { return try_take(semaphore); },
      [&] { return semaphore.value != 0; });
  const ScopeExit end([&] {
    if (step.waits()) {
      monitor.inside(object, [&] { step.stop(); });
      monitor.pass_on(object);  // it may have been woken
    }
    step.wake_next();
  });
  for (;;) {
    const Monitor::Slept slept = monitor.wait_once(object, step, deadline_ns);
    if (slept != Monitor::Slept::woken) return slept == Monitor::Slept::holds ? 0 : ETIMEDOUT;
    ::pthread_testcancel();
    if (interruptions() != interruptions_before) return EINTR;
  }
}

int take(Monitor& monitor, sem_t* object) {
  const int error = wait_for_one(monitor, object, no_deadline);
  return result_of(error == 0, error);
}

int take_until(Monitor& monitor, sem_t* object, clockid_t clock, const timespec* until) {
  const int error = wait_until(
      clock, until, [&](TimeNs deadline_ns) { return wait_for_one(monitor, object, deadline_ns); });
  return result_of(error == 0, error);
}

int take_if_there(Monitor& monitor, sem_t* object) {
  bool taken = false;
  monitor.inside(object, [&] { taken = try_take(state_of<Semaphore>(object)); });
  return result_of(taken, EAGAIN);
}

int give(Monitor& monitor, sem_t* object) {
  auto& semaphore = state_of<Semaphore>(object);
  bool given = false;
  change_and_wake(monitor, object, semaphore.waiting, [&] {
    given = semaphore.value < SEM_VALUE_MAX;
    if (given) ++semaphore.value;
    return given ? Wakes::one : Wakes::nobody;
  });
  return result_of(given, EOVERFLOW);
}

int look(Monitor& monitor, sem_t* object, int* value) {
  monitor.inside(object, [&] { *value = static_cast<int>(state_of<Semaphore>(object).value); });
  return 0;
}

struct Barrier {
  std::uint32_t arrived;
  std::uint32_t unused;
  std::uint32_t count;  ///< where pthread_barrier_init puts it
  std::uint32_t unused_too[3];
  std::uint64_t round;  ///< set by who comes first; before that any number
};

/// Who is let on looks at the barrier no more: it may be gone by then.
int wait(Monitor& monitor, pthread_barrier_t* object) {
  auto& barrier = state_of<Barrier>(object);
  Monitor::Turn turn(monitor, object);
  bool last = false;
  std::uint64_t round = 0;
  monitor.inside(object, [&] {
    if (barrier.arrived == 0) barrier.round = monitor.fresh_number();
    round = barrier.round;
    last = ++barrier.arrived == barrier.count;
    if (last)
      barrier.arrived = 0;
    else
      turn.enter(round);
  });
  if (last) {
    monitor.let_on(object, round + 1);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  while (turn.sleep(no_deadline) != Monitor::Slept::holds) continue;
  turn.learn();
  return 0;
}

// ---- Once

/// As in glibc's pthread_once_t.
constexpr int once_running = 1;
constexpr int once_done = 2;

int run_once(Monitor& monitor, pthread_once_t* once, void (*routine)()) {
  bool mine = false;
  static_cast<void>(monitor.wait(once, [&] {
    mine = *once == 0;
    if (mine) *once = once_running;
    return mine || *once == once_done;
  }));
  if (!mine) return 0;
  const auto end = [&](int state) {
    monitor.inside(once, [&] { *once = state; });
    monitor.wake_all(once);
  };
  try {
    routine();
  } catch (...) {  // also where the thread is cancelled
    end(0);
    throw;
  }
  end(once_done);
  return 0;
}

// ---- Spin locks, as glibc has them: 1 is unlocked

bool try_spin_lock(volatile int& lock) {
  const bool is_free = lock == 1;
  if (is_free) lock = 0;
  return is_free;
}

int spin_lock(Monitor& monitor, pthread_spinlock_t* lock) {
  static_cast<void>(monitor.wait(const_cast<int*>(lock), [&] { return try_spin_lock(*lock); }));
  return 0;
}

int spin_lock_if_free(Monitor& monitor, pthread_spinlock_t* lock) {
  bool got = false;
  monitor.inside(const_cast<int*>(lock), [&] { got = try_spin_lock(*lock); });
  return got ? 0 : EBUSY;
}

int spin_unlock(Monitor& monitor, pthread_spinlock_t* lock) {
  monitor.inside(const_cast<int*>(lock), [&] { *lock = 1; });
  monitor.wake_all(const_cast<int*>(lock));
  return 0;
}

}  // namespace

// ---- What programs call

CRATON_SYNCHRONISED(pthread_rwlock_rdlock, object, (pthread_rwlock_t * object), (object),
                    lock(*shared, object, false))
CRATON_SYNCHRONISED(pthread_rwlock_tryrdlock, object, (pthread_rwlock_t * object), (object),
                    lock_if_free(*shared, object, false))
CRATON_SYNCHRONISED(pthread_rwlock_wrlock, object, (pthread_rwlock_t * object), (object),
                    lock(*shared, object, true))
CRATON_SYNCHRONISED(pthread_rwlock_trywrlock, object, (pthread_rwlock_t * object), (object),
                    lock_if_free(*shared, object, true))
#define CRATON_TIMED_LOCK(name, clock_name, write)                                                       \
  CRATON_SYNCHRONISED(name, object, (pthread_rwlock_t * object, const timespec* until), (object, until), \
                      lock_until(*shared, object, write, CLOCK_REALTIME, until))                         \
  CRATON_SYNCHRONISED(clock_name, object,                                                                \
                      (pthread_rwlock_t * object, clockid_t clock, const timespec* until),               \
                      (object, clock, until), lock_until(*shared, object, write, clock, until))
CRATON_TIMED_LOCK(pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock, false)
CRATON_TIMED_LOCK(pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock, true)
CRATON_SYNCHRONISED(pthread_rwlock_unlock, object, (pthread_rwlock_t * object), (object),
                    unlock(*shared, object))

CRATON_SYNCHRONISED(sem_wait, semaphore, (sem_t * semaphore), (semaphore), take(*shared, semaphore))
CRATON_SYNCHRONISED(sem_trywait, semaphore, (sem_t * semaphore), (semaphore),
                    take_if_there(*shared, semaphore))
CRATON_SYNCHRONISED(sem_timedwait, semaphore, (sem_t * semaphore, const timespec* until), (semaphore, until),
                    take_until(*shared, semaphore, CLOCK_REALTIME, until))
CRATON_SYNCHRONISED(sem_clockwait, semaphore, (sem_t * semaphore, clockid_t clock, const timespec* until),
                    (semaphore, clock, until), take_until(*shared, semaphore, clock, until))
CRATON_SYNCHRONISED(sem_post, semaphore, (sem_t * semaphore), (semaphore), give(*shared, semaphore))
CRATON_SYNCHRONISED(sem_getvalue, semaphore, (sem_t * semaphore, int* value), (semaphore, value),
                    look(*shared, semaphore, value))

CRATON_SYNCHRONISED(pthread_barrier_wait, object, (pthread_barrier_t * object), (object),
                    wait(*shared, object))
CRATON_SYNCHRONISED(pthread_barrier_destroy, object, (pthread_barrier_t * object), (object), 0)

CRATON_SYNCHRONISED(pthread_once, once, (pthread_once_t * once, void (*routine)()), (once, routine),
                    run_once(*shared, once, routine))

CRATON_SYNCHRONISED(pthread_spin_lock, object, (pthread_spinlock_t * object), (object),
                    spin_lock(*shared, object))
CRATON_SYNCHRONISED(pthread_spin_trylock, object, (pthread_spinlock_t * object), (object),
                    spin_lock_if_free(*shared, object))
CRATON_SYNCHRONISED(pthread_spin_unlock, object, (pthread_spinlock_t * object), (object),
                    spin_unlock(*shared, object))

// ---- Guards of local statics: the program's, and since ours stand before the C++ library's, also those of
// private data.

namespace {

/// As the C++ ABI has it: the first byte says that the object is there.
struct Guard {
  std::uint8_t done;
  std::uint8_t running;
};

}  // namespace

// By other names, since the compiler has its own idea of what it calls.
CRATON_EXPORT int craton_guard_acquire(std::uint64_t* guard) __asm__("__cxa_guard_acquire");
CRATON_EXPORT void craton_guard_release(std::uint64_t* guard) __asm__("__cxa_guard_release");
CRATON_EXPORT void craton_guard_abort(std::uint64_t* guard) __asm__("__cxa_guard_abort");

int craton_guard_acquire(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  bool mine = false;
  if (Monitor* const shared = monitor_of(guard)) {
    static_cast<void>(shared->wait(guard, [&] {
      mine = state.done == 0 && state.running == 0;
      if (mine) state.running = 1;
      return mine || state.done != 0;
    }));
    return mine ? 1 : 0;
  }
  const std::atomic_ref running(state.running);
  const std::atomic_ref done(state.done);
  for (;;) {
    if (done.load(std::memory_order_acquire) != 0) return 0;
    if (running.exchange(1) == 0) {
      if (done.load() == 0) return 1;
      running.store(0);
      return 0;
    }
    const timespec moment{.tv_sec = 0, .tv_nsec = 50'000};
    ::nanosleep(&moment, nullptr);
  }
}

void craton_guard_release(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  Monitor* const shared = monitor_of(guard);
  if (shared == nullptr) {
    std::atomic_ref(state.done).store(1, std::memory_order_release);
    return std::atomic_ref(state.running).store(0);
  }
  // Programs look at this byte by a plain load before they call anything, and go on where it is set.
  craton::posix::store_for_all(state.done, 1);
  shared->inside(guard, [&] { state.running = 0; });
  shared->wake_all(guard);
}

void craton_guard_abort(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  Monitor* const shared = monitor_of(guard);
  if (shared == nullptr) return std::atomic_ref(state.running).store(0);
  shared->inside(guard, [&] { state.running = 0; });
  shared->wake_all(guard);
}
