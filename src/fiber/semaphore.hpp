/// \file
/// A counting semaphore that serves in the order of arrival.
#pragma once

#include <cstdint>

#include "fiber/spin_lock.hpp"
#include "fiber/wait_list.hpp"

namespace craton::fiber {

template <System S>
class BasicSemaphore {
 public:
  explicit BasicSemaphore(std::uint64_t count = 0) noexcept : count_(count) {}
  BasicSemaphore(const BasicSemaphore&) = delete;
  BasicSemaphore& operator=(const BasicSemaphore&) = delete;
  ~BasicSemaphore() = default;

  /// Blocks until the count is above 0, and takes one.
  void acquire() {
    if (try_acquire()) return;
    typename WaitList<S>::Node node;
    suspend<S>([this, &node](Handle self) {
      node.handle = self;
      const SpinGuard<S> guard(lock_);
      if (take_one()) return false;
      waiting_.append(node);
      return true;
    });
  }
  bool try_acquire() noexcept {
    const SpinGuard<S> guard(lock_);
    return take_one();
  }
  /// Adds one, or lets the one go on that has waited for longest. Any thread.
  void release() noexcept {
    lock_.lock();
    const auto* const first = waiting_.take_first();
    if (first == nullptr) count_ = count_ + 1;
    const Handle handle = first != nullptr ? static_cast<Handle>(first->handle) : nobody;
    lock_.unlock();
    if (handle != nobody) resume<S>(handle);
  }

 private:
  bool take_one() noexcept {
    if (count_ == 0) return false;
    count_ = count_ - 1;
    return true;
  }

  SpinLock<S> lock_;
  typename S::template Plain<std::uint64_t> count_;
  WaitList<S> waiting_;
};

}  // namespace craton::fiber
