/// \file
/// Of a thread of the runtime's that sleeps until there is something to do.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/futex.hpp"

namespace craton {

class WakeUps {
 public:
  /// After what there is to do can be seen. Any thread, handlers of messages too; does not block.
  void wake() noexcept {
    woken_.fetch_add(1, std::memory_order_release);
    futex_wake(woken_, 1);
  }
  /// The thread's. Calls `body` after each wake(), or after several; it looks for all that there is to do.
  /// Does not return. \throws what `body` throws
  template <typename Body>
  [[noreturn]] void serve(const Body& body) {
    for (std::uint32_t seen = 0;;) {
      futex_wait(woken_, seen, no_deadline);
      seen = woken_.load(std::memory_order_acquire);  // before it looks: what comes meanwhile is for the next
      body();
    }
  }

 private:
  std::atomic<std::uint32_t> woken_{0};
};

}  // namespace craton
