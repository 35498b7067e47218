/// \file
/// Fibers, and the kernel threads that run them (dissertation, section 5.2.2). What a fiber is to everyone
/// who lets it wait or go on is here; who runs which fiber when is the Runtime's business.
///
///   a stack:   | guard | ... frames <- | callable | Fiber | colour |
///
/// The Fiber is found from the stack's top, as the pool gave it.
#pragma once

#include <cstdint>
#include <exception>

#include "fiber/context.hpp"
#include "fiber/suspended.hpp"

namespace craton::fiber {

template <System S>
struct Fiber;

/// Who is told that a fiber is ready.
template <System S>
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// Any thread; async-signal-safe inside a KernelThreadScope.
  virtual void ready(Fiber<S>& fiber) noexcept = 0;
};

class LocalValues;

/// The record of a fiber, at the top of its stack.
template <System S>
struct alignas(64) Fiber {
  Continuation continuation;  ///< where it is, while it does not run
  Fiber* next = nullptr;      ///< in whatever list it is
  Scheduler<S>* scheduler = nullptr;
  void (*body)(Fiber&) = nullptr;  ///< runs and destroys the callable
  void* callable = nullptr;
  std::byte* stack_top = nullptr;  ///< as the pool gave it
  /// `running`, `finished`, `detached`, or the Handle of whoever waits for its end.
  typename S::template Atomic<Handle> end{running};
  /// It was forked, and the parent has not run since: nobody can know of it.
  typename S::template Atomic<bool> unborn{false};
  LocalValues* locals = nullptr;  ///< fiber-local storage, once used
  std::exception_ptr error;       ///< what it ended with, for join()
  const char* name = nullptr;
  std::uint64_t id = 0;
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext sanitizer;
  SanitizerContext* sanitizer_context() noexcept {
    return &sanitizer;
  }
#else
  SanitizerContext* sanitizer_context() noexcept {
    return nullptr;
  }
#endif

  static constexpr Handle running = 0;
  static constexpr Handle finished = 1;
  static constexpr Handle detached = 2;

  Handle handle() noexcept {
    return reinterpret_cast<Handle>(this);
  }
};

/// A kernel thread that runs fibers. All functions are called by that thread, from the fiber that runs.
template <System S>
class Worker : public Host<S> {
 public:
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Fiber<S>& running() noexcept { return *running_; }
  Scheduler<S>* scheduler() const noexcept { return scheduler_; }

  /// See fiber::suspend.
  template <typename Publish>
  [[gnu::always_inline]] void suspend_fiber(Publish& publish) {
    Fiber<S>* const next = pick();
    if (!leave_for(next, publish) && next != nullptr) put_back(*next);
  }

  void suspend(FunctionRef<bool(Handle)> publish) final { suspend_fiber(publish); }

  bool can_enter(Handle held) const noexcept {
    return held >= first_handle && (held & 1U) == 0 &&
           reinterpret_cast<Fiber<S>*>(held)->scheduler == scheduler_;
  }
  /// Suspends the running fiber as `publish` says and runs the held one, which can_enter().
  template <typename Publish>
  void suspend_fiber_to(Handle held, Publish&& publish) {
    leave_for(reinterpret_cast<Fiber<S>*>(held), publish);
  }
  /// Runs the held one and lets the running fiber be ready. \returns false if it cannot
  bool enter(Handle held) {
    if (!can_enter(held)) return false;
    leave_for(reinterpret_cast<Fiber<S>*>(held), make_ready());
    return true;
  }
  /// Lets others run, the one that has been ready for longest first.
  void yield() {
    if (Fiber<S>* const next = oldest()) leave_for(next, make_ready());
  }
  /// Makes a fiber of this worker's scheduler ready; tell_of_work() must follow.
  virtual void put_back_quietly(Fiber<S>& fiber) noexcept = 0;
  /// Wakes another worker if one sleeps.
  virtual void tell_of_work() noexcept = 0;

 protected:
  explicit Worker(Scheduler<S>& scheduler) noexcept : Host<S>(this), scheduler_(&scheduler) {}

  /// The fiber to run next, or null. Not a virtual call for its own.
  virtual Fiber<S>* pick() = 0;
  virtual Fiber<S>* oldest() = 0;
  /// Makes a fiber that pick() or oldest() gave ready again.
  virtual void put_back(Fiber<S>& fiber) noexcept = 0;

  Fiber<S>* running_ = nullptr;           ///< null: the loop that looks for work
  Continuation loop_;                     ///< that loop, while a fiber runs
  ExceptionState* exceptions_ = nullptr;  ///< of the kernel thread

 private:
  auto make_ready() noexcept {
    return [worker = this](Handle self) {
      worker->put_back(*reinterpret_cast<Fiber<S>*>(self));
      return true;
    };
  }

  /// Suspends the running fiber and goes on with `next`, or with the loop if that is null, unless `publish`
  /// says no.
  /// Inlined, like those above: each return after a switch is one that the processor may have expected
  // elsewhere.
  template <typename Publish>
  [[gnu::always_inline]] bool leave_for(Fiber<S>* next, Publish&& publish) {
    Fiber<S>* const self = running_;
    const ExceptionState exceptions = exceptions_->take();
    const Continuation target = next != nullptr ? next->continuation : loop_;
    // What is captured lies on the stack of `self`, which may run elsewhere as soon as `publish` has shown
    // the handle.
    const void* const resumer = cond_swap_context(target, [&](Continuation saved) -> void* {
      Worker* const worker = this;
      self->continuation = saved;
      worker->running_ = next;
      if (publish(self->handle())) return worker;
      worker->running_ = self;
      return nullptr;
    });
    exceptions.put_back();
    return resumer != nullptr;
  }

  Scheduler<S>* const scheduler_;
};

}  // namespace craton::fiber
