/// \file
/// Mutual exclusion that suspends who has to wait (dissertation, sections 5.2.4 and 5.3.1). Two queue locks
/// with the same functions; both hand the lock from holder to holder in the order of arrival, so nobody
/// starves:
///
///  * McsMutex, the paper's: the MCS queue (Mellor-Crummey and Scott 1991), in the variant that needs no node
///  from lock()
///    to unlock() (Auslander et al., K42). Its holder may have to wait for a successor that is just linking
///    itself.
///  * Mutex, ours: arrivals are pushed onto a stack, which the holder turns into a queue when the last queue
///  is empty. No
///    step waits for another thread, and most unlocks under contention need no atomic read-modify-write.
///
///   Mutex:    state ─▶ newest arrival ─▶ ... ─▶ oldest arrival        queue (the holder's) ─▶ first ─▶ ...
///   ─▶ last
#pragma once

#include <cstdint>

#include "fiber/suspended.hpp"

namespace craton::fiber {

template <System S>
class BasicMutex {
 public:
  BasicMutex() noexcept = default;
  BasicMutex(const BasicMutex&) = delete;
  BasicMutex& operator=(const BasicMutex&) = delete;
  ~BasicMutex() = default;

  /// Blocks until the caller holds it. Not recursive.
  void lock() {
    if (!try_lock()) lock_slowly();
  }
  bool try_lock() noexcept {
    std::uintptr_t expected = open;
    return state_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  /// By the holder, or by whom the holder tells to.
  void unlock() noexcept {
    Node* next = queue_;
    if (next == nullptr) {
      std::uintptr_t expected = held;
      if (state_.compare_exchange_strong(expected, open, std::memory_order_release,
                                         std::memory_order_relaxed))
        return;
      next = take_arrivals();
    }
    queue_ = next->next;
    resume<S>(next->handle);
  }
  /// Suspends the caller, who holds this, into `suspended` and unlocks once that is done. Returns, without
  /// the lock, when it is notified.
  void unlock_and_wait(BasicSuspended<S>& suspended) {
    suspended.wait_with([mutex = this] {
      mutex->unlock();
      return true;
    });
  }

 private:
  struct Node {
    Handle handle;
    Node* next;
  };
  static constexpr std::uintptr_t open = 0;
  static constexpr std::uintptr_t held = 1;  ///< and nobody has arrived since; else the newest arrival

  [[gnu::noinline]] void lock_slowly() {
    Node node;
    suspend<S>([this, &node](Handle self) {
      node.handle = self;
      std::uintptr_t state = state_.load(std::memory_order_relaxed);
      for (;;) {
        if (state == open) {
          if (state_.compare_exchange_weak(state, held, std::memory_order_acquire, std::memory_order_relaxed))
            return false;
        } else {
          node.next = state == held ? nullptr : reinterpret_cast<Node*>(state);
          if (state_.compare_exchange_weak(state, reinterpret_cast<std::uintptr_t>(&node),
                                           std::memory_order_release, std::memory_order_relaxed))
            return true;
        }
      }
    });
  }
  /// The oldest arrival, from which the others are linked in their order.
  [[gnu::noinline]] Node* take_arrivals() noexcept {
    Node* newer = nullptr;
    for (auto* node = reinterpret_cast<Node*>(state_.exchange(held, std::memory_order_acquire));
         node != nullptr;) {
      Node* const older = node->next;
      node->next = newer;
      newer = node;
      node = older;
    }
    return newer;
  }

  typename S::template Atomic<std::uintptr_t> state_{open};
  typename S::template Plain<Node*> queue_{nullptr};  ///< oldest first; the holder's
};

template <System S>
class BasicMcsMutex {
 public:
  BasicMcsMutex() noexcept = default;
  BasicMcsMutex(const BasicMcsMutex&) = delete;
  BasicMcsMutex& operator=(const BasicMcsMutex&) = delete;
  ~BasicMcsMutex() = default;

  void lock() {
    if (!try_lock()) lock_slowly();
  }
  bool try_lock() noexcept {
    Node* expected = nullptr;
    return tail_.compare_exchange_strong(expected, &holder_, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void unlock() noexcept {
    Node* next = holder_.next.load(std::memory_order_acquire);
    if (next == nullptr) {
      Node* expected = &holder_;
      if (tail_.compare_exchange_strong(expected, nullptr, std::memory_order_release,
                                        std::memory_order_relaxed))
        return;
      next = successor_of(holder_);
    }
    resume<S>(next->handle);
  }
  void unlock_and_wait(BasicSuspended<S>& suspended) {
    suspended.wait_with([mutex = this] {
      mutex->unlock();
      return true;
    });
  }

 private:
  struct Node {
    typename S::template Atomic<Node*> next{nullptr};
    Handle handle = nobody;
  };

  /// Of a node that is known to have one, which may not have linked itself yet.
  static Node* successor_of(const Node& node) noexcept {
    for (;;) {
      if (Node* const next = node.next.load(std::memory_order_acquire)) return next;
      S::pause();
    }
  }
  [[gnu::noinline]] void lock_slowly() {
    Node node;
    bool queued = true;
    suspend<S>([this, &node, &queued](Handle self) {
      node.handle = self;
      Node* last = tail_.load(std::memory_order_relaxed);
      for (;;) {
        if (last == nullptr) {
          if (tail_.compare_exchange_weak(last, &holder_, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
            queued = false;
            return false;
          }
        } else if (tail_.compare_exchange_weak(last, &node, std::memory_order_acq_rel,
                                               std::memory_order_relaxed)) {
          last->next.store(&node, std::memory_order_release);
          return true;
        }
      }
    });
    if (!queued) return;
    // This node ends with this function, so another stands for the holder from now on.
    Node* next = node.next.load(std::memory_order_acquire);
    if (next == nullptr) {
      holder_.next.store(nullptr, std::memory_order_relaxed);
      Node* expected = &node;
      if (tail_.compare_exchange_strong(expected, &holder_, std::memory_order_acq_rel,
                                        std::memory_order_relaxed))
        return;
      next = successor_of(node);
    }
    holder_.next.store(next, std::memory_order_relaxed);
  }

  typename S::template Atomic<Node*> tail_{nullptr};
  Node holder_;  ///< stands for the holder in the queue
};

}  // namespace craton::fiber
