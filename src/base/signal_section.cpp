#include "base/signal_section.hpp"

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace craton::signal_section {

namespace {

// The context first: who sees the function calls it with that.
std::atomic<void*> wake_context{nullptr};
std::atomic<void (*)(void*) noexcept> wake{nullptr};

// The kernel's sets have 64 bits, the C library's 1,024. By system calls, as these functions are the
// program's to replace, and this library does so.
constexpr std::size_t set_bytes = sizeof(std::uint64_t);

void change_mask(int how, std::uint64_t signals) noexcept {
  ::syscall(SYS_rt_sigprocmask, how, &signals, nullptr, set_bytes);
}

}  // namespace

void set_wake(void (*function)(void* context) noexcept, void* context) noexcept {
  wake_context.store(context);
  wake.store(function);
}

bool keep_signal_back(int signal, siginfo_t* info, void* context) noexcept {
  if (thread.depth == 0) return false;
  const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(signal - 1);
  const int before = errno;
  // Sent once more, as it was, to wait until the section's end takes it out of the mask that the return sets.
  change_mask(SIG_BLOCK, bit);
  ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::syscall(SYS_gettid), signal, info);
  ::sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
  thread.kept_back = thread.kept_back | bit;
  if (auto* const function = wake.load()) function(wake_context.load());
  errno = before;
  return true;
}

void let_run() noexcept {
  const int before = errno;
  const std::uint64_t signals = thread.kept_back;
  thread.kept_back = 0;
  change_mask(SIG_UNBLOCK, signals);
  errno = before;
}

}  // namespace craton::signal_section
