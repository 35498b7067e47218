/// \file
/// Where threads of a rank wait for each other: they look for a moment, then sleep on a futex.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace craton::omp {

/// How often a thread looks before it sleeps; a look is about 40 cycles.
struct Spin {
  std::uint32_t looks = 0;
};

class Gate {
 public:
  /// Makes all who wait look again. After what they wait for has changed.
  void open() noexcept {
    // With sleep(): either the sleeper sees the change, or we see that it sleeps.
    sequence_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake(sequence_, INT_MAX);
  }
  /// Blocks until the condition holds, which is looked at again after each open().
  template <typename Condition>
  void wait(Spin spin, const Condition& condition) noexcept {
    for (std::uint32_t look = 0; look < spin.looks; ++look) {
      if (condition()) return;
      spin_pause();
    }
    for (;;) {
      const std::uint32_t sequence = sequence_.load(std::memory_order_seq_cst);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      const bool holds = condition();
      if (!holds) futex_wait(sequence_, sequence, no_deadline);
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (holds || condition()) return;
    }
  }

 private:
  std::atomic<std::uint32_t> sequence_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace craton::omp
