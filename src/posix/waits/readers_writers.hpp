/// \file
/// Locks for readers and writers of pthreads that all ranks share (taking.hpp). Nobody has precedence.
#pragma once

#include <pthread.h>

#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// Of one that the caller has locked to write: EDEADLK.
int lock(Monitor& monitor, pthread_rwlock_t* object, bool write, TimeNs deadline_ns = no_deadline);
/// Does not wait: EBUSY.
int lock_if_free(Monitor& monitor, pthread_rwlock_t* object, bool write);
int unlock(Monitor& monitor, pthread_rwlock_t* object);

}  // namespace craton::posix
