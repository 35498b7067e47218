/// \file
/// Threads of the runtime in the program's process, for what may block for as long as the program's own calls
/// do.
#pragma once

#include <pthread.h>

#include <csignal>

#include "base/signal_section.hpp"
#include "posix/real.hpp"

namespace craton::posix {

/// Starts a thread with a private stack, which nobody joins and which takes no signals but its own faults:
/// libraries may have shared memory for what is theirs. Also in handlers of the fabric's messages, whose
/// caller must not wait. \param started for a body that does not end before its caller lets it
/// \returns 0 or an error number
inline int start_own_thread(void* (*body)(void*), void* argument, pthread_t* started = nullptr) noexcept {
  const sigset_t others = signals_from_others();
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &others, &before);
  pthread_t thread = 0;
  const int error = CRATON_REAL(pthread_create)(&thread, nullptr, body, argument);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) CRATON_REAL(pthread_detach)(thread);
  if (started != nullptr) *started = thread;
  return error;
}

}  // namespace craton::posix
