/// \file
/// A barrier for a fixed number of threads of control, used again and again. One atomic step an arrival.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "fiber/wait_list.hpp"

namespace craton::fiber {

/// Invariant: the state is one value, the newest arrival's address in 48 bits and how many have arrived in
/// 16, and what lies under the newest is fixed by it; so a compare-exchange that finds the value finds the
/// whole state.
template <System S>
class BasicBarrier {
 public:
  /// \param count at most 65535 \throws std::invalid_argument
  explicit BasicBarrier(std::uint32_t count) : count_(count) {
    if (count == 0 || count > max_count)
      throw std::invalid_argument("a barrier is for 1 to 65535 threads of control");
  }
  BasicBarrier(const BasicBarrier&) = delete;
  BasicBarrier& operator=(const BasicBarrier&) = delete;
  ~BasicBarrier() = default;

  /// Blocks until all have arrived. The last one, for which the result is true, does not wait.
  bool arrive_and_wait() {
    Node node;
    bool last = false;
    suspend<S>([this, &node, &last](Handle self) {
      node.handle = self;
      const auto address = reinterpret_cast<std::uintptr_t>(&node);
      if (address >> 48U != 0) __builtin_trap();  // a stack beyond 48 bits: no kernel gives one unasked
      std::uint64_t state = state_.load(std::memory_order_acquire);
      for (;;) {
        const std::uint64_t arrived = (state >> 48U) + 1;
        node.next = newest(state);
        if (arrived == count_) {
          if (!state_.compare_exchange_weak(state, 0, std::memory_order_acq_rel, std::memory_order_acquire))
            continue;
          last = true;
          return false;
        }
        if (state_.compare_exchange_weak(state, arrived << 48U | address, std::memory_order_acq_rel,
                                         std::memory_order_acquire))
          return true;
      }
    });
    if (last) WaitList<S>::resume_all(node.next);
    return last;
  }

 private:
  using Node = typename WaitList<S>::Node;
  static constexpr std::uint32_t max_count = 65535;
  static Node* newest(std::uint64_t state) noexcept {
    return reinterpret_cast<Node*>(state & ((std::uint64_t{1} << 48U) - 1));
  }

  const std::uint32_t count_;
  typename S::template Atomic<std::uint64_t> state_{0};
};

}  // namespace craton::fiber
