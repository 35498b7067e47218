#include "posix/mutexes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "posix/synchronised.hpp"

namespace {

using craton::no_deadline;
using craton::TimeNs;
using craton::posix::change_and_wake;
using craton::posix::is_time;
using craton::posix::Monitor;
using craton::posix::state_of;
using craton::posix::wait_to_take;
using craton::posix::wait_until;
using craton::posix::Wakes;

/// Of a robust mutex.
enum class Health : std::uint32_t {
  sound,
  owner_died,    ///< until pthread_mutex_consistent() says that what it protects is in order again
  unrecoverable  ///< it was unlocked before that
};

struct Mutex {
  std::uint32_t locked;
  std::uint32_t count;    ///< of a recursive one, beyond the first time
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
  std::uint32_t unused;
  std::uint32_t
      kind;  ///< where the C library has it: normal 0, recursive 1, errorcheck 2, adaptive 3; a flag
  Health health;
  pthread_t owner;  ///< its address is unique among all ranks
};
constexpr std::uint32_t kind_bits = 3;
constexpr std::uint32_t robust_bit = 16;

bool is_robust(const Mutex& mutex) {
  return (mutex.kind & robust_bit) != 0;
}

/// Robust ones that this thread has locked, once it has: freed by leave_robust_mutexes().
using Locked = std::vector<pthread_mutex_t*>;
constinit thread_local Locked* robust_mutexes = nullptr;

void note_locked(pthread_mutex_t* object) {
  if (robust_mutexes == nullptr) robust_mutexes = new Locked;
  robust_mutexes->push_back(object);
}

/// \returns 0, EOWNERDEAD, which has locked it too, EBUSY, or what kinds that look say
int try_lock(pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  if (mutex.health == Health::unrecoverable) return ENOTRECOVERABLE;
  const pthread_t self = ::pthread_self();
  if (mutex.locked == 0) {
    mutex.locked = 1;
    mutex.owner = self;
    mutex.count = 0;
    if (is_robust(mutex)) note_locked(object);
    return mutex.health == Health::owner_died ? EOWNERDEAD : 0;
  }
  if (mutex.owner != self) return EBUSY;
  switch (mutex.kind & kind_bits) {
    case PTHREAD_MUTEX_RECURSIVE:
      ++mutex.count;
      return 0;
    case PTHREAD_MUTEX_ERRORCHECK:
      return EDEADLK;
    default:
      return EBUSY;
  }
}

int lock(Monitor& monitor, pthread_mutex_t* object, TimeNs deadline_ns = no_deadline) {
  int result = EBUSY;
  auto& mutex = state_of<Mutex>(object);
  const auto take = [&] { return (result = try_lock(object)) != EBUSY; };
  const auto may_take = [&] { return mutex.locked == 0; };
  return wait_to_take(monitor, object, mutex.waiting, take, may_take, deadline_ns) ? result : ETIMEDOUT;
}

int lock_if_free(Monitor& monitor, pthread_mutex_t* object) {
  int result = EBUSY;
  monitor.inside(object, [&] { result = try_lock(object); });
  return result == EDEADLK ? EBUSY : result;
}

/// A mutex that is free is locked, whatever the time.
int lock_until(Monitor& monitor, pthread_mutex_t* object, clockid_t clock, const timespec* until) {
  const bool is_clock = is_time(clock, {});
  if (is_clock && !is_time(clock, *until)) {
    const int result = lock_if_free(monitor, object);
    return result == EBUSY ? EINVAL : result;
  }
  return wait_until(clock, until, [&](TimeNs deadline_ns) { return lock(monitor, object, deadline_ns); });
}

int unlock(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  int result = 0;
  change_and_wake(monitor, object, mutex.waiting, [&] {
    const bool checks = (mutex.kind & (kind_bits | robust_bit)) != PTHREAD_MUTEX_NORMAL;
    if (mutex.locked == 0 || (checks && mutex.owner != ::pthread_self())) {
      result = checks ? EPERM : 0;
      return Wakes::nobody;
    }
    if (mutex.count != 0) {
      --mutex.count;
      return Wakes::nobody;
    }
    mutex.locked = 0;
    mutex.owner = 0;
    if (is_robust(mutex)) {
      Locked& mine = *robust_mutexes;
      mine.erase(std::remove(mine.begin(), mine.end(), object), mine.end());
      if (mutex.health == Health::owner_died) {
        mutex.health = Health::unrecoverable;
        return Wakes::all;
      }
    }
    return Wakes::one;
  });
  return result;
}

int make_consistent(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  int result = EINVAL;
  monitor.inside(object, [&] {
    if (!is_robust(mutex) || mutex.health != Health::owner_died || mutex.owner != ::pthread_self()) return;
    mutex.health = Health::sound;
    result = 0;
  });
  return result;
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

namespace craton::posix {

int lock_mutex(pthread_mutex_t* mutex) {
  return pthread_mutex_lock(mutex);
}

int unlock_mutex(pthread_mutex_t* mutex) {
  return pthread_mutex_unlock(mutex);
}

void leave_robust_mutexes() noexcept {
  const std::unique_ptr<Locked> mine(std::exchange(robust_mutexes, nullptr));
  if (mine == nullptr) return;
  for (pthread_mutex_t* const object : *mine) {
    auto& mutex = state_of<Mutex>(object);
    change_and_wake(*monitor(), object, mutex.waiting, [&] {
      if (mutex.locked == 0 || mutex.owner != ::pthread_self()) return Wakes::nobody;
      mutex.locked = 0;
      mutex.owner = 0;
      mutex.health = Health::owner_died;
      return Wakes::one;
    });
  }
}

}  // namespace craton::posix
