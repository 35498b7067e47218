/// \file
/// Code that a handler of the program's signals must not interrupt: its thread has locks of the runtime, or
/// polls, and what the handler touches may need the same. A signal that comes meanwhile waits until the
/// section ends, or until the thread sleeps in a wait of its own (let_signals_run()).
///
/// A section costs a few instructions and no system call. The wrapper of the program's handlers
/// (posix/signals.cpp) asks keep_signal_back(); where nobody has installed it, sections do nothing.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>

namespace craton {

/// All but those that a thread's own instructions raise: what a thread of the runtime's blocks, whose own
/// faults are none of the program's business.
inline sigset_t signals_from_others() noexcept {
  sigset_t others;
  ::sigfillset(&others);
  for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT}) ::sigdelset(&others, own);
  return others;
}

namespace signal_section {

struct Thread {
  std::uint32_t depth;
  std::uint64_t kept_back;  ///< signals that are pending, and blocked, since they came in a section
};
/// Of this thread; changed by its handlers as well.
inline constinit thread_local volatile Thread thread [[gnu::tls_model("initial-exec")]] = {};

/// In the wrapper of a handler. \returns false if the thread is in no section: the handler may run. Else the
/// signal is pending and, once the wrapper returns, blocked.
bool keep_signal_back(int signal, siginfo_t* info, void* context) noexcept;
/// What the wrapper calls then, so that a thread that is about to sleep does not. For one at a time.
void set_wake(void (*wake)(void* context) noexcept, void* context) noexcept;
/// Runs the handlers of what was kept back.
void let_run() noexcept;

}  // namespace signal_section

class SignalSection {
 public:
  /// In the only section of its thread: outside of it for as long as it lives.
  class Pause {
   public:
    Pause() noexcept {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      signal_section::thread.depth = 0;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      signal_section::let_run();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      signal_section::thread.depth = 1;
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  };

  SignalSection() noexcept {
    signal_section::thread.depth = signal_section::thread.depth + 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  SignalSection(const SignalSection&) = delete;
  SignalSection& operator=(const SignalSection&) = delete;
  ~SignalSection() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const std::uint32_t depth = signal_section::thread.depth - 1;
    signal_section::thread.depth = depth;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (depth == 0 && signal_section::thread.kept_back != 0) [[unlikely]]
      signal_section::let_run();
  }

  /// In the only section of its thread, without any lock: whether signals wait for its end.
  static bool is_awaited() noexcept {
    return signal_section::thread.kept_back != 0 && signal_section::thread.depth == 1;
  }
  /// The same inside of one more, that of a wait whose caller lets them run then.
  static bool is_outer_awaited() noexcept {
    return signal_section::thread.kept_back != 0 && signal_section::thread.depth == 2;
  }
  /// In the only one: lets their handlers run.
  static void let_signals_run() noexcept { const Pause pause; }
};

}  // namespace craton
