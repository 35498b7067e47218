/// \file
/// A list that only grows, and that other threads read while it does.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "base/assert.hpp"

namespace craton {

/// Elements stay where they are. One thread appends at a time; any thread reads, without a lock, and sees
/// each element whole or not at all.
template <typename T, std::size_t capacity>
class AppendOnly {
 public:
  void append(std::unique_ptr<T> element) {
    const std::size_t size = size_.load(std::memory_order_relaxed);
    CRATON_ASSERT(size < capacity);
    elements_[size] = std::move(element);
    size_.store(size + 1, std::memory_order_release);
  }
  /// Removes all, the last one first. Nobody else reads any more.
  void clear() noexcept {
    for (std::size_t i = size_.exchange(0); i > 0; --i) elements_[i - 1].reset();
  }

  std::size_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  bool empty() const noexcept { return size() == 0; }
  T& operator[](std::size_t index) const noexcept { return *elements_[index]; }
  T& back() const noexcept { return *elements_[size() - 1]; }
  const std::unique_ptr<T>* begin() const noexcept { return elements_.get(); }
  const std::unique_ptr<T>* end() const noexcept { return elements_.get() + size(); }

 private:
  std::unique_ptr<std::unique_ptr<T>[]> elements_ = std::make_unique<std::unique_ptr<T>[]>(capacity);
  std::atomic<std::size_t> size_{0};
};

}  // namespace craton
