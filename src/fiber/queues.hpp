/// \file
/// Which ready fiber runs next: the scheduler as a policy (dissertation, section 5.2.2). A Runtime takes one
/// of these; it asks each worker's own thread for that worker's fibers, and steals from others when there are
/// none.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <vector>

#include "fiber/deque.hpp"
#include "fiber/spin_lock.hpp"
#include "fiber/system.hpp"

namespace craton::fiber {

template <System S>
struct Fiber;

/// push(), pop() and oldest() come from the worker's own thread, steal() and empty() from any. push() may run
/// out of memory; the others do not fail.
///  * pop: what to run next, or null
///  * oldest: now and then and after a yield, so that none starves
///  * steal: for a worker without work; null if none was found
template <typename Q, typename FiberType>
concept Queues = std::constructible_from<Q, unsigned, std::uint64_t> && requires(Q queues, FiberType* fiber) {
  queues.push(unsigned{}, fiber);
  { queues.pop(unsigned{}) } -> std::same_as<FiberType*>;
  { queues.oldest(unsigned{}) } -> std::same_as<FiberType*>;
  { queues.steal(unsigned{}) } -> std::same_as<FiberType*>;
  { queues.empty() } -> std::same_as<bool>;
};

/// A deque a worker: newest first on the worker, oldest first for thieves, who start at a random victim.
template <System S>
class WorkStealing {
 public:
  WorkStealing(unsigned workers, std::uint64_t /*seed*/)
      : workers_(workers), own_(std::make_unique<Own[]>(workers)) {
    if (workers == 1) own_[0].deque.promise_no_thieves();
    for (unsigned i = 0; i < workers; ++i) own_[i].random = i * 0x9e3779b97f4a7c15U + 1;
  }
  void push(unsigned worker, Fiber<S>* fiber) { own_[worker].deque.push(fiber); }
  Fiber<S>* pop(unsigned worker) noexcept { return own_[worker].deque.pop(); }
  Fiber<S>* oldest(unsigned worker) noexcept { return own_[worker].deque.steal(); }
  Fiber<S>* steal(unsigned worker) noexcept {
    std::uint64_t& random = own_[worker].random;
    random ^= random << 13U;  // xorshift64 (Marsaglia 2003)
    random ^= random >> 7U;
    random ^= random << 17U;
    const auto first = static_cast<unsigned>(random % workers_);
    for (unsigned i = 0; i < workers_; ++i) {
      const unsigned victim = (first + i) % workers_;
      if (victim == worker) continue;
      if (Fiber<S>* const stolen = own_[victim].deque.steal()) return stolen;
    }
    return nullptr;
  }
  bool empty() const noexcept {
    for (unsigned i = 0; i < workers_; ++i) {
      if (!own_[i].deque.empty()) return false;
    }
    return true;
  }

 private:
  struct alignas(64) Own {
    Deque<S, Fiber<S>*> deque;
    std::uint64_t random = 0;
  };
  const unsigned workers_;
  std::unique_ptr<Own[]> own_;
};

/// One queue for all workers: fibers run in the order in which they became ready.
template <System S>
class Fifo {
 public:
  Fifo(unsigned /*workers*/, std::uint64_t /*seed*/) {}
  void push(unsigned /*worker*/, Fiber<S>* fiber) {
    const SpinGuard<S> guard(lock_);
    fiber->next = nullptr;
    Fiber<S>* const first = first_.load(std::memory_order_relaxed);
    if (first == nullptr) {
      first_.store(fiber, std::memory_order_release);
    } else {
      Fiber<S>* const last = last_;
      last->next = fiber;
    }
    last_ = fiber;
  }
  Fiber<S>* pop(unsigned /*worker*/) noexcept {
    if (empty()) return nullptr;
    const SpinGuard<S> guard(lock_);
    Fiber<S>* const first = first_.load(std::memory_order_relaxed);
    if (first != nullptr) first_.store(first->next, std::memory_order_release);
    return first;
  }
  Fiber<S>* oldest(unsigned worker) noexcept { return pop(worker); }
  Fiber<S>* steal(unsigned worker) noexcept { return pop(worker); }
  bool empty() const noexcept { return first_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  SpinLock<S> lock_;
  typename S::template Atomic<Fiber<S>*> first_{nullptr};
  typename S::template Plain<Fiber<S>*> last_{nullptr};
};

/// One worker, whose next fiber a seed chooses among all that are ready: the same seed, the same run.
template <System S>
class Seeded {
 public:
  /// \param workers must be 1
  Seeded(unsigned workers, std::uint64_t seed) : state_(seed) {
    if (workers != 1) __builtin_trap();
  }
  void push(unsigned /*worker*/, Fiber<S>* fiber) { ready_.push_back(fiber); }
  Fiber<S>* pop(unsigned /*worker*/) noexcept {
    if (ready_.empty()) return nullptr;
    state_ += 0x9e3779b97f4a7c15U;  // splitmix64 (Steele, Lea, Flood 2014)
    std::uint64_t random = state_;
    random = (random ^ (random >> 30U)) * 0xbf58476d1ce4e5b9U;
    random = (random ^ (random >> 27U)) * 0x94d049bb133111ebU;
    random ^= random >> 31U;
    std::swap(ready_[random % ready_.size()], ready_.back());
    Fiber<S>* const chosen = ready_.back();
    ready_.pop_back();
    return chosen;
  }
  Fiber<S>* oldest(unsigned worker) noexcept { return pop(worker); }
  Fiber<S>* steal(unsigned /*worker*/) noexcept { return nullptr; }
  bool empty() const noexcept { return ready_.empty(); }

 private:
  std::uint64_t state_;
  std::vector<Fiber<S>*> ready_;
};

}  // namespace craton::fiber
