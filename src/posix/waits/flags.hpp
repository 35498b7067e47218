/// \file
/// Flags in memory that all ranks share: pthread_once, guards of C++'s local statics, spin locks. Who waits
/// for one sleeps, and all who do look when it changes.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/function_ref.hpp"
#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// As pthread_once: where the routine throws, or its thread is cancelled in it, another one calls it.
int run_once(Monitor& monitor, pthread_once_t* once, FunctionRef<void()> routine);

/// As the C++ ABI has it: the first byte says that the object is there.
struct Guard {
  std::uint8_t done;
  std::uint8_t running;
};
/// \returns whether the caller is to make the object, and to call end_object() then; else it is there
bool begin_object(Monitor& monitor, Guard* guard);
/// \pre who has made the object has set `done`, for those who look at it without begin_object()
void end_object(Monitor& monitor, Guard* guard);

/// As glibc has them: 1 is unlocked.
int spin_lock(Monitor& monitor, pthread_spinlock_t* lock);
int spin_lock_if_free(Monitor& monitor, pthread_spinlock_t* lock);
int spin_unlock(Monitor& monitor, pthread_spinlock_t* lock);

}  // namespace craton::posix
