/// \file
/// A lock for a few instructions that do not suspend. Its holder may lose its core, so whoever waits long
/// sleeps.
#pragma once

#include <cstdint>

#include "fiber/system.hpp"

namespace craton::fiber {

template <System S>
class SpinLock {
 public:
  void lock() noexcept {
    std::uint32_t expected = open;
    if (state_.compare_exchange_strong(expected, held, std::memory_order_acquire, std::memory_order_relaxed))
      return;
    lock_slowly();
  }
  void unlock() noexcept {
    if (state_.exchange(open, std::memory_order_release) == held_and_awaited) S::futex_wake(state_, 1);
  }

 private:
  [[gnu::noinline]] void lock_slowly() noexcept {
    for (int i = 0; i < polls_before_sleep; ++i) {
      std::uint32_t expected = open;
      if (state_.load(std::memory_order_relaxed) == open &&
          state_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                         std::memory_order_relaxed))
        return;
      S::pause();
    }
    while (state_.exchange(held_and_awaited, std::memory_order_acquire) != open)
      S::futex_wait(state_, held_and_awaited, no_deadline);
  }

  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t held = 1;
  static constexpr std::uint32_t held_and_awaited = 2;
  static constexpr int polls_before_sleep = 256;
  typename S::template Atomic<std::uint32_t> state_{open};
};

template <System S>
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock<S>& lock) noexcept : lock_(lock) { lock_.lock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;
  ~SpinGuard() { lock_.unlock(); }

 private:
  SpinLock<S>& lock_;
};

}  // namespace craton::fiber
