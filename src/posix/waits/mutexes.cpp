#include "posix/waits/mutexes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "posix/waits/taking.hpp"

namespace craton::posix {

namespace {

/// Of a robust mutex.
enum class Health : std::uint32_t {
  sound,
  owner_died,    ///< until pthread_mutex_consistent() says that what it protects is in order again
  unrecoverable  ///< it was unlocked before that
};

struct Mutex {
  std::uint32_t unused;
  std::uint32_t count;    ///< of a recursive one, beyond the first time
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
  std::uint32_t locked;   ///< where the C library's pthread_mutex_destroy() looks for it
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

/// Only who has locked it may unlock it.
bool is_owned(const Mutex& mutex) {
  const std::uint32_t kind = mutex.kind & kind_bits;
  return is_robust(mutex) || kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
}

void note_locked(WaitHost& host, pthread_mutex_t* object) {
  auto*& mine = host.of_thread().robust;
  if (mine == nullptr) mine = new std::vector<pthread_mutex_t*>;
  mine->push_back(object);
}

void tell_put_off(Monitor& monitor) {
  auto& signal = monitor.host().of_thread().signal;
  if (signal.condition == nullptr) return;
  const auto told = std::exchange(signal, {});
  monitor.let_on(told.condition, told.first, told.end, told.ranks);
}

/// \returns 0, EOWNERDEAD, which has locked it too, EBUSY, or what kinds that look say
int try_lock(WaitHost& host, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  if (mutex.health == Health::unrecoverable) return ENOTRECOVERABLE;
  const pthread_t self = host.self();
  if (mutex.locked == 0) {
    mutex.locked = 1;
    mutex.owner = self;
    mutex.count = 0;
    host.of_thread().mutex = object;
    if (is_robust(mutex)) note_locked(host, object);
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

}  // namespace

int lock(Monitor& monitor, pthread_mutex_t* object, TimeNs deadline_ns) {
  tell_put_off(monitor);
  int result = EBUSY;
  auto& mutex = state_of<Mutex>(object);
  const auto take = [&] { return (result = try_lock(monitor.host(), object)) != EBUSY; };
  const auto may_take = [&] { return mutex.locked == 0; };
  return wait_to_take(monitor, object, mutex.waiting, take, may_take, deadline_ns) ? result : ETIMEDOUT;
}

int lock_if_free(Monitor& monitor, pthread_mutex_t* object) {
  int result = EBUSY;
  monitor.inside(object, [&] { result = try_lock(monitor.host(), object); });
  return result == EDEADLK ? EBUSY : result;
}

int unlock(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  ThreadWaits& own = monitor.host().of_thread();
  int result = 0;
  change_and_wake(monitor, object, mutex.waiting, [&] {
    const bool checks = is_owned(mutex);
    if (mutex.locked == 0 || (checks && mutex.owner != monitor.host().self())) {
      result = checks ? EPERM : 0;
      return Wakes::nobody;
    }
    if (mutex.count != 0) {
      --mutex.count;
      return Wakes::nobody;
    }
    mutex.locked = 0;
    mutex.owner = 0;
    if (own.mutex == object) own.mutex = nullptr;
    if (is_robust(mutex)) {
      std::vector<pthread_mutex_t*>& mine = *monitor.host().of_thread().robust;
      mine.erase(std::remove(mine.begin(), mine.end(), object), mine.end());
      if (mutex.health == Health::owner_died) mutex.health = Health::unrecoverable;
    }
    return Wakes::one;
  });
  if (own.mutex == nullptr) tell_put_off(monitor);
  return result;
}

int make_consistent(Monitor& monitor, pthread_mutex_t* object) {
  auto& mutex = state_of<Mutex>(object);
  int result = EINVAL;
  monitor.inside(object, [&] {
    if (!is_robust(mutex) || mutex.health != Health::owner_died || mutex.owner != monitor.host().self())
      return;
    mutex.health = Health::sound;
    result = 0;
  });
  return result;
}

bool has_locked_last(Monitor& monitor, const void* object) {
  // Another thread may have unlocked it, which works for ordinary ones.
  return object != nullptr && monitor.host().of_thread().mutex == object &&
         state_of<const Mutex>(static_cast<const pthread_mutex_t*>(object)).owner == monitor.host().self();
}

void put_off_signal(Monitor& monitor, const void* condition, std::uint64_t first, std::uint64_t end,
                    std::uint32_t ranks) {
  auto& signal = monitor.host().of_thread().signal;
  if (signal.condition == condition && signal.end == first) {
    signal.end = end;
    signal.ranks |= ranks;
    return;
  }
  tell_put_off(monitor);
  signal = {.condition = condition, .first = first, .end = end, .ranks = ranks};
}

void leave_mutexes(Monitor& monitor) {
  ThreadWaits& own = monitor.host().of_thread();
  own.mutex = nullptr;
  tell_put_off(monitor);
  const std::unique_ptr<std::vector<pthread_mutex_t*>> mine(std::exchange(own.robust, nullptr));
  if (mine == nullptr) return;
  for (pthread_mutex_t* const object : *mine) {
    auto& mutex = state_of<Mutex>(object);
    change_and_wake(monitor, object, mutex.waiting, [&] {
      if (mutex.locked == 0 || mutex.owner != monitor.host().self()) return Wakes::nobody;
      mutex.locked = 0;
      mutex.owner = 0;
      mutex.health = Health::owner_died;
      return Wakes::one;
    });
  }
}

}  // namespace craton::posix
