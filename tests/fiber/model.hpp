/// \file
/// A machine in which a seed decides everything that a real one leaves open: who runs next, at every access
/// to an atomic; how stale a value a load may see under the C++ memory model; spurious wake-ups and failures.
/// It is a System (fiber/system.hpp), so the library under test is the one that users get, with other
/// atomics.
///
/// What it notices: plain data that two threads may touch at once, by vector clocks; threads that wait for
/// ever; runs that do not end; atomics that are used after their end; and whatever the test checks.
///
/// The memory model: every atomic keeps its stores in their modification order. A load may return any store
/// that is not older than one that happens before it or that its thread has seen; a read-modify-write sees
/// the newest. Release stores carry their thread's clock, acquire loads join it, read-modify-writes continue
/// release sequences. Sequentially consistent accesses follow the order in which they run, which is one of
/// the orders that the standard allows; behaviour that needs a store later in the run (load buffering) is not
/// produced.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "fiber/coroutine.hpp"
#include "fiber/system.hpp"

namespace craton::fiber::model {

inline constexpr std::size_t max_threads = 8;

/// What a thread knows to have happened, by thread.
struct VectorClock {
  std::array<std::uint32_t, max_threads> at{};
  void join(const VectorClock& other) noexcept {
    for (std::size_t i = 0; i < max_threads; ++i) at[i] = std::max(at[i], other.at[i]);
  }
};

class World;

/// One schedule.
class World {
 public:
  explicit World(std::uint64_t seed);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  /// Runs `body` as the first thread, and all that it starts, to their end. \returns what went wrong, or
  /// nothing
  std::string run(std::function<void()> body);

  static World& current() noexcept { return *running_world; }

  // ---- For atomics and tests, from inside
  /// Another thread may run now.
  void step();
  /// Another thread runs now, if there is one.
  void give_way();
  /// Ends the schedule.
  void fail(const std::string& what);
  std::uint64_t random(std::uint64_t below) noexcept;
  bool one_in(std::uint64_t n) noexcept { return random(n) == 0; }
  std::size_t self() const noexcept { return current_; }
  VectorClock& clock() noexcept { return threads_[current_]->clock; }
  /// The number of the next event of the running thread.
  std::uint32_t stamp() noexcept { return ++clock().at[current_]; }
  bool happened(std::size_t thread, std::uint32_t stamp) noexcept { return stamp <= clock().at[thread]; }
  std::uint64_t tick() noexcept { return ++tick_; }

  // ---- The System
  TimeNs now_ns() noexcept { return now_ns_ += 7'000; }
  void heavy_fence() noexcept { fence_tick_ = tick_; }
  std::uint64_t fence_tick() const noexcept { return fence_tick_; }
  void block_on(const void* word);
  void wake(const void* word, int count);
  void*& host() noexcept { return threads_[current_]->host; }
  std::size_t start(std::function<void()> body);
  void join(std::size_t thread);

 private:
  struct Thread {
    Thread(std::function<void()> run, void (*entry)(void*), std::unique_ptr<Stack> on);
    std::function<void()> body;
    std::unique_ptr<Stack> stack;
    Coroutine coroutine;
    VectorClock clock;
    void* host = nullptr;
    const void* waits_for = nullptr;  ///< a word, or a Thread
    bool finished = false;
  };
  static void main(void* thread);
  void run_next(bool not_current);

  static World* running_world;
  static std::vector<std::unique_ptr<Stack>> spare_stacks;

  std::uint64_t random_;
  std::uint64_t switch_one_in_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t current_ = 0;
  std::uint64_t tick_ = 0;
  std::uint64_t fence_tick_ = 0;
  std::uint64_t steps_ = 0;
  TimeNs now_ns_ = 0;
  std::string failure_;
};

/// Dies when it is used before its constructor or after its destructor.
class Alive {
 public:
  Alive() noexcept = default;
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  ~Alive() { *const_cast<volatile std::uint32_t*>(&mark_) = 0; }
  void check() const {
    if (mark_ != alive) World::current().fail("memory is used after its end");
  }

 private:
  static constexpr std::uint32_t alive = 0x600dda7a;
  std::uint32_t mark_ = alive;
};

template <typename T>
class Atomic {
 public:
  Atomic() noexcept : Atomic(T{}) {}
  // NOLINTNEXTLINE(google-explicit-constructor): as std::atomic
  Atomic(T value) noexcept {
    World& world = World::current();
    stores_.push_back({value, {}, world.self(), world.stamp(), world.tick()});
  }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;
  ~Atomic() = default;

  T load(std::memory_order order = std::memory_order_seq_cst) const {
    World& world = enter();
    const std::size_t chosen = choose(world, order);
    return see(world, chosen, order);
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    World& world = enter();
    append(world, value, order, VectorClock{});
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [value](T) { return value; });
  }
  T fetch_add(T by, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [by](T old) { return static_cast<T>(old + by); });
  }
  T fetch_sub(T by, std::memory_order order = std::memory_order_seq_cst) {
    return modify(order, [by](T old) { return static_cast<T>(old - by); });
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure) {
    World& world = enter();
    if (newest().value != expected) {
      expected = see(world, last(), failure);
      return false;
    }
    replace(world, desired, success);
    return true;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
    return compare_exchange_strong(expected, desired, order, failure_order(order));
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure) {
    if (World::current().one_in(8)) {
      expected = load(failure);
      return false;
    }
    return compare_exchange_strong(expected, desired, success, failure);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst) {
    return compare_exchange_weak(expected, desired, order, failure_order(order));
  }
  /// What the kernel sees.
  T in_memory() const { return newest().value; }

 private:
  struct Store {
    T value;
    VectorClock released;  ///< what an acquire load of it learns
    std::size_t thread;
    std::uint32_t stamp;
    std::uint64_t tick;
  };
  static constexpr std::size_t stores_kept = 12;

  static std::memory_order failure_order(std::memory_order order) noexcept {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    return order == std::memory_order_release ? std::memory_order_relaxed : order;
  }
  static bool acquires(std::memory_order order) noexcept {
    return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst || order == std::memory_order_consume;
  }
  static bool releases(std::memory_order order) noexcept {
    return order == std::memory_order_release || order == std::memory_order_acq_rel ||
           order == std::memory_order_seq_cst;
  }

  World& enter() const {
    World& world = World::current();
    world.step();
    alive_.check();
    return world;
  }
  // Stores are counted from the first one ever; old ones are forgotten.
  std::size_t last() const noexcept { return forgotten_ + stores_.size() - 1; }
  const Store& at(std::size_t index) const noexcept { return stores_[index - forgotten_]; }
  const Store& newest() const noexcept { return stores_.back(); }

  std::size_t choose(World& world, std::memory_order order) const {
    std::size_t oldest = std::max(forgotten_, seen_[world.self()]);
    if (order == std::memory_order_seq_cst) oldest = std::max(oldest, last_sequential_);
    for (std::size_t i = last(); i > oldest; --i) {
      if (world.happened(at(i).thread, at(i).stamp) || at(i).tick <= world.fence_tick()) oldest = i;
    }
    if (oldest == last() || world.one_in(2)) return last();
    return oldest + world.random(last() - oldest + 1);
  }
  T see(World& world, std::size_t index, std::memory_order order) const {
    seen_[world.self()] = std::max(seen_[world.self()], index);
    if (acquires(order)) world.clock().join(at(index).released);
    return at(index).value;
  }
  void append(World& world, T value, std::memory_order order, const VectorClock& continued) {
    const std::uint32_t stamp = world.stamp();
    VectorClock released = continued;
    if (releases(order)) released.join(world.clock());
    stores_.push_back({value, released, world.self(), stamp, world.tick()});
    if (stores_.size() > stores_kept) {
      stores_.pop_front();
      ++forgotten_;
    }
    seen_[world.self()] = last();
    if (order == std::memory_order_seq_cst) last_sequential_ = last();
  }
  void replace(World& world, T value, std::memory_order order) {
    see(world, last(), order);
    append(world, value, order, newest().released);
  }
  template <typename Change>
  T modify(std::memory_order order, Change&& change) {
    World& world = enter();
    const T old = newest().value;
    replace(world, change(old), order);
    return old;
  }

  Alive alive_;
  std::deque<Store> stores_;
  std::size_t forgotten_ = 0;
  std::size_t last_sequential_ = 0;
  mutable std::array<std::size_t, max_threads> seen_{};
};

/// Data that only one thread at a time may touch.
template <typename T>
class Plain {
 public:
  Plain() : Plain(T{}) {}
  // NOLINTNEXTLINE(google-explicit-constructor): stands for a T
  Plain(T value) : value_(value) { note_write(); }
  Plain(const Plain& other) : Plain(static_cast<T>(other)) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T>(other); }
  ~Plain() = default;

  Plain& operator=(T value) {
    check(true);
    value_ = value;
    note_write();
    return *this;
  }
  // NOLINTNEXTLINE(google-explicit-constructor): stands for a T
  operator T() const {
    check(false);
    World& world = World::current();
    read_[world.self()] = world.stamp();
    return value_;
  }
  T operator->() const { return *this; }

 private:
  void note_write() {
    World& world = World::current();
    writer_ = world.self();
    written_ = world.stamp();
  }
  void check(bool writes) const {
    World& world = World::current();
    alive_.check();
    if (!world.happened(writer_, written_))
      world.fail("plain data is touched while another thread may write it");
    for (std::size_t i = 0; writes && i < max_threads; ++i) {
      if (!world.happened(i, read_[i])) world.fail("plain data is written while another thread may read it");
    }
  }

  Alive alive_;
  T value_;
  std::size_t writer_ = 0;
  std::uint32_t written_ = 0;
  mutable std::array<std::uint32_t, max_threads> read_{};
};

class Thread {
 public:
  Thread() = default;
  explicit Thread(std::function<void()> body)
      : number_(World::current().start(std::move(body))), joinable_(true) {}
  Thread(Thread&& other) noexcept
      : number_(other.number_), joinable_(std::exchange(other.joinable_, false)) {}
  Thread& operator=(Thread&& other) noexcept {
    number_ = other.number_;
    joinable_ = std::exchange(other.joinable_, false);
    return *this;
  }
  ~Thread() {
    if (joinable_) World::current().fail("a thread was not joined");
  }
  bool joinable() const noexcept { return joinable_; }
  void join() {
    World::current().join(number_);
    joinable_ = false;
  }

 private:
  std::size_t number_ = 0;
  bool joinable_ = false;
};

struct ModelSystem {
  template <typename T>
  using Atomic = model::Atomic<T>;
  template <typename T>
  using Plain = model::Plain<T>;
  using Thread = model::Thread;

  static void light_fence() noexcept {}
  static void heavy_fence() {
    World::current().step();
    World::current().heavy_fence();
  }
  static void pause() { World::current().give_way(); }
  static TimeNs now_ns() noexcept { return World::current().now_ns(); }
  static void futex_wait(const Atomic<std::uint32_t>& word, std::uint32_t expected, TimeNs /*deadline_ns*/) {
    World& world = World::current();
    world.step();
    if (word.in_memory() == expected && !world.one_in(16)) world.block_on(&word);
  }
  static void futex_wake(const Atomic<std::uint32_t>& word, int count) {
    World& world = World::current();
    world.step();
    world.wake(&word, count);
  }
  static void*& host() noexcept { return World::current().host(); }
};
static_assert(System<ModelSystem>);

/// Runs `body` under `schedules` seeds. \returns a message that says how to replay the first failure, or
/// nothing. FIBER_MODEL_SEED runs that seed alone; FIBER_MODEL_SCHEDULES overrides `schedules`.
std::string explore(std::uint64_t schedules, const std::function<void()>& body);

}  // namespace craton::fiber::model
