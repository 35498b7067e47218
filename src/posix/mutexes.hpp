/// \file
/// Mutexes of pthreads, of those that all ranks share and of others, as programs call them.
#pragma once

#include <pthread.h>

namespace craton::posix {

/// As pthread_mutex_lock and pthread_mutex_unlock. Blocks.
int lock_mutex(pthread_mutex_t* mutex);
int unlock_mutex(pthread_mutex_t* mutex);
/// By a thread of the program that ends: robust mutexes that it has locked, and that all ranks share, are
/// free, and who locks one of them next is told so (EOWNERDEAD).
void leave_robust_mutexes() noexcept;

}  // namespace craton::posix
