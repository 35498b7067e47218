#include "posix/waits/flags.hpp"

#include <cerrno>

namespace craton::posix {

namespace {

/// As in glibc's pthread_once_t.
constexpr int once_running = 1;
constexpr int once_done = 2;

bool try_spin_lock(volatile int& lock) {
  const bool is_free = lock == 1;
  if (is_free) lock = 0;
  return is_free;
}

}  // namespace

int run_once(Monitor& monitor, pthread_once_t* once, FunctionRef<void()> routine) {
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

bool begin_object(Monitor& monitor, Guard* guard) {
  bool mine = false;
  static_cast<void>(monitor.wait(guard, [&] {
    mine = guard->done == 0 && guard->running == 0;
    if (mine) guard->running = 1;
    return mine || guard->done != 0;
  }));
  return mine;
}

void end_object(Monitor& monitor, Guard* guard) {
  monitor.inside(guard, [&] { guard->running = 0; });
  monitor.wake_all(guard);
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

}  // namespace craton::posix
