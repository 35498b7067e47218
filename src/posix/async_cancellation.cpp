#include "posix/async_cancellation.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <vector>

#include "base/futex.hpp"
#include "base/signal_section.hpp"
#include "posix/own_thread.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"
#include "posix/signals.hpp"

namespace craton::posix {

namespace {

/// The C library keeps it for itself, and lets none of its functions name it.
constexpr int cancel_signal = 32;
constexpr long pause_ns = 1'000'000;

/// As the kernel has it.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

long kernel_action(const KernelAction* next, KernelAction* before) noexcept {
  return ::syscall(SYS_rt_sigaction, cancel_signal, next, before, sizeof(std::uint64_t));
}

/// The C library's.
std::atomic<void (*)(int, siginfo_t*, void*)> end_thread{nullptr};

/// Threads of this rank that have asked for it.
struct Asynchronous {
  pthread_t thread;
  pid_t kernel_thread;
};
constinit std::mutex asynchronous_lock;
std::vector<Asynchronous> asynchronous;

/// Of this thread.
struct Wish {
  bool is_asynchronous = false;
  bool has_timer = false;
  int timer = 0;  ///< the kernel's number of what has the signal come again
};
constinit thread_local Wish wish;

/// The frames of a thread from where a signal has interrupted it, the innermost first.
struct FramesBelow {
  std::uintptr_t interrupted;
  bool has_come_to_it = false;  ///< those of the handler come before
  bool is_in_program = false;   ///< not in the runtime, or a trampoline of its, that the program has called
};

_Unwind_Reason_Code look_at_frame(_Unwind_Context* context, void* below) {
  auto& frames = *static_cast<FramesBelow*>(below);
  const std::uintptr_t address = _Unwind_GetIP(context);
  frames.has_come_to_it = frames.has_come_to_it || address == frames.interrupted;
  if (!frames.has_come_to_it) return _URC_NO_REASON;
  auto* const at = reinterpret_cast<void*>(address);
  frames.is_in_program = shared_program()->is_own_code(at);
  if (frames.is_in_program) return _URC_END_OF_STACK;
  dl_find_object here{};
  dl_find_object runtime{};
  const bool is_runtime =
      ::_dl_find_object(at, &here) != 0 ||
      ::_dl_find_object(reinterpret_cast<void*>(&end_async_cancellation), &runtime) != 0 ||
      here.dlfo_map_start == runtime.dlfo_map_start;
  return is_runtime ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/// It waits in the kernel, in a function of the C library that is not syscall(), where the runtime sleeps.
bool is_in_system_call(const std::byte* at) noexcept {
  constexpr std::ptrdiff_t syscall_bytes = 64;
  constexpr std::array instruction{std::byte{0x0f}, std::byte{0x05}};
  const std::ptrdiff_t in_syscall = at - reinterpret_cast<const std::byte*>(CRATON_REAL(syscall));
  return (in_syscall < 0 || in_syscall >= syscall_bytes) &&
         std::equal(instruction.begin(), instruction.end(), at - instruction.size());
}

/// Where frames can be unwound, and none of them is of the runtime in the middle of something.
bool may_end_here(const ucontext_t& context) noexcept {
  if (signal_section::thread.depth != 0 || is_in_handler()) return false;
  dl_find_object here{};
  const auto at = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
  if (::_dl_find_object(reinterpret_cast<void*>(at), &here) != 0) return false;
  if (is_in_system_call(reinterpret_cast<const std::byte*>(at))) return true;
  FramesBelow below{.interrupted = at};
  _Unwind_Backtrace(&look_at_frame, &below);
  return below.is_in_program;
}

/// For the kernel, in place of the C library's handler, which ends a thread that waits in a cancellation
/// point. To that a thread is never of the asynchronous type until it is found where it may end.
void end_or_come_again(int signal, siginfo_t* information, void* context) {
  if (information->si_code != SI_TIMER) end_thread.load()(signal, information, context);
  if (!wish.is_asynchronous) return;
  if (may_end_here(*static_cast<const ucontext_t*>(context))) {
    CRATON_REAL(pthread_setcanceltype)(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);  // ends it
    CRATON_REAL(pthread_setcanceltype)(PTHREAD_CANCEL_DEFERRED, nullptr);
  }
  const itimerspec once{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = pause_ns}};
  ::syscall(SYS_timer_settime, wish.timer, 0, &once, nullptr);
}

/// The C library sets its handler when it is first asked to cancel a thread: one of ours, which comes to no
/// cancellation point.
void have_handler_set() noexcept {
  static std::atomic<std::uint32_t> is_over{0};
  const auto wait = [](void*) -> void* {
    while (is_over.load() == 0) futex_wait(is_over, 0, no_deadline);
    return nullptr;
  };
  pthread_t thread = 0;
  if (start_own_thread(wait, nullptr, &thread) != 0) return;
  CRATON_REAL(pthread_cancel)(thread);
  is_over.store(1);
  futex_wake(is_over, 1);
}

void stand_before_handler() noexcept {
  const SignalSection section;
  have_handler_set();
  KernelAction action{};
  if (kernel_action(nullptr, &action) != 0 || action.handler == nullptr) return;
  end_thread.store(action.handler);
  action.handler = &end_or_come_again;
  kernel_action(&action, nullptr);
}

/// Without a timer the thread stays of the deferred type.
void make_timer() {
  static std::once_flag once;
  std::call_once(once, stand_before_handler);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = cancel_signal;
  event._sigev_un._tid = ::gettid();
  wish.has_timer = ::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &wish.timer) == 0;
  if (!wish.has_timer) return;
  const SignalSection section;
  const std::lock_guard lock(asynchronous_lock);
  asynchronous.push_back({.thread = ::pthread_self(), .kernel_thread = ::gettid()});
}

}  // namespace

void cancel_asynchronously(pthread_t thread) {
  if (thread == ::pthread_self()) {
    if (wish.is_asynchronous) ::pthread_testcancel();
    return;
  }
  const SignalSection section;
  const std::lock_guard lock(asynchronous_lock);
  for (const Asynchronous& each : asynchronous) {
    if (each.thread == thread) ::syscall(SYS_tgkill, ::getpid(), each.kernel_thread, cancel_signal);
  }
}

void end_async_cancellation() noexcept {
  wish.is_asynchronous = false;
  if (!wish.has_timer) return;
  wish.has_timer = false;
  ::syscall(SYS_timer_delete, wish.timer);
  const SignalSection section;
  const std::lock_guard lock(asynchronous_lock);
  const auto is_this = [](const Asynchronous& each) { return each.thread == ::pthread_self(); };
  asynchronous.erase(std::remove_if(asynchronous.begin(), asynchronous.end(), is_this), asynchronous.end());
}

}  // namespace craton::posix

extern "C" [[gnu::visibility("default")]] int pthread_setcanceltype(int type, int* before) {
  using namespace craton::posix;
  if (shared_program() == nullptr) return CRATON_REAL(pthread_setcanceltype)(type, before);
  if (type != PTHREAD_CANCEL_ASYNCHRONOUS && type != PTHREAD_CANCEL_DEFERRED) return EINVAL;
  const bool was_asynchronous = wish.is_asynchronous;
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS) {
    if (!wish.has_timer) make_timer();
    wish.is_asynchronous = wish.has_timer;
    ::pthread_testcancel();
  } else {
    wish.is_asynchronous = false;
  }
  if (before != nullptr) *before = was_asynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
  return 0;
}
