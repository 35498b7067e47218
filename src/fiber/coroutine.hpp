/// \file
/// A thread of control that is resumed by hand: it runs when somebody calls resume(), until it calls
/// suspend(). What schedulers of their own kind, such as the simulator's, are made of.
#pragma once

#include "fiber/context.hpp"
#include "fiber/stack.hpp"

namespace craton::fiber {

/// Neither moved nor copied: it finds itself by its address. Used by one thread at a time, not always the
/// same.
class Coroutine {
 public:
  using Entry = void (*)(void* argument);

  /// Calls `entry(argument)` when it is first resumed. `entry` must not return (it ends with finish()) and
  /// must let no exception out. The stack must outlive the coroutine.
  Coroutine(const Stack& stack, Entry entry, void* argument) noexcept : entry_(entry), argument_(argument) {
    sanitizer_.start(stack.bottom(), stack.bytes());
    inside_ = make_context(stack.top(), &start, this, &sanitizer_);
  }
  Coroutine(const Coroutine&) = delete;
  Coroutine& operator=(const Coroutine&) = delete;
  ~Coroutine() { sanitizer_.finish(); }

  /// Runs it until it suspends or finishes. Not from inside it.
  void resume() noexcept {
    const ExceptionState exceptions = ExceptionState::of_thread()->take();
    swap_context(inside_, [this](Continuation saved) -> void* {
      outside_ = saved;
      return this;
    });
    exceptions.put_back();
  }
  /// From inside: returns when it is resumed.
  void suspend() noexcept {
    const ExceptionState exceptions = ExceptionState::of_thread()->take();
    swap_context(outside_, [this](Continuation saved) -> void* {
      inside_ = saved;
      return this;
    });
    exceptions.put_back();
  }
  /// From inside: leaves it for good.
  [[noreturn]] void finish() noexcept {
    restore_context(
        outside_, [this]() -> void* { return this; }, &sanitizer_);
  }

 private:
  static void start(void* /*value*/, void* self) {
    auto& own = *static_cast<Coroutine*>(self);
    own.entry_(own.argument_);
    __builtin_trap();
  }

  Entry entry_;
  void* argument_;
  Continuation inside_;   ///< while it is suspended
  Continuation outside_;  ///< while it runs: who resumed it
  SanitizerContext sanitizer_;
};

}  // namespace craton::fiber
