/// \file
/// Lock delegation (dissertation, section 5.2.5 and 5.3.2): a lock whose critical sections may be left to
/// another. Who finds it free goes in at once; who finds it held leaves a command and goes its way, or waits
/// as for a mutex. A *consumer*, one thread of control of its own, executes what was left, so that no holder
/// has to work for others.
///
/// Two forms, with the same functions:
///  * RingDelegator keeps commands in a fixed ring (the circular buffer of section 4.3.3): no allocation; who
///    finds it full is suspended until there is room.
///  * ListDelegator keeps them in a list of unlimited length, as a queue lock keeps its waiters.
/// Both serve commands and waiters in the order of their arrival.
///
///   consumer.execute(Command&) -> bool   does one; false: not now, ask again. Nothing later is done before.
///
///   consumer.progress() -> bool          looks after what is under way; true: something happened
///
///   consumer.is_active() -> bool         something is under way: progress() is to be called again soon; the
///                                        consumer keeps the lock meanwhile, so that all others delegate
///
/// Ownership goes holder -> next waiter, or holder -> consumer -> next waiter, and so on; the lock is open
/// only when nobody waits, nothing is left to do and the consumer is not active.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "fiber/spin_lock.hpp"
#include "fiber/wait_list.hpp"
#include "fiber/waiter.hpp"

namespace craton::fiber {

template <typename C, typename Command>
concept Consumer = requires(C consumer, Command& command) {
  { consumer.execute(command) } -> std::same_as<bool>;
  { consumer.progress() } -> std::same_as<bool>;
  { consumer.is_active() } -> std::same_as<bool>;
};

namespace detail {

/// What became of an arrival.
enum class Arrival : std::uint8_t { locked, queued, full };

/// What both forms share: everything but the queue. A queue has arrive(write), which takes the lock if it is
/// open, else queues an entry that write(entry) fills; queue(write), which queues an entry in any case, and
/// takes the lock with it if that was open; wait_for_room() after either said `full`; and for the holder
/// empty(), try_open(), which opens the lock if nothing is queued, front(), the oldest entry, and pop().
template <System S, typename Command, typename Queue>
class Delegator {
 public:
  Delegator(const Delegator&) = delete;
  Delegator& operator=(const Delegator&) = delete;

  /// True: the caller holds the lock and has to unlock(). False: `fill(command)` has been called and the
  /// command will be executed by the consumer.
  template <typename Fill>
  bool lock_or_delegate(Fill&& fill) {
    for (;;) {
      const Arrival arrival = queue_.arrive([&fill](auto& entry) { fill(entry.command); });
      if (arrival != Arrival::full) return arrival == Arrival::locked;
      queue_.wait_for_room();
    }
  }
  /// True: `immediate()` has been called under the lock. False: delegated, as above.
  template <typename Immediate, typename Fill>
  bool execute_or_delegate(Immediate&& immediate, Fill&& fill) {
    if (!lock_or_delegate(std::forward<Fill>(fill))) return false;
    immediate();
    unlock();
    return true;
  }
  /// Leaves a command to the consumer even if the lock is free: the section is never executed by the caller.
  template <typename Fill>
  void delegate(Fill&& fill) {
    for (;;) {
      const Arrival arrival = queue_.queue([&fill](auto& entry) { fill(entry.command); });
      if (arrival == Arrival::locked) pass_on_to_consumer();
      if (arrival != Arrival::full) return;
      queue_.wait_for_room();
    }
  }

  bool try_lock() noexcept { return queue_.try_lock(); }
  void lock() {
    for (bool full = !queue_.try_lock(); full;) {
      full = false;
      suspend<S>([this, &full](Handle self) {
        const Arrival arrival = queue_.arrive([self](auto& entry) { entry.waiter = self; });
        if (arrival == Arrival::full) full = true;
        return arrival == Arrival::queued;
      });
      if (full) queue_.wait_for_room();
    }
  }
  void unlock() {
    if (!queue_.try_open()) pass_on();
  }
  void unlock_and_wait(BasicSuspended<S>& suspended) { suspended.wait_unlocking(*this); }

  /// Executes what is left to it, until stop_consumer(). By one thread of control, a fiber or a kernel
  /// thread; it sleeps while there is nothing to do.
  template <Consumer<Command> C>
  void consume(C& consumer) {
    for (;;) {
      call_.wait();
      call_.reset();
      called_.store(false, std::memory_order_release);
      if (!serve(consumer)) return;
    }
  }
  /// Ends consume(), once all that was left before has been executed and nothing is under way. Nothing may be
  /// delegated any more.
  void stop_consumer() {
    lock();
    stopping_ = true;
    pass_on_to_consumer();
  }

 protected:
  template <typename... Arguments>
  explicit Delegator(Arguments&&... arguments) : queue_(std::forward<Arguments>(arguments)...) {}
  ~Delegator() = default;

  Queue queue_;

 private:
  /// By the holder, when something is queued: gives the lock to the oldest entry, or to the consumer if it is
  /// a command.
  void pass_on() {
    const Handle waiter = queue_.front().waiter;
    if (waiter == nobody) {
      pass_on_to_consumer();
    } else {
      queue_.pop();
      resume<S>(waiter);
    }
  }
  void pass_on_to_consumer() {
    // The consumer may still be on its way to sleep, after it gave the lock away.
    while (called_.exchange(true, std::memory_order_acquire)) S::pause();
    call_.notify();
  }

  /// With the lock. \returns false if it is to stop
  template <typename C>
  bool serve(C& consumer) {
    for (;;) {
      if (queue_.empty()) {
        if (consumer.is_active()) {
          consumer.progress();
          S::pause();
          continue;
        }
        if (stopping_) return false;
        if (queue_.try_open()) return true;
        continue;
      }
      auto& entry = queue_.front();
      if (static_cast<Handle>(entry.waiter) != nobody) {
        const Handle waiter = entry.waiter;
        queue_.pop();
        resume<S>(waiter);
        return true;
      }
      if (consumer.execute(entry.command)) {
        queue_.pop();
      } else {
        consumer.progress();
        S::pause();
      }
    }
  }

  BasicWaiter<S> call_;  ///< the consumer sleeps on it; notified by who gives it the lock
  typename S::template Atomic<bool> called_{false};
  typename S::template Plain<bool> stopping_{false};
};

/// tail counts entries twice, plus one if the lock is held (section 4.3.3 keeps "an executor runs" there).
template <System S, typename Command>
class DelegationRing {
 public:
  struct Entry {
    Command command{};
    typename S::template Plain<Handle> waiter{nobody};
    typename S::template Atomic<std::uint64_t> visible{0};  ///< its number plus one, once it is written
  };

  explicit DelegationRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), entries_(std::make_unique<Entry[]>(mask_ + 1)) {}

  bool try_lock() noexcept {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return (tail & 1U) == 0 && tail_.compare_exchange_strong(tail, tail | 1U, std::memory_order_acquire,
                                                             std::memory_order_relaxed);
  }
  template <typename Write>
  Arrival arrive(const Write& write) {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if ((tail & 1U) == 0) {
        if (tail_.compare_exchange_weak(tail, tail | 1U, std::memory_order_acquire,
                                        std::memory_order_relaxed))
          return Arrival::locked;
      } else if (is_full(tail)) {
        return Arrival::full;
      } else if (tail_.compare_exchange_weak(tail, tail + 2, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        put(tail >> 1U, write);
        return Arrival::queued;
      }
    }
  }
  template <typename Write>
  Arrival queue(const Write& write) {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if (is_full(tail)) return Arrival::full;
      if (tail_.compare_exchange_weak(tail, (tail | 1U) + 2, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        put(tail >> 1U, write);
        return (tail & 1U) == 0 ? Arrival::locked : Arrival::queued;
      }
    }
  }
  /// Suspends the caller until there may be room.
  void wait_for_room() {
    typename WaitList<S>::Node node;
    suspend<S>([this, &node](Handle self) {
      node.handle = self;
      const SpinGuard<S> guard(room_lock_);
      awaiting_room_.store(true,
                           std::memory_order_seq_cst);  // before the look, as pop() makes room before its own
      if (!is_full(tail_.load(std::memory_order_seq_cst))) return false;
      room_waiters_.append(node);
      return true;
    });
  }
  /// How many entries there have been, from the beginning. Those of the calling thread count, and those that
  /// were put before something that it has seen.
  std::uint64_t entries() const noexcept { return tail_.load(std::memory_order_acquire) >> 1U; }
  // By the holder:
  bool empty() const noexcept {
    return tail_.load(std::memory_order_relaxed) >> 1U == head_.load(std::memory_order_relaxed);
  }
  bool try_open() noexcept {
    std::uint64_t tail = head_.load(std::memory_order_relaxed) << 1U | 1U;
    return tail_.compare_exchange_strong(tail, tail - 1, std::memory_order_release,
                                         std::memory_order_relaxed);
  }
  Entry& front() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    Entry& entry = entries_[head & mask_];
    while (entry.visible.load(std::memory_order_acquire) != head + 1) S::pause();
    return entry;
  }
  void pop() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed) + 1;
    head_.store(head, std::memory_order_seq_cst);
    // Not at the first free entry: all who wait would wake for it and all but one sleep again.
    if (awaiting_room_.load(std::memory_order_seq_cst) &&
        (tail_.load(std::memory_order_relaxed) >> 1U) - head <= (mask_ + 1) / 2)
      tell_of_room();
  }

 private:
  bool is_full(std::uint64_t tail) const noexcept {
    // The tail was read before: the head may be beyond it by now.
    const auto queued = static_cast<std::int64_t>((tail >> 1U) - head_.load(std::memory_order_seq_cst));
    return queued > static_cast<std::int64_t>(mask_);
  }
  [[gnu::noinline]] void tell_of_room() noexcept {
    room_lock_.lock();
    awaiting_room_.store(false, std::memory_order_relaxed);
    auto* const all = room_waiters_.take_all();
    room_lock_.unlock();
    WaitList<S>::resume_all(all);
  }

  template <typename Write>
  void put(std::uint64_t number, const Write& write) {
    Entry& entry = entries_[number & mask_];
    entry.waiter = nobody;
    write(entry);
    entry.visible.store(number + 1, std::memory_order_release);
  }

  const std::uint64_t mask_;
  std::unique_ptr<Entry[]> entries_;
  alignas(64) typename S::template Atomic<std::uint64_t> tail_{0};
  alignas(64) typename S::template Atomic<std::uint64_t> head_{0};
  typename S::template Atomic<bool> awaiting_room_{false};
  SpinLock<S> room_lock_;
  WaitList<S> room_waiters_;
};

/// Arrivals are a stack that the holder turns into a queue, as in Mutex.
template <System S, typename Command>
class DelegationList {
 public:
  struct Entry {
    Command command{};
    typename S::template Plain<Handle> waiter{nobody};
    typename S::template Plain<Entry*> next{nullptr};
  };

  DelegationList() = default;
  DelegationList(const DelegationList&) = delete;
  DelegationList& operator=(const DelegationList&) = delete;
  ~DelegationList() {
    while (first_ != nullptr) pop();
  }

  bool try_lock() noexcept {
    std::uintptr_t expected = open;
    return state_.compare_exchange_strong(expected, held, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  template <typename Write>
  Arrival arrive(const Write& write) {
    if (try_lock()) return Arrival::locked;
    auto entry = std::make_unique<Entry>();
    write(*entry);
    std::uintptr_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      if (state == open) {
        if (state_.compare_exchange_weak(state, held, std::memory_order_acquire, std::memory_order_relaxed))
          return Arrival::locked;
      } else if (link(*entry, state)) {
        static_cast<void>(entry.release());
        return Arrival::queued;
      }
    }
  }
  template <typename Write>
  Arrival queue(const Write& write) {
    auto entry = std::make_unique<Entry>();
    write(*entry);
    std::uintptr_t state = state_.load(std::memory_order_relaxed);
    while (!link(*entry, state)) {
    }
    static_cast<void>(entry.release());
    return state == open ? Arrival::locked : Arrival::queued;
  }
  void wait_for_room() noexcept {}
  // By the holder:
  bool empty() const noexcept { return first_ == nullptr && state_.load(std::memory_order_relaxed) == held; }
  bool try_open() noexcept {
    if (first_ != nullptr) return false;
    std::uintptr_t expected = held;
    return state_.compare_exchange_strong(expected, open, std::memory_order_release,
                                          std::memory_order_relaxed);
  }
  Entry& front() noexcept {
    if (first_ == nullptr)
      first_ =
          in_order_of_arrival(reinterpret_cast<Entry*>(state_.exchange(held, std::memory_order_acquire)));
    return *first_;
  }
  void pop() noexcept {
    Entry* const first = first_;
    first_ = first->next;
    delete first;
  }

 private:
  static constexpr std::uintptr_t open = 0;
  static constexpr std::uintptr_t held = 1;  ///< and nothing arrived since; else the newest arrival

  bool link(Entry& entry, std::uintptr_t& state) noexcept {
    entry.next = state == held || state == open ? nullptr : reinterpret_cast<Entry*>(state);
    return state_.compare_exchange_weak(state, reinterpret_cast<std::uintptr_t>(&entry),
                                        std::memory_order_acq_rel, std::memory_order_relaxed);
  }

  typename S::template Atomic<std::uintptr_t> state_{open};
  typename S::template Plain<Entry*> first_{nullptr};  ///< oldest; the holder's
};

}  // namespace detail

template <System S, typename Command>
class BasicRingDelegator : public detail::Delegator<S, Command, detail::DelegationRing<S, Command>> {
 public:
  /// \param capacity commands and waiters at once, rounded up to a power of two
  explicit BasicRingDelegator(std::size_t capacity = 1024)
      : detail::Delegator<S, Command, detail::DelegationRing<S, Command>>(capacity) {}

  /// How many commands and waiters have been left in it, from the beginning.
  std::uint64_t arrivals() const noexcept { return this->queue_.entries(); }
};

template <System S, typename Command>
class BasicListDelegator : public detail::Delegator<S, Command, detail::DelegationList<S, Command>> {
 public:
  BasicListDelegator() = default;
};

}  // namespace craton::fiber
