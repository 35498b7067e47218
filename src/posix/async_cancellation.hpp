/// \file
/// Asynchronous cancellation (PTHREAD_CANCEL_ASYNCHRONOUS) of threads that the runtime works for. The C
/// library ends a thread of that type wherever it is; in the runtime it may have locks, and its frames cannot
/// be unwound at any instruction. So to the C library all threads are of the deferred type, and who cancels
/// one that has asked for the other sends it a signal as well:
///
///     pthread_cancel ──▶ SIGCANCEL ──▶ in the program's code, or a library's that this calls? ──▶ it ends
///                            ▲     └─▶ in the runtime, a trampoline, another handler
///                            └── 1 ms ──┘
///
/// Unlike natively, a thread that waits for a mutex ends when it has got that.
#pragma once

#include <pthread.h>

namespace craton::posix {

/// After the C library's pthread_cancel, of a thread of this rank. One that cancels itself may end here.
void cancel_asynchronously(pthread_t thread);
/// By a thread of the program that ends.
void end_async_cancellation() noexcept;

}  // namespace craton::posix
