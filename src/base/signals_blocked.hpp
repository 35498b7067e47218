/// \file
/// Threads of the runtime's own that take no signals: those are for the program's threads, and a handler of
/// the program's on one of these could wait for what only that thread can bring.
#pragma once

#include <signal.h>

namespace craton {

/// While one exists, the calling thread takes no signals, nor do threads that it starts, ever.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace craton
