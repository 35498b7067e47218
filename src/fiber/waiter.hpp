/// \file
/// One event that one thread of control waits for. It is what straight-line protocol code suspends on: the
/// same on a fiber, on a kernel thread, inside a fault handler and in the simulator (DESIGN, decision 5).
#pragma once

#include "fiber/suspended.hpp"

namespace craton::fiber {

/// notify() and wait() may come in either order; what was written before notify() is seen after wait(). The
/// waiter may be destroyed as soon as wait() has returned.
template <System S>
class BasicWaiter {
 public:
  BasicWaiter() noexcept = default;
  BasicWaiter(const BasicWaiter&) = delete;
  BasicWaiter& operator=(const BasicWaiter&) = delete;
  ~BasicWaiter() = default;

  /// Blocks until notify() has been called. One thread of control.
  void wait() {
    if (notified()) return;
    suspend<S>([this](Handle self) {
      Handle expected = nobody;
      return state_.compare_exchange_strong(expected, self, std::memory_order_acq_rel,
                                            std::memory_order_acquire);
    });
  }
  /// Once. Any thread; async-signal-safe inside a KernelThreadScope.
  void notify() noexcept {
    const Handle waiting = state_.exchange(done, std::memory_order_acq_rel);
    if (waiting >= first_handle) resume<S>(waiting);
  }
  bool notified() const noexcept { return state_.load(std::memory_order_acquire) == done; }
  /// Makes it new again. Not while another thread uses it.
  void reset() noexcept { state_.store(nobody, std::memory_order_relaxed); }

 private:
  static constexpr Handle done = 1;
  typename S::template Atomic<Handle> state_{nobody};
};

}  // namespace craton::fiber
