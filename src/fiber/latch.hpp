/// \file
/// Something that happens once and that many wait for: Latch counts down to it, Future brings a value.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "fiber/wait_list.hpp"

namespace craton::fiber {

/// Whoever waits after open() does not wait. What was written before open() is seen after wait().
template <System S>
class BasicGate {
 public:
  BasicGate() noexcept = default;
  BasicGate(const BasicGate&) = delete;
  BasicGate& operator=(const BasicGate&) = delete;
  ~BasicGate() = default;

  void wait() {
    if (is_open()) return;
    Node node;
    suspend<S>([this, &node](Handle self) {
      node.handle = self;
      std::uintptr_t state = state_.load(std::memory_order_acquire);
      do {
        if (state == opened) return false;
        node.next = reinterpret_cast<Node*>(state);
      } while (!state_.compare_exchange_weak(state, reinterpret_cast<std::uintptr_t>(&node),
                                             std::memory_order_acq_rel, std::memory_order_acquire));
      return true;
    });
  }
  /// Once. Any thread; async-signal-safe inside a KernelThreadScope. Who has waited may destroy this
  /// meanwhile.
  void open() noexcept {
    WaitList<S>::resume_all(reinterpret_cast<Node*>(state_.exchange(opened, std::memory_order_acq_rel)));
  }
  bool is_open() const noexcept { return state_.load(std::memory_order_acquire) == opened; }

 private:
  using Node = typename WaitList<S>::Node;
  static constexpr std::uintptr_t opened = 1;
  typename S::template Atomic<std::uintptr_t> state_{0};  ///< `opened`, or the newest of who waits
};

template <System S>
class BasicLatch {
 public:
  explicit BasicLatch(std::uint64_t count) noexcept : left_(count) {
    if (count == 0) gate_.open();
  }
  /// By `by`, which must not be more than is left.
  void count_down(std::uint64_t by = 1) noexcept {
    if (by != 0 && left_.fetch_sub(by, std::memory_order_acq_rel) == by) gate_.open();
  }
  void wait() { gate_.wait(); }
  void arrive_and_wait() {
    count_down();
    wait();
  }
  bool is_open() const noexcept { return gate_.is_open(); }

 private:
  typename S::template Atomic<std::uint64_t> left_;
  BasicGate<S> gate_;
};

/// A value that one thread of control sets and any number get. Outlives who waits.
template <typename T, System S>
class BasicFuture {
 public:
  /// Once, this or fail().
  template <typename... Arguments>
  void set(Arguments&&... arguments) {
    value_.emplace(std::forward<Arguments>(arguments)...);
    gate_.open();
  }
  void fail(std::exception_ptr error) noexcept {
    error_ = std::move(error);
    gate_.open();
  }
  /// Blocks until it is set. \throws what fail() was given
  T& get() {
    gate_.wait();
    if (error_ != nullptr) std::rethrow_exception(error_);
    return *value_;
  }
  bool is_set() const noexcept { return gate_.is_open(); }

 private:
  std::optional<T> value_;
  std::exception_ptr error_;
  BasicGate<S> gate_;
};

}  // namespace craton::fiber
