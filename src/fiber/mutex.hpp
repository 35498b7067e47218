/// \file
/// Mutual exclusion that suspends who has to wait (dissertation, sections 5.2.4 and 5.3.1). Two queue locks
/// with the same functions:
///
///  * McsMutex, the paper's: the MCS queue (Mellor-Crummey and Scott 1991), in the variant that needs no node
///    from lock() to unlock() (Auslander et al., K42). Handed from holder to holder strictly in the order of
///    arrival. Its holder may have to wait for a successor that is just linking itself.
///  * Mutex, ours: arrivals are pushed onto a stack, which the holder turns into a queue when the last queue
///    is empty; no step waits for another thread. An unlock opens the mutex and wakes the first of the queue;
///    whoever comes meanwhile may take it, so that a contended mutex does not cost a switch for every
///    section. Only one is on its way at a time, and every 16th is given the mutex itself, so that nobody
///    waits for ever.
///
///   Mutex:    state ─▶ newest arrival ─▶ ... ─▶ oldest arrival
///             queue, the holder's ─▶ first ─▶ ... ─▶ last
#pragma once

#include <cstdint>

#include "fiber/wait_list.hpp"

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
  bool try_lock() noexcept { return take(0); }
  /// Whether somebody holds it at this moment. What the last holder did happened before a `false`.
  bool is_held() const noexcept { return (state_.load(std::memory_order_acquire) & held) != 0; }
  /// By the holder, or by whom the holder tells to.
  void unlock() noexcept {
    if (queue_ == nullptr) {
      std::uintptr_t expected = held;
      if (state_.compare_exchange_strong(expected, open, std::memory_order_release,
                                         std::memory_order_relaxed))
        return;
    }
    unlock_slowly();
  }
  /// Suspends the caller, who holds this, into `suspended` and unlocks once that is done. Returns, without
  /// the lock, when it is notified.
  void unlock_and_wait(BasicSuspended<S>& suspended) { suspended.wait_unlocking(*this); }

 private:
  struct alignas(8) Node {
    typename S::template Plain<Handle> handle;
    typename S::template Plain<Node*> next;
    typename S::template Plain<bool> given;  ///< the mutex came with the wake-up
  };
  // The state: these, and above them the address of the newest arrival.
  static constexpr std::uintptr_t open = 0;
  static constexpr std::uintptr_t held = 1;
  static constexpr std::uintptr_t waking = 2;  ///< one is on its way, who takes this mark away
  static constexpr unsigned wakes_a_gift = 16;

  /// \returns false if somebody holds it
  bool take(std::uintptr_t own_mark) noexcept {
    std::uintptr_t state = open;
    while ((state & held) == 0) {
      if (state_.compare_exchange_weak(state, (state & ~own_mark) | held, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
    }
    return false;
  }

  [[gnu::noinline]] void lock_slowly() {
    for (std::uintptr_t own_mark = 0;; own_mark = waking) {
      if (take(own_mark)) return;
      Node node;
      bool taken = false;
      suspend<S>([this, &node, &taken, own_mark](Handle self) {
        node.handle = self;
        node.given = false;
        std::uintptr_t state = state_.load(std::memory_order_relaxed);
        for (;;) {
          if ((state & held) == 0) {
            if (state_.compare_exchange_weak(state, (state & ~own_mark) | held, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
              taken = true;
              return false;
            }
          } else {
            node.next = newest(state);
            const std::uintptr_t marks = state & (held | waking) & ~own_mark;
            if (state_.compare_exchange_weak(state, reinterpret_cast<std::uintptr_t>(&node) | marks,
                                             std::memory_order_release, std::memory_order_relaxed))
              return true;
          }
        }
      });
      if (taken || node.given) return;
    }
  }

  [[gnu::noinline]] void unlock_slowly() noexcept {
    std::uintptr_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      if ((state & waking) != 0) {  // who is on its way will see that it is open
        if (state_.compare_exchange_weak(state, state & ~held, std::memory_order_release,
                                         std::memory_order_relaxed))
          return;
        continue;
      }
      if (queue_ == nullptr && newest(state) == nullptr) {
        if (state_.compare_exchange_weak(state, open, std::memory_order_release, std::memory_order_relaxed))
          return;
        continue;
      }
      if (queue_ == nullptr) {
        take_arrivals();
        state = held;
      }
      // What belongs to the holder is put right before somebody else may be it.
      Node* const first = queue_;
      const Handle handle = first->handle;
      queue_ = first->next;
      wakes_ = (wakes_ + 1) % wakes_a_gift;
      if (wakes_ == 0) {
        first->given = true;
      } else {
        while (!state_.compare_exchange_weak(state, (state & ~held) | waking, std::memory_order_release,
                                             std::memory_order_relaxed)) {
        }
      }
      return resume<S>(handle);
    }
  }
  static Node* newest(std::uintptr_t state) noexcept {
    return reinterpret_cast<Node*>(state & ~(held | waking));
  }
  /// Makes the arrivals, of which there are some, the queue. Nobody is on the way.
  void take_arrivals() noexcept {
    queue_ = in_order_of_arrival(newest(state_.exchange(held, std::memory_order_acquire)));
  }

  typename S::template Atomic<std::uintptr_t> state_{open};
  typename S::template Plain<Node*> queue_{nullptr};  ///< oldest first; the holder's
  typename S::template Plain<unsigned> wakes_{0};     ///< since the mutex was given away; the holder's
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
  void unlock_and_wait(BasicSuspended<S>& suspended) { suspended.wait_unlocking(*this); }

 private:
  struct Node {
    typename S::template Atomic<Node*> next{nullptr};
    typename S::template Plain<Handle> handle{nobody};
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
