/// \file
/// Mutexes of pthreads, of those that all ranks share and of others, as programs call them.
#pragma once

#include <pthread.h>

namespace craton::posix {

/// As pthread_mutex_lock and pthread_mutex_unlock. Blocks.
int lock_mutex(pthread_mutex_t* mutex);
int unlock_mutex(pthread_mutex_t* mutex);

}  // namespace craton::posix
