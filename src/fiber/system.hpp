/// \file
/// What fibers need of the machine, as a policy: every class here takes a `System` and uses nothing of the
/// machine but through it. NativeSystem is the machine; the tests have another, in which a seed decides who
/// runs next, how stale a value a relaxed load sees, and whether plain data is raced for
/// (tests/fiber/model.hpp).
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <limits>
#include <thread>

#include "base/clock.hpp"
#include "base/futex.hpp"

namespace craton::fiber {

/// What a policy has:
///  * Atomic<T>, with std::atomic's operations and orders
///  * Plain<T>, a T that only one thread at a time may touch
///  * light_fence() and heavy_fence(): of two threads that store, fence and load, one with the light fence
///  and
///    one with the heavy, at least one sees the other's store. The light one costs nothing; the heavy one
///    interrupts other cores.
///  * pause(), in loops that wait for a store of another thread; now_ns()
///  * futex_wait(), futex_wake() on Atomic<std::uint32_t>
///  * Thread: like std::thread
///  * host(): a pointer of each thread's own, void*&. The reference is not to be kept across a switch.
template <typename S>
concept System = requires(typename S::template Atomic<std::uint32_t>& word,
                          typename S::template Plain<int>& plain) {
  { word.load(std::memory_order_acquire) } -> std::convertible_to<std::uint32_t>;
  { static_cast<int>(plain) } -> std::same_as<int>;
  S::light_fence();
  S::heavy_fence();
  S::pause();
  { S::now_ns() } -> std::same_as<TimeNs>;
  S::futex_wait(word, std::uint32_t{}, no_deadline);
  S::futex_wake(word, 1);
  { S::host() } -> std::same_as<void*&>;
};

struct NativeSystem {
  template <typename T>
  using Atomic = std::atomic<T>;
  template <typename T>
  using Plain = T;
  using Thread = std::thread;

  static void light_fence() noexcept {
    if (membarrier_works()) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full_fence();
    }
  }
  static void heavy_fence() noexcept {
    if (!membarrier_works() || ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
      full_fence();
  }
  static void pause() noexcept { spin_pause(); }
  static TimeNs now_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return TimeNs{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  }
  static void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         TimeNs deadline_ns) noexcept {
    craton::futex_wait(word, expected, deadline_ns);
  }
  static void futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
    craton::futex_wake(word, count);
  }
  // Not inlined: the compiler must not keep the address of a thread's own variable across a switch.
  [[gnu::noinline]] static void*& host() noexcept {
    static thread_local void* of_thread [[gnu::tls_model("initial-exec")]] = nullptr;
    __asm__ volatile("" ::: "memory");
    return of_thread;
  }

 private:
  // A locked read-modify-write is a full fence, and one that the thread sanitizer understands.
  static void full_fence() noexcept {
    std::atomic<int> own{0};
    own.fetch_add(1, std::memory_order_seq_cst);
  }
  static bool membarrier_works() noexcept {
    static const bool works = ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    return works;
  }
};
static_assert(System<NativeSystem>);

}  // namespace craton::fiber
