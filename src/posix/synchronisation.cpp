// Synchronisation functions of pthreads, and the guards of C++'s local statics, as programs call them
// (synchronised.hpp).
#include "posix/synchronisation.hpp"

#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "posix/atomic_hooks.hpp"
#include "posix/synchronised.hpp"
#include "posix/waits/barriers.hpp"
#include "posix/waits/conditions.hpp"
#include "posix/waits/flags.hpp"
#include "posix/waits/mutexes.hpp"
#include "posix/waits/readers_writers.hpp"
#include "posix/waits/semaphores.hpp"

namespace {

using craton::TimeNs;
using craton::posix::Guard;
using craton::posix::HeldMutex;
using craton::posix::is_time;
using craton::posix::lock_if_free;
using craton::posix::Monitor;
using craton::posix::monitor_of;
using craton::posix::wait_until;
using craton::posix::Wakes;

/// A mutex that is free is locked, whatever the time.
int lock_until(Monitor& monitor, pthread_mutex_t* object, clockid_t clock, const timespec* until) {
  const bool is_clock = is_time(clock, {});
  if (is_clock && !is_time(clock, *until)) {
    const int result = lock_if_free(monitor, object);
    return result == EBUSY ? EINVAL : result;
  }
  return wait_until(clock, until, [&](TimeNs deadline_ns) { return lock(monitor, object, deadline_ns); });
}

int lock_until(Monitor& monitor, pthread_rwlock_t* object, bool write, clockid_t clock,
               const timespec* until) {
  return wait_until(clock, until,
                    [&](TimeNs deadline_ns) { return lock(monitor, object, write, deadline_ns); });
}

/// Where the C library's pthread_cond_init puts what pthread_condattr_setclock has said.
clockid_t clock_of(const pthread_cond_t* object) {
  constexpr unsigned is_monotonic = 2;
  return (object->__data.__wrefs & is_monotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int wait(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex,
         TimeNs deadline_ns = craton::no_deadline) {
  const auto unlock = [&] { return craton::posix::unlock_mutex(mutex); };
  const auto lock = [&] { return craton::posix::lock_mutex(mutex); };
  return craton::posix::wait(monitor, object, HeldMutex{mutex, unlock, lock}, deadline_ns);
}

int wait_in_time(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex, clockid_t clock,
                 const timespec* until) {
  return wait_until(clock, until,
                    [&](TimeNs deadline_ns) { return wait(monitor, object, mutex, deadline_ns); });
}

/// Of functions of semaphores, which have errors in errno.
int result_of(int error) {
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}

int take_until(Monitor& monitor, sem_t* object, clockid_t clock, const timespec* until) {
  return result_of(
      wait_until(clock, until, [&](TimeNs deadline_ns) { return take(monitor, object, deadline_ns); }));
}

}  // namespace

CRATON_SYNCHRONISED(pthread_mutex_lock, mutex, (pthread_mutex_t * mutex), (mutex), lock(*shared, mutex))
CRATON_SYNCHRONISED(pthread_mutex_trylock, mutex, (pthread_mutex_t * mutex), (mutex),
                    lock_if_free(*shared, mutex))
CRATON_SYNCHRONISED(pthread_mutex_timedlock, mutex, (pthread_mutex_t * mutex, const timespec* until),
                    (mutex, until), lock_until(*shared, mutex, CLOCK_REALTIME, until))
CRATON_SYNCHRONISED(pthread_mutex_clocklock, mutex,
                    (pthread_mutex_t * mutex, clockid_t clock, const timespec* until), (mutex, clock, until),
                    lock_until(*shared, mutex, clock, until))
CRATON_SYNCHRONISED(pthread_mutex_unlock, mutex, (pthread_mutex_t * mutex), (mutex), unlock(*shared, mutex))
CRATON_SYNCHRONISED(pthread_mutex_consistent, mutex, (pthread_mutex_t * mutex), (mutex),
                    make_consistent(*shared, mutex))

CRATON_SYNCHRONISED(pthread_cond_wait, condition, (pthread_cond_t * condition, pthread_mutex_t* mutex),
                    (condition, mutex), wait(*shared, condition, mutex))
CRATON_SYNCHRONISED(pthread_cond_timedwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                    (condition, mutex, until),
                    wait_in_time(*shared, condition, mutex, clock_of(condition), until))
CRATON_SYNCHRONISED(pthread_cond_clockwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock,
                     const timespec* until),
                    (condition, mutex, clock, until), wait_in_time(*shared, condition, mutex, clock, until))
CRATON_SYNCHRONISED(pthread_cond_signal, condition, (pthread_cond_t * condition), (condition),
                    signal(*shared, condition, Wakes::one))
CRATON_SYNCHRONISED(pthread_cond_broadcast, condition, (pthread_cond_t * condition), (condition),
                    signal(*shared, condition, Wakes::all))
// Nothing of theirs is left anywhere else, and nobody looks at them any more.
CRATON_SYNCHRONISED(pthread_cond_destroy, condition, (pthread_cond_t * condition), (condition), 0)

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

CRATON_SYNCHRONISED(sem_wait, semaphore, (sem_t * semaphore), (semaphore),
                    result_of(take(*shared, semaphore)))
CRATON_SYNCHRONISED(sem_trywait, semaphore, (sem_t * semaphore), (semaphore),
                    result_of(take_if_there(*shared, semaphore)))
CRATON_SYNCHRONISED(sem_timedwait, semaphore, (sem_t * semaphore, const timespec* until), (semaphore, until),
                    take_until(*shared, semaphore, CLOCK_REALTIME, until))
CRATON_SYNCHRONISED(sem_clockwait, semaphore, (sem_t * semaphore, clockid_t clock, const timespec* until),
                    (semaphore, clock, until), take_until(*shared, semaphore, clock, until))
CRATON_SYNCHRONISED(sem_post, semaphore, (sem_t * semaphore), (semaphore),
                    result_of(give(*shared, semaphore)))
CRATON_SYNCHRONISED(sem_getvalue, semaphore, (sem_t * semaphore, int* value), (semaphore, value),
                    (*value = value_of(*shared, semaphore), 0))

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

// By other names, since the compiler has its own idea of what it calls.
CRATON_EXPORT int craton_guard_acquire(std::uint64_t* guard) __asm__("__cxa_guard_acquire");
CRATON_EXPORT void craton_guard_release(std::uint64_t* guard) __asm__("__cxa_guard_release");
CRATON_EXPORT void craton_guard_abort(std::uint64_t* guard) __asm__("__cxa_guard_abort");

int craton_guard_acquire(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  if (Monitor* const shared = monitor_of(guard)) return begin_object(*shared, &state) ? 1 : 0;
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
  end_object(*shared, &state);
}

void craton_guard_abort(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  Monitor* const shared = monitor_of(guard);
  if (shared == nullptr) return std::atomic_ref(state.running).store(0);
  end_object(*shared, &state);
}

namespace craton::posix {

int lock_mutex(pthread_mutex_t* mutex) {
  return pthread_mutex_lock(mutex);
}

int unlock_mutex(pthread_mutex_t* mutex) {
  return pthread_mutex_unlock(mutex);
}

}  // namespace craton::posix
