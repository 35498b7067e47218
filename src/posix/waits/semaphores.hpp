/// \file
/// Semaphores of POSIX that all ranks share (taking.hpp). Results are 0 or an error number, not in errno.
#pragma once

#include <semaphore.h>

#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// A point of cancellation. Ends early where a handler of a signal interrupts it: EINTR.
int take(Monitor& monitor, sem_t* object, TimeNs deadline_ns = no_deadline);
/// Does not wait: EAGAIN.
int take_if_there(Monitor& monitor, sem_t* object);
int give(Monitor& monitor, sem_t* object);
int value_of(Monitor& monitor, sem_t* object);

}  // namespace craton::posix
