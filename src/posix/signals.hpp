/// \file
/// Signals of the program beside those of the runtime.
///
/// SIGSEGV and SIGBUS are how the runtime learns of accesses: its handlers stay, and the program's come after
/// them, for faults that are not in shared memory (vm/fault_dispatcher.hpp). The program is told what it
/// believes to have set. It cannot block them: a blocked fault kills. keep_signal() does the same for others
/// of the runtime's.
///
/// All handlers of the program run on the thread's alternate stack, which the runtime gives every thread: the
/// kernel could not put a frame on a stack in shared memory that the program made itself. A stack that the
/// program names with sigaltstack is remembered, and used where it is larger and private.
#pragma once

#include <signal.h>

#include <cstdint>

namespace craton::posix {

/// A signal that the runtime has set its own handler for, beside SIGSEGV and SIGBUS: from now on sigaction of
/// the program does not reach the kernel. One thread, before the program starts; no more than 4.
void keep_signal(int signal) noexcept;
/// What the program has set for a kept signal. Async-signal-safe.
struct sigaction program_action(int signal) noexcept;

/// The calling thread is in a handler of the program's, which may have interrupted anything. All of them run
/// on the alternate stack. A system call.
bool is_in_handler() noexcept;

/// How many handlers without SA_RESTART this thread has run: what may end a wait with EINTR.
std::uint32_t interruptions() noexcept;

/// By a thread of the program, first of all: its mask is this one. What must not be blocked is not, and the
/// program finds that it is.
void begin_with_mask(const sigset_t& mask) noexcept;

/// The mask for a call of the kernel's: what the program asks for, less what must not be blocked.
class Mask {
 public:
  explicit Mask(const sigset_t* original) noexcept;
  Mask(const Mask&) = delete;
  Mask& operator=(const Mask&) = delete;

  operator const sigset_t*() const noexcept { return used_; }  // NOLINT(google-explicit-constructor)

 private:
  const sigset_t* used_;
  sigset_t copy_;
};

}  // namespace craton::posix
