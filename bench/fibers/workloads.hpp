/// \file
/// The workloads, over whatever has threads of control. Each checks its own result: a mutex that excludes
/// nobody would look very good.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "fibers/fibers.hpp"

namespace craton::bench {

/// What a library must have to be measured: threads of control that are made and waited for, a barrier, and
/// yield().
template <typename L>
concept ThreadLibrary = requires(const L& library, typename L::Thread thread, typename L::Barrier barrier) {
  {
    library.spawn([] {})
    } -> std::same_as<typename L::Thread>;
  thread.join();
  barrier.arrive_and_wait();
  library.yield();
};

constexpr int contenders = 50;

[[noreturn]] inline void throw_wrong_result(const char* asked, const char* happened) {
  throw Error(ErrorCode::protocol, {asked, happened, "", ""});
}

// ---- fork and join

/// The argument for libraries that fork in some 50 ns: 35 takes them most of a second. In short turns they
/// take the one of which a turn holds several runs, so that its median means something.
constexpr int fib_of_turn(TimeNs turn_ns) noexcept {
  return turn_ns >= 100'000'000 ? 35 : 22;
}

constexpr std::uint64_t fib_value(int n) noexcept {
  std::uint64_t value = 0;
  for (std::uint64_t next = 1; n > 0; --n) value = std::exchange(next, next + value);
  return value;
}
/// How many calls of fib(n) fork.
constexpr std::uint64_t fib_forks(int n) noexcept {
  return fib_value(n + 1) - 1;
}

/// \param Fork is made with a function, which may run elsewhere from then on until join()
template <typename Fork>
std::uint64_t fib(int n) {
  if (n < 2) return static_cast<std::uint64_t>(n);
  std::uint64_t left = 0;
  Fork child([&left, n] { left = fib<Fork>(n - 1); });
  const std::uint64_t right = fib<Fork>(n - 2);
  child.join();
  return left + right;
}

/// Nanoseconds a fork and join.
template <typename Fork>
Sample time_fib(TimeNs turn_ns, int n) {
  const auto run = [](int argument) {
    if (fib<Fork>(argument) != fib_value(argument))
      throw_wrong_result("cannot measure fork and join", "fib is wrong");
  };
  run(n > 20 ? n - 4 : n);
  return time_runs(turn_ns, fib_forks(n), [&run, n] { run(n); });
}

// ---- Threads that meet

/// Runs `body()` in each of the contenders.
template <ThreadLibrary L, typename Body>
void run_contenders(const L& library, const Body& body) {
  std::vector<typename L::Thread> threads;
  threads.reserve(contenders);
  for (int i = 0; i < contenders; ++i) threads.push_back(library.spawn(body));
  for (auto& thread : threads) thread.join();
}

/// Nanoseconds a critical section, of 200,000 and more a turn.
/// \param sections in a run: so many that making the threads does not count, so few that a turn holds many
/// runs \param yields_every 0: never
template <typename Mutex, std::uint64_t YieldsEvery = 0, ThreadLibrary L>
Sample time_mutex(const L& library, TimeNs turn_ns, std::uint64_t sections) {
  const auto run = [&library, sections] {
    Mutex mutex;
    typename L::Barrier all_are_there(contenders);
    std::uint64_t done = 0;
    run_contenders(library, [&, sections] {
      all_are_there.arrive_and_wait();
      for (std::uint64_t i = 0; i < sections / contenders; ++i) {
        mutex.lock();
        ++done;
        if constexpr (YieldsEvery != 0) {
          if (done % YieldsEvery == 0) library.yield();
        }
        mutex.unlock();
      }
    });
    if (done != sections) throw_wrong_result("cannot measure a mutex", "it does not exclude");
  };
  run();
  return time_runs(turn_ns, sections, run, (200'000 + sections - 1) / sections);
}
constexpr std::uint64_t yields_every = 16;
constexpr std::uint64_t sections_of_fibers = 50'000;
constexpr std::uint64_t sections_of_kernel_threads = 200'000;

template <ThreadLibrary L>
void check_barrier(const L& library, std::uint64_t rounds) {
  typename L::Barrier barrier(contenders);
  std::vector<std::atomic<std::uint64_t>> reached(contenders);
  std::atomic<unsigned> numbers{0};
  std::atomic<bool> early{false};
  run_contenders(library, [&, rounds] {
    const unsigned own = numbers.fetch_add(1);
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      reached[own].store(round, std::memory_order_relaxed);
      barrier.arrive_and_wait();
      if (reached[(own + 1) % contenders].load(std::memory_order_relaxed) < round) early.store(true);
    }
  });
  if (early.load()) throw_wrong_result("cannot measure a barrier", "it let one through before all had come");
}

/// Nanoseconds a round of all contenders.
template <ThreadLibrary L>
Sample time_barrier(const L& library, TimeNs turn_ns, std::uint64_t rounds) {
  check_barrier(library, rounds);
  return time_runs(turn_ns, rounds, [&library, rounds] {
    typename L::Barrier barrier(contenders);
    run_contenders(library, [&barrier, rounds] {
      for (std::uint64_t round = 0; round < rounds; ++round) barrier.arrive_and_wait();
    });
  });
}

// ---- One after the other

/// Nanoseconds a yield, of two that have nobody else to yield to.
template <ThreadLibrary L>
Sample time_yield(const L& library, TimeNs turn_ns) {
  constexpr std::uint64_t yields_each = 10'000;
  const auto run = [&library] {
    const auto body = [&library] {
      for (std::uint64_t i = 0; i < yields_each; ++i) library.yield();
    };
    auto one = library.spawn(body);
    auto other = library.spawn(body);
    one.join();
    other.join();
  };
  run();
  return time_runs(turn_ns, 2 * yields_each, run);
}

/// Nanoseconds a lock and unlock.
template <typename Mutex>
Sample time_uncontended_mutex(TimeNs turn_ns) {
  Mutex mutex;
  return time_batches(turn_ns, [&mutex](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      mutex.lock();
      touch_memory(&mutex);
      mutex.unlock();
    }
  });
}

}  // namespace craton::bench
