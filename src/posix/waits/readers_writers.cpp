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
};

bool try_lock(ReadersWriters& lock, bool write) {
  const bool is_free = lock.writer == 0 && (!write || lock.readers == 0);
  if (is_free) (write ? lock.writer : lock.readers) += 1;
  return is_free;
}

}  // namespace

int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, TimeNs deadline_ns) {
  auto& lock = state_of<ReadersWriters>(object);
  const auto take = [&] { return try_lock(lock, write); };
  const auto may_take = [] { return false; };  // who unlocks has all look
  return wait_to_take(monitor, object, lock.waiting, take, may_take, deadline_ns) ? 0 : ETIMEDOUT;
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

}  // namespace craton::posix
