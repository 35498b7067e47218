/// \file
/// Workers and what they run: fork, join, detach, yield. A Runtime has a number of kernel threads and a
/// policy that says which ready fiber they run next (fiber/queues.hpp).
///
/// Invariants
///  * A ready fiber is in exactly one of: the policy's queues, the inbox. The inbox is where threads that are
///    no workers put fibers, by one compare-exchange, so that they may do it from a signal handler.
///  * A fiber's end is told from the stack of whatever runs next, so that who joins may reuse its stack then.
#pragma once

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fiber/local.hpp"
#include "fiber/overrun.hpp"
#include "fiber/parking.hpp"
#include "fiber/queues.hpp"
#include "fiber/stack.hpp"
#include "fiber/worker.hpp"

namespace craton::fiber {

struct RuntimeOptions {
  unsigned workers = 0;  ///< kernel threads; 0: as many as the machine has
  StackOptions stacks{};
  std::uint64_t seed = 0;        ///< for policies that choose at random
  bool report_overruns = true;   ///< take SIGSEGV, to name the fiber that overran its stack, and pass it on
  std::size_t stacks_kept = 64;  ///< that each worker keeps for itself
};

/// The right to wait for a fiber's end. Moves; used by one thread of control. If it ends without join() or
/// detach(), it joins.
template <System S, typename Policy>
class BasicJoin;

template <System S, typename Policy>
class BasicRuntime final : public Scheduler<S> {
 public:
  using Join = BasicJoin<S, Policy>;

  /// Starts the workers. \throws std::system_error
  explicit BasicRuntime(RuntimeOptions options = {})
      : options_(options), pool_(options.stacks), queues_(worker_count(options), options.seed) {
    static_assert(Queues<Policy, Fiber<S>>);
    if constexpr (std::is_same_v<S, NativeSystem>) {
      if (options_.report_overruns) overrun_report_.emplace(pool_, &describe);
    }
    try {
      for (unsigned i = 0; i < worker_count(options); ++i)
        workers_.push_back(std::make_unique<Own>(*this, i));
      for (const auto& worker : workers_) worker->start();
    } catch (...) {
      stop();
      throw;
    }
  }
  BasicRuntime(const BasicRuntime&) = delete;
  BasicRuntime& operator=(const BasicRuntime&) = delete;
  /// Ends the workers once each has suspended or finished what it runs. Fibers that have not finished are
  /// abandoned: their stacks are unmapped, not unwound.
  ~BasicRuntime() override { stop(); }

  /// Makes a fiber that runs `body()` some time; the caller goes on (parent first). Any thread.
  /// \param name for messages; outlives the fiber
  /// \throws std::system_error, std::bad_alloc when there is no stack
  template <typename Body>
  Join spawn(Body&& body, const char* name = nullptr) {
    Own* const worker = current();
    Fiber<S>* const fiber = make_fiber(worker, std::forward<Body>(body), name);
    fiber->continuation = make_context(stack_below(*fiber), &main, fiber, fiber->sanitizer_context());
    ready(*fiber);
    return Join(fiber, this);
  }

  /// Makes a fiber and runs `body()` at once; the caller goes on when the fiber suspends or ends, or on
  /// another worker (child first: what a fork-join program wants). From a fiber of a runtime of this type.
  /// \throws as spawn(); std::logic_error on a thread that runs no fiber
  template <typename Body>
  static Join fork(Body&& body, const char* name = nullptr) {
    auto* const worker = static_cast<Own*>(current_worker<S>());
    if (worker == nullptr) [[unlikely]]
      throw std::logic_error("only a fiber can fork; elsewhere call Runtime::spawn() or run()");
    Fiber<S>* const child = worker->runtime_->make_fiber(worker, std::forward<Body>(body), name);
    BasicRuntime* const runtime = worker->runtime_;
    Fiber<S>* const parent = worker->running_;
    const ExceptionState exceptions = worker->exceptions_->take();
    child->unborn.store(true, std::memory_order_relaxed);
    save_context(
        stack_below(*child),
        [worker, parent, child](Continuation saved) {
          Fiber<S>* const self = child;
          Fiber<S>* const forked_by = parent;
          forked_by->continuation = saved;
          worker->running_ = self;
          worker->put_back(*forked_by);  // it may go on elsewhere from here on
          Own* const here = run_body(*self);
          Fiber<S>* const next = after(*here, *self);
          // The common case: nobody stole the parent. Then nobody waits for the child, and the way back to
          // the parent is to return.
          if (next != forked_by || !self->unborn.load(std::memory_order_relaxed)) leave(*here, *self, next);
          self->end.store(Fiber<S>::finished, std::memory_order_relaxed);
          here->running_ = next;
        },
        child->sanitizer_context());
    exceptions.put_back();
    child->unborn.store(false, std::memory_order_relaxed);
    return Join(child, runtime);
  }

  /// Runs `body()` as a fiber and waits for its end. \returns, or throws, what it does
  template <typename Body>
  auto run(Body&& body) {
    using Result = std::invoke_result_t<Body&>;
    if constexpr (std::is_void_v<Result>) {
      spawn([&body] { body(); }).join();
    } else {
      std::optional<Result> result;
      spawn([&body, &result] { result.emplace(body()); }).join();
      return std::move(*result);
    }
  }

  /// See Scheduler.
  void ready(Fiber<S>& fiber) noexcept override {
    Own* const worker = current();
    if (worker != nullptr) {
      worker->put_back(fiber);
    } else {
      put_into_inbox(fiber);
    }
  }

  unsigned workers() const noexcept { return static_cast<unsigned>(workers_.size()); }

 private:
  friend Join;

  class Own final : public Worker<S> {
   public:
    Own(BasicRuntime& runtime, unsigned index) : Worker<S>(runtime), runtime_(&runtime), index_(index) {}

    void start() {
      thread_ = typename S::Thread([this] { main(); });
    }
    void join() {
      if (thread_.joinable()) thread_.join();
    }

    Fiber<S>* pick() override {
      if (--picks_until_oldest_ == 0) {
        picks_until_oldest_ = picks_between_oldest;
        if (Fiber<S>* const fiber = oldest()) return fiber;
      }
      if (Fiber<S>* const fiber = runtime_->queues_.pop(index_)) return fiber;
      return take_inbox();
    }
    Fiber<S>* oldest() override {
      if (Fiber<S>* const fiber = take_inbox()) return fiber;
      return runtime_->queues_.oldest(index_);
    }
    void put_back(Fiber<S>& fiber) noexcept override {
      put_back_quietly(fiber);
      tell_of_work();
    }
    void put_back_quietly(Fiber<S>& fiber) noexcept override {
      try {
        runtime_->queues_.push(index_, &fiber);
      } catch (const std::bad_alloc&) {
        runtime_->put_into_inbox(fiber);
      }
    }
    void tell_of_work() noexcept override { runtime_->parking_.wake_one(); }

    std::byte* take_stack() {
      if (stacks_.empty()) runtime_->pool_.take(runtime_->options_.stacks_kept / 2 + 1, stacks_);
      std::byte* const top = stacks_.back();
      stacks_.pop_back();
      return top;
    }
    void give_stack_back(std::byte* top) {
      stacks_.push_back(top);
      if (stacks_.size() > runtime_->options_.stacks_kept + 1)
        runtime_->pool_.give_back(runtime_->options_.stacks_kept / 2 + 1, stacks_);
    }

    std::uint64_t next_id() noexcept { return std::uint64_t{index_} << 48U | ++ids_; }

   private:
    friend BasicRuntime;

    void main() {
      S::host() = static_cast<Host<S>*>(this);
      this->exceptions_ = ExceptionState::of_thread();
      const AlternateStack alternate(runtime_->options_.report_overruns && std::is_same_v<S, NativeSystem>);
      while (Fiber<S>* const next = find_work()) {
        swap_context(next->continuation, [this, next](Continuation saved) -> void* {
          this->loop_ = saved;
          this->running_ = next;
          return this;
        });
      }
      S::host() = nullptr;
    }

    /// The next fiber to run; sleeps while there is none; null when the runtime ends.
    Fiber<S>* find_work() {
      TimeNs spin_until_ns = 0;
      for (unsigned polls = 0;; ++polls) {
        if (runtime_->stopping_.load(std::memory_order_acquire)) return nullptr;
        if (Fiber<S>* const fiber = pick()) return fiber;
        if (Fiber<S>* const fiber = runtime_->queues_.steal(index_)) {
          if (!runtime_->queues_.empty()) runtime_->parking_.wake_one();
          return fiber;
        }
        S::pause();
        if (polls % polls_per_clock_reading != 0) continue;
        const TimeNs now_ns = S::now_ns();
        if (spin_until_ns == 0) spin_until_ns = now_ns + spin_ns;
        if (now_ns < spin_until_ns) continue;
        runtime_->parking_.sleep([this] {
          return !runtime_->queues_.empty() || runtime_->inbox_.load(std::memory_order_seq_cst) != nullptr ||
                 runtime_->stopping_.load(std::memory_order_seq_cst);
        });
        spin_until_ns = 0;
      }
    }

    /// Empties the inbox: the oldest of it, the rest becomes this worker's.
    Fiber<S>* take_inbox() {
      if (runtime_->inbox_.load(std::memory_order_relaxed) == nullptr) return nullptr;
      Fiber<S>* fiber = runtime_->inbox_.exchange(nullptr, std::memory_order_acquire);
      while (fiber != nullptr && fiber->next != nullptr) {
        Fiber<S>* const newer = fiber;
        fiber = fiber->next;
        put_back(*newer);
      }
      return fiber;
    }

    static constexpr unsigned picks_between_oldest = 61;
    static constexpr unsigned polls_per_clock_reading = 8;

    BasicRuntime* const runtime_;
    const unsigned index_;
    unsigned picks_until_oldest_ = picks_between_oldest;
    std::uint64_t ids_ = 0;
    std::vector<std::byte*> stacks_;
    typename S::Thread thread_;
  };

  static unsigned worker_count(const RuntimeOptions& options) {
    return options.workers != 0 ? options.workers : std::max(1U, std::thread::hardware_concurrency());
  }

  /// The calling worker of this runtime, or null.
  Own* current() noexcept {
    Worker<S>* const worker = current_worker<S>();
    return worker == nullptr || worker->scheduler() != this ? nullptr : static_cast<Own*>(worker);
  }

  void put_into_inbox(Fiber<S>& fiber) noexcept {
    fiber.next = inbox_.load(std::memory_order_relaxed);
    while (!inbox_.compare_exchange_weak(fiber.next, &fiber, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    parking_.wake_one();
  }

  // ---- Making and ending fibers

  template <typename Body>
  Fiber<S>* make_fiber(Own* worker, Body&& body, const char* name) {
    using Callable = std::decay_t<Body>;
    static_assert(alignof(Callable) <= 64);
    std::byte* const top = take_stack(worker);
    auto* const fiber = new (top - sizeof(Fiber<S>)) Fiber<S>;
    void* const place = align_down(reinterpret_cast<std::byte*>(fiber) - sizeof(Callable), alignof(Callable));
    try {
      fiber->callable = new (place) Callable(std::forward<Body>(body));
    } catch (...) {
      fiber->~Fiber();
      give_stack_back(worker, top);
      throw;
    }
    fiber->body = [](Fiber<S>& self) {
      struct Destroy {
        Callable& callable;
        ~Destroy() { callable.~Callable(); }
      } const destroy{*static_cast<Callable*>(self.callable)};
      destroy.callable();
    };
    fiber->scheduler = this;
    fiber->stack_top = top;
    fiber->name = name;
    fiber->id = worker != nullptr ? worker->next_id() : 0;
#if defined(CRATON_FIBER_SANITIZED)
    fiber->sanitizer.start(pool_.bottom(top), static_cast<std::size_t>(top - pool_.bottom(top)));
#endif
    return fiber;
  }
  static std::byte* align_down(std::byte* at, std::size_t alignment) noexcept {
    return at - reinterpret_cast<std::uintptr_t>(at) % alignment;
  }
  static std::byte* stack_below(Fiber<S>& fiber) noexcept {
    return align_down(static_cast<std::byte*>(fiber.callable), 16);
  }

  static void main(void* /*value*/, void* made) {
    auto& fiber = *static_cast<Fiber<S>*>(made);
    Own* const here = run_body(fiber);
    leave(*here, fiber, after(*here, fiber));
  }

  /// \returns the worker that the fiber runs on at its end
  static Own* run_body(Fiber<S>& fiber) noexcept {
    try {
      fiber.body(fiber);
    } catch (...) {
      fiber.error = std::current_exception();
    }
    if (fiber.locals != nullptr) destroy_locals(fiber);
    return static_cast<Own*>(current_worker<S>());
  }
  /// What to run after a fiber's end: who waits for it; else what was made ready last, its parent typically.
  static Fiber<S>* after(Own& worker, Fiber<S>& fiber) {
    const Handle waiting = fiber.end.load(std::memory_order_acquire);
    return worker.can_enter(waiting) ? reinterpret_cast<Fiber<S>*>(waiting) : worker.pick();
  }
  /// Leaves the stack of a fiber that has ended, for `next` or the loop, and tells its end from there.
  [[noreturn]] static void leave(Own& worker, Fiber<S>& fiber, Fiber<S>* next) noexcept {
    restore_context(
        next != nullptr ? next->continuation : worker.loop_,
        [worker = &worker, next, fiber = &fiber]() -> void* {
          Own* const here = worker;
          Fiber<S>* const ended = fiber;
          here->running_ = next;
          if (next == nullptr || ended->end.load(std::memory_order_relaxed) != next->handle()) {
            // From here on who joins may reuse the stack that this function's captures lie on.
            const Handle waited = ended->end.exchange(Fiber<S>::finished, std::memory_order_acq_rel);
            if (waited == Fiber<S>::detached) {
              here->runtime_->discard(here, *ended);
            } else if (waited != Fiber<S>::running) {
              resume<S>(waited);
            }
          }
          return here;
        },
        fiber.sanitizer_context());
  }
  static void destroy_locals(Fiber<S>& fiber) noexcept {
    delete fiber.locals;
    fiber.locals = nullptr;
  }

  /// Gives the stack of a fiber that has ended and that nobody knows any more back.
  void discard(Own* worker, Fiber<S>& fiber) noexcept {
    if (fiber.error != nullptr) std::terminate();  // as for a std::thread: nobody will ever see it
    std::byte* const top = fiber.stack_top;
#if defined(CRATON_FIBER_SANITIZED)
    fiber.sanitizer.finish();
#endif
    fiber.~Fiber();
    give_stack_back(worker, top);
  }

  std::byte* take_stack(Own* worker) {
    if (worker != nullptr) return worker->take_stack();
    std::vector<std::byte*> one;
    pool_.take(1, one);
    return one.front();
  }
  void give_stack_back(Own* worker, std::byte* top) {
#if defined(CRATON_FIBER_ASAN)
    __asan_unpoison_memory_region(pool_.bottom(top), static_cast<std::size_t>(top - pool_.bottom(top)));
#endif
    if (worker != nullptr) return worker->give_stack_back(top);
    std::vector<std::byte*> one{top};
    pool_.give_back(1, one);
  }

  static OverrunDescription describe(std::byte* top) noexcept {
    const auto& fiber = *reinterpret_cast<Fiber<S>*>(top - sizeof(Fiber<S>));
    return {fiber.name, fiber.id};
  }

  void stop() noexcept {
    stopping_.store(true, std::memory_order_seq_cst);
    parking_.wake_all();
    for (const auto& worker : workers_) worker->join();
  }

  const RuntimeOptions options_;
  StackPool pool_;
  Policy queues_;
  Parking<S> parking_;
  typename S::template Atomic<Fiber<S>*> inbox_{nullptr};
  typename S::template Atomic<bool> stopping_{false};
  std::optional<OverrunReport> overrun_report_;
  std::vector<std::unique_ptr<Own>> workers_;
};

template <System S, typename Policy>
class BasicJoin {
 public:
  BasicJoin() noexcept = default;
  BasicJoin(BasicJoin&& other) noexcept
      : fiber_(std::exchange(other.fiber_, nullptr)), runtime_(other.runtime_) {}
  BasicJoin& operator=(BasicJoin&& other) noexcept {
    if (fiber_ != nullptr) wait();
    fiber_ = std::exchange(other.fiber_, nullptr);
    runtime_ = other.runtime_;
    return *this;
  }
  ~BasicJoin() {
    if (fiber_ != nullptr) wait();
  }

  bool joinable() const noexcept { return fiber_ != nullptr; }

  /// Blocks until the fiber has ended. \throws what it ended with
  void join() {
    if (std::exception_ptr error = wait(); error != nullptr) [[unlikely]]
      std::rethrow_exception(std::move(error));
  }

  /// Lets the fiber end on its own. If it ends with an exception, the program is terminated.
  void detach() noexcept {
    Fiber<S>* const fiber = std::exchange(fiber_, nullptr);
    if (fiber->end.exchange(Fiber<S>::detached, std::memory_order_acq_rel) == Fiber<S>::finished)
      runtime_->discard(runtime_->current(), *fiber);
  }

 private:
  friend BasicRuntime<S, Policy>;
  BasicJoin(Fiber<S>* fiber, BasicRuntime<S, Policy>* runtime) noexcept : fiber_(fiber), runtime_(runtime) {}

  std::exception_ptr wait() {
    Fiber<S>* const fiber = std::exchange(fiber_, nullptr);
    if (fiber->end.load(std::memory_order_acquire) != Fiber<S>::finished) {
      suspend<S>([fiber](Handle self) {
        Handle expected = Fiber<S>::running;
        return fiber->end.compare_exchange_strong(expected, self, std::memory_order_acq_rel,
                                                  std::memory_order_acquire);
      });
    }
    std::exception_ptr error;
    if (fiber->error != nullptr) [[unlikely]]
      error = std::exchange(fiber->error, nullptr);
    runtime_->discard(runtime_->current(), *fiber);
    return error;
  }

  Fiber<S>* fiber_ = nullptr;
  BasicRuntime<S, Policy>* runtime_ = nullptr;
};

}  // namespace craton::fiber
