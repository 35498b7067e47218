/// \file
/// The futex system call, for words in private or shared memory. Async-signal-safe; errno is kept.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/clock.hpp"
#include "base/kept_errno.hpp"

namespace craton {

/// Sleeps while `word` is `expected`, until woken, a signal, or CLOCK_MONOTONIC reaches `deadline_ns`. May
/// return early for no reason: look at the condition again.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       TimeNs deadline_ns) noexcept {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  const KeptErrno kept;
  const timespec deadline = timespec_of(deadline_ns);
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, deadline_ns == no_deadline ? nullptr : &deadline,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

/// Wakes up to `count` sleepers on `word`, in any process. \returns how many
inline int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  const KeptErrno kept;
  return static_cast<int>(::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0));
}

/// Tells the core that this thread spins: about 40 cycles on x86-64.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace craton
