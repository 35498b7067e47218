/// \file
/// The work-stealing deque of Chase and Lev (SPAA 2005): its owner pushes and takes at the bottom, others
/// steal at the top. Memory orders after Le, Pop, Cohen and Zappa Nardelli (PPoPP 2013), with sequentially
/// consistent accesses in place of their fences, which cost the same here and which the thread sanitizer
/// understands.
///
///   top ─▶ [oldest] [...] [...] [newest] ◀─ bottom      (indices never wrap; slot = index % capacity)
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fiber/system.hpp"

namespace craton::fiber {

template <System S, typename Item>
class Deque {
  static_assert(std::is_pointer_v<Item>);

 public:
  explicit Deque(std::size_t capacity = 1024) {
    array_.store(new_array(std::bit_ceil(capacity)), std::memory_order_relaxed);
  }
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;
  ~Deque() = default;

  /// Before its use: nobody but the owner will ever take, so that taking needs no fence.
  void promise_no_thieves() noexcept { has_thieves_ = false; }

  /// Owner only. Amortised O(1): doubles when full. \throws std::bad_alloc, and then nothing has changed
  void push(Item item) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    const std::int64_t top = top_.load(std::memory_order_acquire);
    Array* array = array_.load(std::memory_order_relaxed);
    if (bottom - top >= array->capacity()) array = grow(*array, top, bottom);
    array->slot(bottom).store(item, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  /// Owner only. The newest, or null.
  Item pop() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    // An empty deque is seen without the costly store. Only the owner makes it less empty.
    if (top_.load(std::memory_order_relaxed) > bottom) return nullptr;
    Array* const array = array_.load(std::memory_order_relaxed);
    if (has_thieves_) {
      bottom_.store(bottom, std::memory_order_seq_cst);
    } else {
      bottom_.store(bottom, std::memory_order_relaxed);
    }
    std::int64_t top = top_.load(std::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.store(bottom + 1, std::memory_order_relaxed);
      return nullptr;
    }
    Item item = array->slot(bottom).load(std::memory_order_relaxed);
    if (top == bottom) {  // the last one: whoever moves the top has it
      if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed))
        item = nullptr;
      bottom_.store(bottom + 1, std::memory_order_relaxed);
    }
    return item;
  }

  /// Any thread, the owner too. The oldest, or null when there is none or another was faster.
  Item steal() noexcept {
    std::int64_t top = top_.load(std::memory_order_seq_cst);
    const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);
    if (top >= bottom) return nullptr;
    Array* const array = array_.load(std::memory_order_acquire);
    const Item item = array->slot(top).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed))
      return nullptr;
    return item;
  }

  /// Any thread; true only if it was empty at some moment during the call.
  bool empty() const noexcept {
    const std::int64_t top = top_.load(std::memory_order_seq_cst);
    return bottom_.load(std::memory_order_seq_cst) <= top;
  }

 private:
  class Array {
   public:
    explicit Array(std::size_t capacity)
        : mask_(static_cast<std::int64_t>(capacity) - 1), slots_(std::make_unique<Slot[]>(capacity)) {}
    std::int64_t capacity() const noexcept { return mask_ + 1; }
    auto& slot(std::int64_t index) noexcept { return slots_[static_cast<std::size_t>(index & mask_)]; }

   private:
    using Slot = typename S::template Atomic<Item>;
    std::int64_t mask_;
    std::unique_ptr<Slot[]> slots_;
  };

  Array* new_array(std::size_t capacity) {
    arrays_.push_back(std::make_unique<Array>(capacity));
    return arrays_.back().get();
  }
  // A thief may still read the old array: it is kept until the deque ends.
  [[gnu::noinline]] Array* grow(Array& old, std::int64_t top, std::int64_t bottom) {
    Array* const larger = new_array(static_cast<std::size_t>(old.capacity()) * 2);
    for (std::int64_t i = top; i < bottom; ++i)
      larger->slot(i).store(old.slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    array_.store(larger, std::memory_order_release);
    return larger;
  }

  alignas(64) typename S::template Atomic<std::int64_t> top_{0};
  alignas(64) typename S::template Atomic<std::int64_t> bottom_{0};
  typename S::template Atomic<Array*> array_{nullptr};
  bool has_thieves_ = true;
  std::vector<std::unique_ptr<Array>> arrays_;  ///< the owner's
};

}  // namespace craton::fiber
