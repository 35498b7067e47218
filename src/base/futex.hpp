/// \file
/// The futex system call, for words in private or shared memory. Async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace craton {

/// Sleeps while `word` is `expected`, until woken, a signal, or CLOCK_MONOTONIC reaches `deadline_ns`. May
/// return early for no reason: look at the condition again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, TimeNs deadline_ns) noexcept;

/// Wakes up to `count` sleepers on `word`, in any process. \returns how many
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

/// Tells the core that this thread spins: about 40 cycles on x86-64.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace craton
