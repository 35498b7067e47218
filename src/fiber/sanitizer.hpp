/// \file
/// Telling sanitizers of context switches. Without one, all of this is empty.
///
/// CRATON_FIBER_ASAN, CRATON_FIBER_TSAN: which sanitizer this is built with, whatever the compiler.
/// CRATON_FIBER_SANITIZED: one of them.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define CRATON_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRATON_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CRATON_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CRATON_FIBER_TSAN 1
#endif
#endif
#if defined(CRATON_FIBER_ASAN) || defined(CRATON_FIBER_TSAN)
#define CRATON_FIBER_SANITIZED 1
#endif

/// On a function that one thread of control enters and another leaves: the thread sanitizer must not count
/// its calls.
#if !defined(CRATON_FIBER_TSAN)
#define CRATON_FIBER_CALLS_NOT_COUNTED
#elif defined(__clang__)
#define CRATON_FIBER_CALLS_NOT_COUNTED [[clang::disable_sanitizer_instrumentation]]
#else
#define CRATON_FIBER_CALLS_NOT_COUNTED [[gnu::no_sanitize_thread]]
#endif

/// On a function whose variables must outlive its stack in the address sanitizer's eyes, which may keep them
/// elsewhere.
#if defined(CRATON_FIBER_ASAN)
#define CRATON_FIBER_ON_REAL_STACK [[gnu::no_sanitize_address]]
#else
#define CRATON_FIBER_ON_REAL_STACK
#endif

#if defined(CRATON_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CRATON_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace craton::fiber {

/// What a sanitizer knows of one thread of control. The primitives make one for a context that they save;
/// whoever makes a new stack makes one for it, with start() before its first use and finish() once nothing
/// runs on it any more.
class SanitizerContext {
 public:
#if defined(CRATON_FIBER_TSAN)
  SanitizerContext() noexcept : thread_(__tsan_get_current_fiber()) {}
#else
  SanitizerContext() noexcept = default;
#endif

  /// For a new stack of `bytes` from `bottom` up.
  void start([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(CRATON_FIBER_ASAN)
    bottom_ = bottom;
    bytes_ = bytes;
    fake_stack_ = nullptr;
#endif
#if defined(CRATON_FIBER_TSAN)
    thread_ = __tsan_create_fiber(0);
#endif
  }
  void finish() noexcept {
#if defined(CRATON_FIBER_TSAN)
    __tsan_destroy_fiber(thread_);
    thread_ = nullptr;
#endif
  }

  // The rest is for the primitives: on the stack that is left just before, and on the next one just after a
  // switch.
  CRATON_FIBER_CALLS_NOT_COUNTED void leave_for([[maybe_unused]] SanitizerContext& next) noexcept {
#if defined(CRATON_FIBER_ASAN)
    __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.bytes_);
#endif
#if defined(CRATON_FIBER_TSAN)
    __tsan_switch_to_fiber(next.thread_, 0);
#endif
  }
  CRATON_FIBER_CALLS_NOT_COUNTED void leave_for_good([[maybe_unused]] SanitizerContext& next) noexcept {
#if defined(CRATON_FIBER_ASAN)
    __sanitizer_start_switch_fiber(nullptr, next.bottom_, next.bytes_);
#endif
#if defined(CRATON_FIBER_TSAN)
    __tsan_switch_to_fiber(next.thread_, 0);
#endif
  }
  void arrived([[maybe_unused]] SanitizerContext* left) noexcept {
#if defined(CRATON_FIBER_ASAN)
    // Also learns the bounds of a kernel thread's own stack, which nobody told us.
    __sanitizer_finish_switch_fiber(fake_stack_, &left->bottom_, &left->bytes_);
#endif
  }

 private:
#if defined(CRATON_FIBER_ASAN)
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
#endif
#if defined(CRATON_FIBER_TSAN)
  void* thread_ = nullptr;
#endif
};

}  // namespace craton::fiber
