#include "posix/waits/readers_writers.hpp"

#include <cerrno>
#include <cstdint>

#include "posix/waits/taking.hpp"

namespace craton::posix {

namespace {

struct ReadersWriters {
  std::uint32_t readers;
  std::uint32_t writer;
  std::uint32_t waiting;  ///< ranks, as WaitingTake has them
  std::uint32_t unused;
  pthread_t owner;  ///< the writer; its address is unique among all ranks
};

bool try_lock(ReadersWriters& lock, bool write, pthread_t self) {
  const bool is_free = lock.writer == 0 && (!write || lock.readers == 0);
  if (is_free) (write ? lock.writer : lock.readers) += 1;
  if (is_free && write) lock.owner = self;
  return is_free;
}

}  // namespace

int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, TimeNs deadline_ns) {
  auto& lock = state_of<ReadersWriters>(object);
  const pthread_t self = monitor.host().self();
  bool is_own = false;
  const auto take = [&] {
    is_own = lock.writer != 0 && lock.owner == self;
    return is_own || try_lock(lock, write, self);
  };
  const auto may_take = [] { return false; };  // who unlocks has all look
  if (!wait_to_take(monitor, object, lock.waiting, take, may_take, deadline_ns)) return ETIMEDOUT;
  return is_own ? EDEADLK : 0;
}

int lock_if_free(Monitor& monitor, pthread_rwlock_t* object, bool write) {
  bool got = false;
  const pthread_t self = monitor.host().self();
  monitor.inside(object, [&] { got = try_lock(state_of<ReadersWriters>(object), write, self); });
  return got ? 0 : EBUSY;
}

int unlock(Monitor& monitor, pthread_rwlock_t* object) {
  auto& lock = state_of<ReadersWriters>(object);
  change_and_wake(monitor, object, lock.waiting, [&] {
    if (lock.writer != 0) {
      lock.writer = 0;
      lock.owner = 0;
    } else if (lock.readers != 0) {
      --lock.readers;
    }
    return lock.readers == 0 ? Wakes::all : Wakes::nobody;
  });
  return 0;
}

}  // namespace craton::posix
