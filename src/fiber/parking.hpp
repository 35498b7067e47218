/// \file
/// Where workers without work sleep.
///
/// Invariant: whoever makes work first makes it findable, then calls wake_one(); whoever sleeps first counts
/// itself, then looks for work once more. By the light and the heavy fence one of the two sees the other, so
/// no work is left lying while all sleep. A sleeper is woken once: the waker takes it off the count.
#pragma once

#include <cstdint>

#include "fiber/system.hpp"

namespace craton::fiber {

template <System S>
class Parking {
 public:
  /// Blocks the kernel thread until wake_one() or wake_all() picks it, unless `look()` says that there is
  /// something.
  template <typename Look>
  void sleep(Look&& look) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    S::heavy_fence();
    if (look() && withdraw()) return;
    for (;;) {
      std::uint32_t wakes = wakes_.load(std::memory_order_relaxed);
      if (wakes == 0) {
        S::futex_wait(wakes_, 0, no_deadline);
      } else if (wakes_.compare_exchange_strong(wakes, wakes - 1, std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
        return;
      }
    }
  }

  /// Wakes a sleeper if there is one. Costs a load where there is none, else a system call.
  /// Async-signal-safe.
  void wake_one() noexcept {
    S::light_fence();
    if (sleepers_.load(std::memory_order_relaxed) != 0) wake_a_sleeper();
  }
  void wake_all() noexcept {
    S::heavy_fence();
    while (wake_a_sleeper()) {
    }
  }

 private:
  /// Takes one off the count. \returns false if others have taken all
  bool withdraw() noexcept {
    std::uint32_t sleepers = sleepers_.load(std::memory_order_relaxed);
    while (sleepers != 0) {
      if (sleepers_.compare_exchange_weak(sleepers, sleepers - 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  [[gnu::noinline]] bool wake_a_sleeper() noexcept {
    if (!withdraw()) return false;
    wakes_.fetch_add(1, std::memory_order_release);
    S::futex_wake(wakes_, 1);
    return true;
  }

  alignas(64)
      typename S::template Atomic<std::uint32_t> sleepers_{0};       ///< that nobody has decided to wake yet
  alignas(64) typename S::template Atomic<std::uint32_t> wakes_{0};  ///< that no sleeper has taken yet
};

}  // namespace craton::fiber
