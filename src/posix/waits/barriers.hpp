/// \file
/// Barriers of pthreads that all ranks share (taking.hpp).
#pragma once

#include <pthread.h>

#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// \returns 0, or PTHREAD_BARRIER_SERIAL_THREAD to who came last
int wait(Monitor& monitor, pthread_barrier_t* object);

}  // namespace craton::posix
