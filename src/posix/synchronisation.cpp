// The synchronisation functions of pthreads, and the guards of C++'s local statics, for objects that all
// ranks share (monitor.hpp); others are the C library's. States lie in the objects, where the C library's own
// initialisers and init functions leave zero or the value that is meant, so that those need no versions of
// ours.
#include <pthread.h>
#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "posix/monitor.hpp"
#include "posix/real.hpp"

#define CRATON_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using craton::no_deadline;
using craton::TimeNs;
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

TimeNs deadline_of(clockid_t clock, const timespec* until) {
  timespec now{};
  ::clock_gettime(clock, &now);
  const TimeNs left = (until->tv_sec - now.tv_sec) * 1'000'000'000 + (until->tv_nsec - now.tv_nsec);
  return monitor()->now_ns() + left;
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

int lock(Monitor& monitor, pthread_mutex_t* object, TimeNs deadline_ns) {
  auto& mutex = state_of<Mutex>(object);
  int result = EBUSY;
  bool counted = false;
  const bool in_time = monitor.wait(
      object,
      [&] {
        result = try_lock(mutex);
        if (result == EBUSY && !counted) ++mutex.waiting;
        if (result != EBUSY && counted) --mutex.waiting;
        counted = result == EBUSY;
        return result != EBUSY;
      },
      deadline_ns);
  if (in_time) return result;
  monitor.inside(object, [&] { --mutex.waiting; });
  return ETIMEDOUT;
}

int unlock(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  int result = 0;
  bool wake = false;
  monitor.inside(object, [&] {
    const bool checks = (mutex.kind & kind_bits) != PTHREAD_MUTEX_NORMAL;
    if (mutex.locked == 0 || (checks && mutex.owner != ::pthread_self())) {
      result = checks ? EPERM : 0;
    } else if (mutex.count != 0) {
      --mutex.count;
    } else {
      mutex.locked = 0;
      mutex.owner = 0;
      wake = mutex.waiting != 0;
    }
  });
  if (wake) monitor.changed();
  return result;
}

// ---- Conditions

struct Condition {
  std::uint64_t signals;
  std::uint32_t waiting;
};

int wait(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex, TimeNs deadline_ns) {
  auto& condition = state_of<Condition>(object);
  std::uint64_t before = 0;
  monitor.inside(object, [&] {
    before = condition.signals;
    ++condition.waiting;
  });
  const int unlocked = ::pthread_mutex_unlock(mutex);
  bool signalled = false;
  if (unlocked == 0)
    signalled = monitor.wait(
        object, [&] { return condition.signals != before; }, deadline_ns);
  monitor.inside(object, [&] { --condition.waiting; });
  if (unlocked != 0) return unlocked;
  ::pthread_mutex_lock(mutex);
  return signalled ? 0 : ETIMEDOUT;
}

/// Wakes all: who waits must expect to be woken for nothing.
int signal(Monitor& monitor, pthread_cond_t* object) {
  auto& condition = state_of<Condition>(object);
  bool wake = false;
  monitor.inside(object, [&] {
    ++condition.signals;
    wake = condition.waiting != 0;
  });
  if (wake) monitor.changed();
  return 0;
}

// ---- Locks for readers and writers

struct ReadersWriters {
  std::uint32_t readers;
  std::uint32_t writer;
  std::uint32_t waiting;
};

int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, bool blocks,
         TimeNs deadline_ns = no_deadline) {
  auto& lock = state_of<ReadersWriters>(object);
  bool counted = false;
  const auto step = [&] {
    const bool is_free = lock.writer == 0 && (!write || lock.readers == 0);
    if (is_free) (write ? lock.writer : lock.readers) += 1;
    if (!is_free && !counted && blocks) ++lock.waiting;
    if (is_free && counted) --lock.waiting;
    counted = !is_free && blocks;
    return is_free || !blocks;
  };
  bool got = false;
  const bool in_time = monitor.wait(
      object,
      [&] {
        const std::uint32_t before = lock.readers + lock.writer;
        const bool ended = step();
        got = lock.readers + lock.writer != before;
        return ended;
      },
      deadline_ns);
  if (in_time) return got ? 0 : EBUSY;
  monitor.inside(object, [&] { --lock.waiting; });
  return ETIMEDOUT;
}

int unlock(Monitor& monitor, pthread_rwlock_t* object) {
  auto& lock = state_of<ReadersWriters>(object);
  bool wake = false;
  monitor.inside(object, [&] {
    if (lock.writer != 0) {
      lock.writer = 0;
    } else if (lock.readers != 0) {
      --lock.readers;
    }
    wake = lock.waiting != 0;
  });
  if (wake) monitor.changed();
  return 0;
}

// ---- Semaphores, barriers

struct Semaphore {
  std::uint32_t value;  ///< where sem_init puts it
  std::uint32_t waiting;
};

int wait(Monitor& monitor, sem_t* object, bool blocks, TimeNs deadline_ns = no_deadline) {
  auto& semaphore = state_of<Semaphore>(object);
  bool counted = false;
  bool got = false;
  const bool in_time = monitor.wait(
      object,
      [&] {
        got = semaphore.value != 0;
        if (got) --semaphore.value;
        if (!got && !counted && blocks) ++semaphore.waiting;
        if (got && counted) --semaphore.waiting;
        counted = !got && blocks;
        return got || !blocks;
      },
      deadline_ns);
  if (!in_time) monitor.inside(object, [&] { --semaphore.waiting; });
  if (got) return 0;
  errno = in_time ? EAGAIN : ETIMEDOUT;
  return -1;
}

struct Barrier {
  std::uint32_t arrived;
  std::uint32_t round;
  std::uint32_t count;  ///< where pthread_barrier_init puts it
};

/// As in glibc's pthread_once_t.
constexpr int once_running = 1;
constexpr int once_done = 2;

/// As the C++ ABI has it: the first byte says that the object is there.
struct Guard {
  std::uint8_t done;
  std::uint8_t running;
};

}  // namespace

// ---- What programs call

CRATON_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) {
  Monitor* const shared = monitor_of(mutex);
  return shared == nullptr ? CRATON_REAL(pthread_mutex_lock)(mutex) : lock(*shared, mutex, no_deadline);
}

CRATON_EXPORT int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  Monitor* const shared = monitor_of(mutex);
  if (shared == nullptr) return CRATON_REAL(pthread_mutex_trylock)(mutex);
  int result = 0;
  shared->inside(mutex, [&] { result = try_lock(state_of<Mutex>(mutex)); });
  return result == EDEADLK ? EBUSY : result;
}

CRATON_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) {
  Monitor* const shared = monitor_of(mutex);
  if (shared == nullptr) return CRATON_REAL(pthread_mutex_timedlock)(mutex, until);
  return lock(*shared, mutex, deadline_of(CLOCK_REALTIME, until));
}

CRATON_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  Monitor* const shared = monitor_of(mutex);
  return shared == nullptr ? CRATON_REAL(pthread_mutex_unlock)(mutex) : unlock(*shared, mutex);
}

CRATON_EXPORT int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  Monitor* const shared = monitor_of(condition);
  if (shared == nullptr) return CRATON_REAL(pthread_cond_wait)(condition, mutex);
  return wait(*shared, condition, mutex, no_deadline);
}

CRATON_EXPORT int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                         const timespec* until) {
  Monitor* const shared = monitor_of(condition);
  if (shared == nullptr) return CRATON_REAL(pthread_cond_timedwait)(condition, mutex, until);
  return wait(*shared, condition, mutex, deadline_of(CLOCK_REALTIME, until));
}

CRATON_EXPORT int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                         const timespec* until) {
  Monitor* const shared = monitor_of(condition);
  if (shared == nullptr) return CRATON_REAL(pthread_cond_clockwait)(condition, mutex, clock, until);
  return wait(*shared, condition, mutex, deadline_of(clock, until));
}

CRATON_EXPORT int pthread_cond_signal(pthread_cond_t* condition) {
  Monitor* const shared = monitor_of(condition);
  return shared == nullptr ? CRATON_REAL(pthread_cond_signal)(condition) : signal(*shared, condition);
}

CRATON_EXPORT int pthread_cond_broadcast(pthread_cond_t* condition) {
  Monitor* const shared = monitor_of(condition);
  return shared == nullptr ? CRATON_REAL(pthread_cond_broadcast)(condition) : signal(*shared, condition);
}

CRATON_EXPORT int pthread_cond_destroy(pthread_cond_t* condition) {
  return monitor_of(condition) == nullptr ? CRATON_REAL(pthread_cond_destroy)(condition) : 0;
}

CRATON_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t* object) {
  Monitor* const shared = monitor_of(object);
  return shared == nullptr ? CRATON_REAL(pthread_rwlock_rdlock)(object) : lock(*shared, object, false, true);
}

CRATON_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t* object) {
  Monitor* const shared = monitor_of(object);
  return shared == nullptr ? CRATON_REAL(pthread_rwlock_tryrdlock)(object)
                           : lock(*shared, object, false, false);
}

CRATON_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t* object) {
  Monitor* const shared = monitor_of(object);
  return shared == nullptr ? CRATON_REAL(pthread_rwlock_wrlock)(object) : lock(*shared, object, true, true);
}

CRATON_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t* object) {
  Monitor* const shared = monitor_of(object);
  return shared == nullptr ? CRATON_REAL(pthread_rwlock_trywrlock)(object)
                           : lock(*shared, object, true, false);
}

CRATON_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t* object) {
  Monitor* const shared = monitor_of(object);
  return shared == nullptr ? CRATON_REAL(pthread_rwlock_unlock)(object) : unlock(*shared, object);
}

CRATON_EXPORT int sem_wait(sem_t* semaphore) {
  Monitor* const shared = monitor_of(semaphore);
  return shared == nullptr ? CRATON_REAL(sem_wait)(semaphore) : wait(*shared, semaphore, true);
}

CRATON_EXPORT int sem_trywait(sem_t* semaphore) {
  Monitor* const shared = monitor_of(semaphore);
  return shared == nullptr ? CRATON_REAL(sem_trywait)(semaphore) : wait(*shared, semaphore, false);
}

CRATON_EXPORT int sem_timedwait(sem_t* semaphore, const timespec* until) {
  Monitor* const shared = monitor_of(semaphore);
  if (shared == nullptr) return CRATON_REAL(sem_timedwait)(semaphore, until);
  return wait(*shared, semaphore, true, deadline_of(CLOCK_REALTIME, until));
}

CRATON_EXPORT int sem_post(sem_t* semaphore) {
  Monitor* const shared = monitor_of(semaphore);
  if (shared == nullptr) return CRATON_REAL(sem_post)(semaphore);
  bool wake = false;
  shared->inside(semaphore, [&] {
    auto& state = state_of<Semaphore>(semaphore);
    ++state.value;
    wake = state.waiting != 0;
  });
  if (wake) shared->changed();
  return 0;
}

CRATON_EXPORT int sem_getvalue(sem_t* semaphore, int* value) {
  Monitor* const shared = monitor_of(semaphore);
  if (shared == nullptr) return CRATON_REAL(sem_getvalue)(semaphore, value);
  shared->inside(semaphore, [&] { *value = static_cast<int>(state_of<Semaphore>(semaphore).value); });
  return 0;
}

CRATON_EXPORT int pthread_barrier_wait(pthread_barrier_t* object) {
  Monitor* const shared = monitor_of(object);
  if (shared == nullptr) return CRATON_REAL(pthread_barrier_wait)(object);
  auto& barrier = state_of<Barrier>(object);
  std::uint32_t round = 0;
  bool last = false;
  shared->inside(object, [&] {
    round = barrier.round;
    last = ++barrier.arrived == barrier.count;
    if (!last) return;
    barrier.arrived = 0;
    ++barrier.round;
  });
  if (last) {
    shared->changed();
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  static_cast<void>(shared->wait(object, [&] { return barrier.round != round; }));
  return 0;
}

CRATON_EXPORT int pthread_barrier_destroy(pthread_barrier_t* object) {
  return monitor_of(object) == nullptr ? CRATON_REAL(pthread_barrier_destroy)(object) : 0;
}

CRATON_EXPORT int pthread_once(pthread_once_t* once, void (*routine)()) {
  Monitor* const shared = monitor_of(once);
  if (shared == nullptr) return CRATON_REAL(pthread_once)(once, routine);
  bool mine = false;
  static_cast<void>(shared->wait(once, [&] {
    mine = *once == 0;
    if (mine) *once = once_running;
    return mine || *once == once_done;
  }));
  if (!mine) return 0;
  const auto end = [&](int state) {
    shared->inside(once, [&] { *once = state; });
    shared->changed();
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

CRATON_EXPORT int pthread_spin_lock(pthread_spinlock_t* object) {
  Monitor* const shared = monitor_of(const_cast<int*>(object));
  if (shared == nullptr) return CRATON_REAL(pthread_spin_lock)(object);
  // As glibc has it: 1 is unlocked.
  static_cast<void>(shared->wait(const_cast<int*>(object), [&] {
    const bool is_free = *object == 1;
    if (is_free) *object = 0;
    return is_free;
  }));
  return 0;
}

CRATON_EXPORT int pthread_spin_trylock(pthread_spinlock_t* object) {
  Monitor* const shared = monitor_of(const_cast<int*>(object));
  if (shared == nullptr) return CRATON_REAL(pthread_spin_trylock)(object);
  bool got = false;
  shared->inside(const_cast<int*>(object), [&] {
    got = *object == 1;
    if (got) *object = 0;
  });
  return got ? 0 : EBUSY;
}

CRATON_EXPORT int pthread_spin_unlock(pthread_spinlock_t* object) {
  Monitor* const shared = monitor_of(const_cast<int*>(object));
  if (shared == nullptr) return CRATON_REAL(pthread_spin_unlock)(object);
  shared->inside(const_cast<int*>(object), [&] { *object = 1; });
  shared->changed();
  return 0;
}

// ---- Guards of local statics: the program's, and since ours stand before the C++ library's, also those of
// private data.

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
  shared->inside(guard, [&] {
    state.running = 0;
    state.done = 1;
  });
  shared->changed();
}

void craton_guard_abort(std::uint64_t* guard) {
  auto& state = *reinterpret_cast<Guard*>(guard);
  Monitor* const shared = monitor_of(guard);
  if (shared == nullptr) return std::atomic_ref(state.running).store(0);
  shared->inside(guard, [&] { state.running = 0; });
  shared->changed();
}

// ---- Threads: their stacks are free again when they have been joined.

CRATON_EXPORT int pthread_join(pthread_t thread, void** result) {
  const int error = CRATON_REAL(pthread_join)(thread, result);
  if (error == 0 && shared_program() != nullptr) shared_program()->stacks().let_go(thread);
  return error;
}

CRATON_EXPORT int pthread_detach(pthread_t thread) {
  const int error = CRATON_REAL(pthread_detach)(thread);
  if (error == 0 && shared_program() != nullptr) shared_program()->stacks().let_go(thread);
  return error;
}
