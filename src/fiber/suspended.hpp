/// \file
/// Suspended threads (dissertation, section 5.2.3): one thread of control, whatever it is, that waits until
/// another resumes it. Everything that blocks, in this folder and in the rooms above, is built on it.
///
/// What is suspended may be
///  * a fiber: its worker runs another meanwhile;
///  * a kernel thread, also inside a signal handler (see KernelThreadScope): spins about 20 us, then sleeps;
///  * whatever else runs threads of control and says so by a Host, such as the simulated ranks.
#pragma once

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/function_ref.hpp"
#include "fiber/system.hpp"

namespace craton::fiber {

template <System S>
struct Fiber;
template <System S>
class Worker;

/// A suspended thread of control: a Fiber, or a Sleeper with the lowest bit set. 0 is none. No pointer has a
/// value below 8, so that those can mean other things.
using Handle = std::uintptr_t;
inline constexpr Handle nobody = 0;
inline constexpr Handle first_handle = 8;

/// A suspended thread of control that is no fiber.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Lets it go on. Any thread; async-signal-safe if the thread sleeps in the kernel. The sleeper may be gone
  /// when this returns.
  virtual void resume() noexcept = 0;
  Handle handle() noexcept { return reinterpret_cast<Handle>(this) | 1U; }
};

/// What runs threads of control on the calling kernel thread, if it is not the kernel: S::host() points to
/// it.
template <System S>
class Host {
 public:
  virtual ~Host() = default;
  /// Suspends the caller: saves where it is, then calls `publish(handle)`. If that returns false the caller
  /// goes on at once, else when the handle is resumed.
  virtual void suspend(FunctionRef<bool(Handle)> publish) = 0;
  /// Not null if fibers of this library run here.
  Worker<S>* worker() const noexcept { return worker_; }

 protected:
  explicit Host(Worker<S>* worker = nullptr) noexcept : worker_(worker) {}

 private:
  Worker<S>* const worker_;
};

template <System S>
Host<S>* current_host() noexcept {
  return static_cast<Host<S>*>(S::host());
}

/// Whose fiber the caller is; null if it is none, or inside a KernelThreadScope.
template <System S>
Worker<S>* current_worker() noexcept {
  Host<S>* const host = current_host<S>();
  return host == nullptr ? nullptr : host->worker();
}

/// While one exists, whatever blocks on this thread blocks the kernel thread. For signal handlers on threads
/// that run fibers: what the handler came upon, perhaps the scheduler itself, must not be switched away from.
template <System S>
class BasicKernelThreadScope {
 public:
  BasicKernelThreadScope() noexcept : host_(std::exchange(S::host(), nullptr)) {}
  BasicKernelThreadScope(const BasicKernelThreadScope&) = delete;
  BasicKernelThreadScope& operator=(const BasicKernelThreadScope&) = delete;
  ~BasicKernelThreadScope() {
    S::host() = host_;
    errno = errno_;
  }

 private:
  void* host_;
  int errno_ = errno;
};

/// How long every wait of a kernel thread polls before it sleeps. Shorter than this is the time in which an
/// answer of another core comes; a sleep and wake-up costs about as much.
inline constexpr TimeNs spin_ns = 20'000;

/// A kernel thread that waits.
template <System S>
class KernelSleeper final : public Sleeper {
 public:
  /// Returns once resume() has been called.
  void sleep() noexcept {
    const TimeNs spin_until_ns = S::now_ns() + spin_ns;
    do {
      for (int i = 0; i < polls_per_clock_reading; ++i) {
        if (state_.load(std::memory_order_acquire) == resumed) return;
        S::pause();
      }
    } while (S::now_ns() < spin_until_ns);
    std::uint32_t expected = awake;
    if (!state_.compare_exchange_strong(expected, asleep, std::memory_order_acquire)) return;
    while (state_.load(std::memory_order_acquire) != resumed) S::futex_wait(state_, asleep, no_deadline);
  }
  void resume() noexcept override {
    if (state_.exchange(resumed, std::memory_order_release) == asleep) S::futex_wake(state_, 1);
  }

 private:
  static constexpr std::uint32_t awake = 0;
  static constexpr std::uint32_t asleep = 1;
  static constexpr std::uint32_t resumed = 2;
  static constexpr int polls_per_clock_reading = 16;
  typename S::template Atomic<std::uint32_t> state_{awake};
};

/// Suspends the calling thread of control, see Host::suspend.
/// \param publish bool(Handle); must not touch what belongs to the caller after it has shown the handle to
/// others
template <System S, typename Publish>
[[gnu::always_inline]] inline void suspend(Publish&& publish) {
  Host<S>* const host = current_host<S>();
  if (host == nullptr) {
    KernelSleeper<S> sleeper;
    if (publish(sleeper.handle())) sleeper.sleep();
  } else if (Worker<S>* const worker = host->worker(); worker != nullptr) {
    worker->suspend_fiber(publish);
  } else {
    host->suspend(publish);
  }
}

/// Lets a suspended thread of control go on. Any thread, also a kernel thread; async-signal-safe inside a
/// KernelThreadScope. Does not block.
template <System S>
void resume(Handle handle) noexcept {
  if ((handle & 1U) != 0) {
    reinterpret_cast<Sleeper*>(handle & ~Handle{1})->resume();
  } else {
    auto* const fiber = reinterpret_cast<Fiber<S>*>(handle);
    fiber->scheduler->ready(*fiber);
  }
}

/// Holds at most one suspended thread of control. Moves, and is used by one thread at a time: what makes it
/// known to others has to order that.
template <System S>
class BasicSuspended {
 public:
  BasicSuspended() noexcept = default;
  BasicSuspended(BasicSuspended&& other) noexcept : handle_(other.take()) {}
  BasicSuspended& operator=(BasicSuspended&& other) noexcept {
    handle_ = other.take();
    return *this;
  }
  ~BasicSuspended() = default;

  explicit operator bool() const noexcept { return static_cast<Handle>(handle_) != nobody; }

  /// Suspends the caller into this, which must be empty, and calls `publish()` when it is saved; if that
  /// returns false, the caller goes on at once and this is empty.
  template <typename Publish>
  void wait_with(Publish&& publish) {
    suspend<S>([this, &publish](Handle self) {
      handle_ = self;
      if (publish()) return true;
      handle_ = nobody;
      return false;
    });
  }
  /// Suspends the caller, who holds `lock`, into this, and unlocks once that is done. Returns, without the
  /// lock, when it is notified.
  template <typename Lock>
  void wait_unlocking(Lock& lock) {
    wait_with([&lock] {
      lock.unlock();
      return true;
    });
  }

  /// Lets what is held go on, some time; this is empty then.
  void notify() noexcept { resume<S>(take()); }

  /// The same, but if caller and held are fibers of one scheduler the held one runs at once and the caller
  /// some time.
  void enter() {
    const Handle held = take();
    Worker<S>* const worker = current_worker<S>();
    if (worker == nullptr || !worker->enter(held)) resume<S>(held);
  }

  /// Suspends the caller into this, calls `publish()`, and lets what `next` holds go on, at once if both are
  /// fibers of one scheduler. If `publish` returns false nothing happens: this is empty and `next` keeps what
  /// it held.
  template <typename Publish>
  void swap_with(BasicSuspended& next, Publish&& publish) {
    Worker<S>* const worker = current_worker<S>();
    const Handle held = next.take();
    const auto into_this = [this, &next, held, &publish](Handle self) {
      handle_ = self;
      if (publish()) return true;
      handle_ = nobody;
      next.handle_ = held;
      return false;
    };
    if (worker != nullptr && worker->can_enter(held)) {
      worker->suspend_fiber_to(held, into_this);
      return;
    }
    suspend<S>([held, &into_this](Handle self) {
      const Handle to_resume =
          held;  // this may go on, and its stack be gone, once into_this has published it
      if (!into_this(self)) return false;
      resume<S>(to_resume);
      return true;
    });
  }
  void swap(BasicSuspended& next) {
    swap_with(next, [] { return true; });
  }

  /// Takes out what is held, to be given to resume().
  Handle take() noexcept {
    const Handle held = handle_;
    handle_ = nobody;
    return held;
  }

 private:
  typename S::template Plain<Handle> handle_{nobody};
};

}  // namespace craton::fiber
