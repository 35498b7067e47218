/// \file
/// Mutexes of pthreads that all ranks share (taking.hpp): of all kinds, robust ones as well.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "posix/waits/monitor.hpp"

namespace craton::posix {

int lock(Monitor& monitor, pthread_mutex_t* object, TimeNs deadline_ns = no_deadline);
/// Does not wait: EBUSY.
int lock_if_free(Monitor& monitor, pthread_mutex_t* object);
int unlock(Monitor& monitor, pthread_mutex_t* object);
int make_consistent(Monitor& monitor, pthread_mutex_t* object);
/// By a thread of the program that ends: robust mutexes that it has locked are free, and who locks one of
/// them next is told so (EOWNERDEAD).
void leave_mutexes(Monitor& monitor);

/// Whether the calling thread has the mutex, and has locked none after it.
bool has_locked_last(Monitor& monitor, const void* object);
/// By such a thread: Monitor::let_on(), when it unlocks that mutex, or locks another one.
void put_off_signal(Monitor& monitor, const void* condition, std::uint64_t first, std::uint64_t end,
                    std::uint32_t ranks);

}  // namespace craton::posix
