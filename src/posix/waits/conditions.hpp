/// \file
/// Conditions of pthreads that all ranks share (taking.hpp).
#pragma once

#include <pthread.h>

#include "base/function_ref.hpp"
#include "posix/waits/monitor.hpp"
#include "posix/waits/taking.hpp"

namespace craton::posix {

/// A mutex that the caller has locked, which need not be one that all ranks share.
struct HeldMutex {
  const void* object;
  FunctionRef<int()> unlock;
  FunctionRef<int()> lock;
};

/// Of those who wait when it is called one goes on, or all. Where the caller has locked the mutex that they
/// want, those of other nodes are told when it unlocks that: they would look in vain.
int signal(Monitor& monitor, pthread_cond_t* object, Wakes wakes);
/// A point of cancellation, where the mutex is locked again and the signal, if there was one, is another's.
int wait(Monitor& monitor, pthread_cond_t* object, const HeldMutex& mutex, TimeNs deadline_ns = no_deadline);

}  // namespace craton::posix
