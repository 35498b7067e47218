// The synchronisation functions of pthreads, and the guards of C++'s local statics, for objects that all
// ranks share (monitor.hpp); others are the C library's. States lie in the objects, where the C library's own
// initialisers and init functions leave zero or the value that is meant, so that those need no versions of
// ours.
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "posix/atomic_hooks.hpp"
#include "posix/monitor.hpp"
#include "posix/real.hpp"
#include "posix/signals.hpp"

#define CRATON_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using craton::no_deadline;
using craton::TimeNs;
using craton::posix::deadline_of;
using craton::posix::interruptions;
using craton::posix::Monitor;
using craton::posix::monitor;
using craton::posix::shared_program;

/// The monitor, if the object is one for it.
inline Monitor* monitor_of(const void* object) noexcept {
  Monitor* const here = monitor();
  return here != nullptr && shared_program()->is_shared(object) ? here : nullptr;
}

/// A state over the bytes of an object of the C library.
template <typename State, typename Object>
State& state_of(Object* object) noexcept {
  static_assert(sizeof(State) <= sizeof(Object));
  return *reinterpret_cast<State*>(object);
}

/// Calls `take` until it returns true. Who waits for that is counted in the object, so that who gives back
/// what it wants wakes others only where there are some.
template <typename Take>
class CountedTake {
 public:
  CountedTake(Take take, std::uint32_t& waiting) : take_(take), waiting_(waiting) {}

  bool operator()() {
    if (take_()) {
      give_up();
      return true;
    }
    if (!is_counted_) ++waiting_;
    is_counted_ = true;
    return false;
  }
  void give_up() {
    if (is_counted_) --waiting_;
    is_counted_ = false;
  }
  bool is_counted() const { return is_counted_; }

 private:
  Take take_;
  std::uint32_t& waiting_;
  bool is_counted_ = false;
};

/// Who counts itself as waiting has not got what it wants, and leaves.
template <typename Step>
void stop_waiting(Monitor& monitor, const void* object, Step& step) {
  monitor.inside(object, [&] { step.give_up(); });
  monitor.pass_on(object);
}

/// Waits until `take` has got what it wants. \returns false if the deadline has passed
template <typename Take>
bool wait_to_take(Monitor& monitor, const void* object, std::uint32_t& waiting, Take take,
                  TimeNs deadline_ns) {
  CountedTake step(take, waiting);
  const bool in_time = monitor.wait(object, step, deadline_ns);
  if (!in_time) stop_waiting(monitor, object, step);
  return in_time;
}

/// Calls `last` at the end of a scope, also where a cancellation of the thread ends it.
template <typename Last>
class AtEnd {
 public:
  explicit AtEnd(Last last) : last_(last) {}
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd() { last_(); }

 private:
  Last last_;
};

enum class Wakes { one, all };

/// Calls `change` alone, and wakes one of each rank who waits for the object, or all, where it returns true.
template <typename Change>
void change_and_wake(Monitor& monitor, const void* object, Wakes wakes, Change change) {
  bool wake = false;
  monitor.inside(object, [&] { wake = change(); });
  if (!wake) return;
  if (wakes == Wakes::one)
    monitor.wake_one(object);
  else
    monitor.wake_all(object);
}

// ---- Mutexes

struct Mutex {
  std::uint32_t locked;
  std::uint32_t count;  ///< of a recursive one, beyond the first time
  std::uint32_t waiting;
  std::uint32_t unused;
  std::uint32_t kind;  ///< where the C library has it: normal 0, recursive 1, errorcheck 2, adaptive 3
  std::uint32_t unused_too;
  pthread_t owner;  ///< its address is unique among all ranks
};
constexpr std::uint32_t kind_bits = 3;

/// \returns 0, EBUSY, or what kinds that look say
int try_lock(Mutex& mutex) {
  const pthread_t self = ::pthread_self();
  const std::uint32_t kind = mutex.kind & kind_bits;
  if (mutex.locked == 0) {
    mutex.locked = 1;
    mutex.owner = self;
    mutex.count = 0;
    return 0;
  }
  if (mutex.owner != self) return EBUSY;
  if (kind == PTHREAD_MUTEX_RECURSIVE) {
    ++mutex.count;
    return 0;
  }
  return kind == PTHREAD_MUTEX_ERRORCHECK ? EDEADLK : EBUSY;
}

int lock(Monitor& monitor, pthread_mutex_t* object, TimeNs deadline_ns = no_deadline) {
  auto& mutex = state_of<Mutex>(object);
  int result = EBUSY;
  const auto take = [&] { return (result = try_lock(mutex)) != EBUSY; };
  return wait_to_take(monitor, object, mutex.waiting, take, deadline_ns) ? result : ETIMEDOUT;
}

int lock_if_free(Monitor& monitor, pthread_mutex_t* object) {
  int result = EBUSY;
  monitor.inside(object, [&] { result = try_lock(state_of<Mutex>(object)); });
  return result == EDEADLK ? EBUSY : result;
}

int unlock(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  int result = 0;
  change_and_wake(monitor, object, Wakes::one, [&] {
    const bool checks = (mutex.kind & kind_bits) != PTHREAD_MUTEX_NORMAL;
    if (mutex.locked == 0 || (checks && mutex.owner != ::pthread_self())) {
      result = checks ? EPERM : 0;
      return false;
    }
    if (mutex.count != 0) {
      --mutex.count;
      return false;
    }
    mutex.locked = 0;
    mutex.owner = 0;
    return mutex.waiting != 0;
  });
  return result;
}

// ---- Conditions

/// Who waits has a number; those below `released` have been let on.
struct Condition {
  std::uint64_t next;
  std::uint64_t released;
};

/// Where the C library's pthread_cond_init puts what pthread_condattr_setclock has said.
clockid_t clock_of(const pthread_cond_t* object) {
  constexpr unsigned is_monotonic = 2;
  return (object->__data.__wrefs & is_monotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/// Before its turn, or so it seems. A number in the middle cannot be taken back: then all go on, and come
/// again. \returns whether it has been let on, and is only about to be told
bool leave(Monitor& monitor, pthread_cond_t* object, const Monitor::Turn& turn) {
  auto& condition = state_of<Condition>(object);
  bool was_let_on = false;
  bool let_all_on = false;
  std::uint64_t number = 0;
  monitor.inside(object, [&] {
    was_let_on = turn.number() < condition.released;
    if (was_let_on) return;
    if (turn.number() == condition.released)
      ++condition.released;
    else if (turn.number() + 1 == condition.next)
      --condition.next;
    else
      let_all_on = true;
    if (let_all_on) condition.released = condition.next;
    number = condition.released;
  });
  if (let_all_on) monitor.let_on(object, number);
  return was_let_on;
}

int signal(Monitor& monitor, pthread_cond_t* object, Wakes wakes) {
  auto& condition = state_of<Condition>(object);
  bool has_waiting = false;
  std::uint64_t number = 0;
  monitor.inside(object, [&] {
    has_waiting = condition.released != condition.next;
    if (!has_waiting) return;
    number = condition.released = wakes == Wakes::one ? condition.released + 1 : condition.next;
  });
  if (has_waiting) monitor.let_on(object, number);
  return 0;
}

int wait(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex, TimeNs deadline_ns = no_deadline) {
  auto& condition = state_of<Condition>(object);
  Monitor::Turn turn(monitor, object);
  monitor.inside(object, [&] {
    if (condition.next == condition.released) condition.next = condition.released = monitor.fresh_number();
    turn.enter(condition.next++);
  });
  if (const int error = ::pthread_mutex_unlock(mutex); error != 0) {
    if (leave(monitor, object, turn)) signal(monitor, object, Wakes::one);
    return error;
  }
  // Also where the thread is cancelled, whose handlers are to find the mutex locked, and others the signal
  // that was meant for it. Else who is let on looks at the condition no more: it may be gone by then.
  bool is_cancelled = true;
  const AtEnd end([&] {
    if (is_cancelled && (turn.is_let_on() || leave(monitor, object, turn)))
      signal(monitor, object, Wakes::one);
    ::pthread_mutex_lock(mutex);
  });
  Monitor::Slept slept = Monitor::Slept::woken;
  while (slept == Monitor::Slept::woken) {
    ::pthread_testcancel();
    slept = turn.sleep(deadline_ns);
  }
  is_cancelled = false;
  const bool in_time = slept == Monitor::Slept::holds || leave(monitor, object, turn);
  return in_time ? 0 : ETIMEDOUT;
}

// ---- Locks for readers and writers

struct ReadersWriters {
  std::uint32_t readers;
  std::uint32_t writer;
  std::uint32_t waiting;
};

bool try_lock(ReadersWriters& lock, bool write) {
  const bool is_free = lock.writer == 0 && (!write || lock.readers == 0);
  if (is_free) (write ? lock.writer : lock.readers) += 1;
  return is_free;
}

/// A reader that has come in lets others look who may come in with it.
int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, TimeNs deadline_ns = no_deadline) {
  auto& lock = state_of<ReadersWriters>(object);
  bool others_wait = false;
  const auto take = [&] {
    const bool is_mine = try_lock(lock, write);
    others_wait = lock.waiting > 1;
    return is_mine;
  };
  const bool in_time = wait_to_take(monitor, object, lock.waiting, take, deadline_ns);
  if (in_time && !write && others_wait) monitor.wake_one(object);
  return in_time ? 0 : ETIMEDOUT;
}

int lock_if_free(Monitor& monitor, pthread_rwlock_t* object, bool write) {
  bool got = false;
  monitor.inside(object, [&] { got = try_lock(state_of<ReadersWriters>(object), write); });
  return got ? 0 : EBUSY;
}

int unlock(Monitor& monitor, pthread_rwlock_t* object) {
  auto& lock = state_of<ReadersWriters>(object);
  change_and_wake(monitor, object, Wakes::one, [&] {
    if (lock.writer != 0) {
      lock.writer = 0;
    } else if (lock.readers != 0) {
      --lock.readers;
    }
    return lock.readers == 0 && lock.waiting != 0;
  });
  return 0;
}

// ---- Semaphores, barriers

struct Semaphore {
  std::uint32_t value;  ///< where sem_init puts it
  std::uint32_t waiting;
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
  CountedTake step([&] { return try_take(semaphore); }, semaphore.waiting);
  const AtEnd end([&] {
    if (step.is_counted()) stop_waiting(monitor, object, step);
  });
  for (;;) {
    const Monitor::Slept slept = monitor.wait_once(object, step, deadline_ns);
    if (slept != Monitor::Slept::woken) return slept == Monitor::Slept::holds ? 0 : ETIMEDOUT;
    ::pthread_testcancel();
    if (interruptions() != interruptions_before) return EINTR;
  }
}

int take(Monitor& monitor, sem_t* object, TimeNs deadline_ns = no_deadline) {
  const int error = wait_for_one(monitor, object, deadline_ns);
  return result_of(error == 0, error);
}

int take_if_there(Monitor& monitor, sem_t* object) {
  bool taken = false;
  monitor.inside(object, [&] { taken = try_take(state_of<Semaphore>(object)); });
  return result_of(taken, EAGAIN);
}

int give(Monitor& monitor, sem_t* object) {
  auto& semaphore = state_of<Semaphore>(object);
  change_and_wake(monitor, object, Wakes::one, [&] {
    ++semaphore.value;
    return semaphore.waiting != 0;
  });
  return 0;
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
    change_and_wake(monitor, once, Wakes::all, [&] {
      *once = state;
      return true;
    });
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
  change_and_wake(monitor, const_cast<int*>(lock), Wakes::all, [&] {
    *lock = 1;
    return true;
  });
  return 0;
}

}  // namespace

// ---- What programs call

// NOLINTBEGIN(bugprone-macro-parentheses): two lists and a call
/// Defines what programs get as `name`: the C library's function, or where `object` is one that all ranks
/// share, `ours`, which calls its monitor `shared`.
#define CRATON_SYNCHRONISED(name, object, parameters, arguments, ours)                                      \
  CRATON_EXPORT int name parameters {                                                                       \
    Monitor* const shared = monitor_of(const_cast<const void*>(static_cast<const volatile void*>(object))); \
    return shared == nullptr ? CRATON_REAL(name) arguments : ours;                                          \
  }
// NOLINTEND(bugprone-macro-parentheses)

CRATON_SYNCHRONISED(pthread_mutex_lock, mutex, (pthread_mutex_t * mutex), (mutex), lock(*shared, mutex))
CRATON_SYNCHRONISED(pthread_mutex_trylock, mutex, (pthread_mutex_t * mutex), (mutex),
                    lock_if_free(*shared, mutex))
CRATON_SYNCHRONISED(pthread_mutex_timedlock, mutex, (pthread_mutex_t * mutex, const timespec* until),
                    (mutex, until), lock(*shared, mutex, deadline_of(CLOCK_REALTIME, until)))
CRATON_SYNCHRONISED(pthread_mutex_clocklock, mutex,
                    (pthread_mutex_t * mutex, clockid_t clock, const timespec* until), (mutex, clock, until),
                    lock(*shared, mutex, deadline_of(clock, until)))
CRATON_SYNCHRONISED(pthread_mutex_unlock, mutex, (pthread_mutex_t * mutex), (mutex), unlock(*shared, mutex))

CRATON_SYNCHRONISED(pthread_cond_wait, condition, (pthread_cond_t * condition, pthread_mutex_t* mutex),
                    (condition, mutex), wait(*shared, condition, mutex))
CRATON_SYNCHRONISED(pthread_cond_timedwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                    (condition, mutex, until),
                    wait(*shared, condition, mutex, deadline_of(clock_of(condition), until)))
CRATON_SYNCHRONISED(pthread_cond_clockwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock,
                     const timespec* until),
                    (condition, mutex, clock, until),
                    wait(*shared, condition, mutex, deadline_of(clock, until)))
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
                      lock(*shared, object, write, deadline_of(CLOCK_REALTIME, until)))                  \
  CRATON_SYNCHRONISED(clock_name, object,                                                                \
                      (pthread_rwlock_t * object, clockid_t clock, const timespec* until),               \
                      (object, clock, until), lock(*shared, object, write, deadline_of(clock, until)))
CRATON_TIMED_LOCK(pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock, false)
CRATON_TIMED_LOCK(pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock, true)
CRATON_SYNCHRONISED(pthread_rwlock_unlock, object, (pthread_rwlock_t * object), (object),
                    unlock(*shared, object))

CRATON_SYNCHRONISED(sem_wait, semaphore, (sem_t * semaphore), (semaphore), take(*shared, semaphore))
CRATON_SYNCHRONISED(sem_trywait, semaphore, (sem_t * semaphore), (semaphore),
                    take_if_there(*shared, semaphore))
CRATON_SYNCHRONISED(sem_timedwait, semaphore, (sem_t * semaphore, const timespec* until), (semaphore, until),
                    take(*shared, semaphore, deadline_of(CLOCK_REALTIME, until)))
CRATON_SYNCHRONISED(sem_clockwait, semaphore, (sem_t * semaphore, clockid_t clock, const timespec* until),
                    (semaphore, clock, until), take(*shared, semaphore, deadline_of(clock, until)))
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
  change_and_wake(*shared, guard, Wakes::all, [&] {
    state.running = 0;
    return true;
  });
}

void craton_guard_abort(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  Monitor* const shared = monitor_of(guard);
  if (shared == nullptr) return std::atomic_ref(state.running).store(0);
  change_and_wake(*shared, guard, Wakes::all, [&] {
    state.running = 0;
    return true;
  });
}
