/// \file
/// The five context primitives (dissertation, section 5.2.1). A *context* is a thread of control that does
/// not run: its preserved registers lie on its own stack, and a Continuation is where. Each primitive calls a
/// function *on top of* the context that goes on next, so that saving the one and whatever has to happen with
/// what was saved (putting it into a queue, unlocking a lock) are one step that nobody can come between.
///
/// A suspended stack, from the continuation up:
///   x86-64    mxcsr + x87 control word, r15, r14, r13, r12, rbx, rbp, return address
///   AArch64   x19 to x28, x29, x30, d8 to d15, fpcr, padding
///
/// Saved is what the ABI says a call preserves: registers and floating-point control words (the latter are
/// loaded only when they differ). Exceptions in flight belong to a thread of control too: ExceptionState, for
/// the caller to keep. Neither the signal mask nor thread-local storage is switched.
///
/// Invariant: a continuation is resumed once. The function on top must not touch what lies on the stack that
/// was left after it has shown the continuation to others, since that stack may run again at once.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "fiber/sanitizer.hpp"

extern "C" {
/// Saves the caller, calls `on_top(saved, argument)` on the stack of `next`, and resumes `next`, where the
/// call of a primitive that suspended it returns what `on_top` returned.
[[gnu::visibility("hidden")]] void* craton_fiber_swap(void* next,
                                                      void* (*on_top)(void* saved, void* argument),
                                                      void* argument) noexcept;
/// The same, but resumes the caller at once when `on_top` returns null.
[[gnu::visibility("hidden")]] void* craton_fiber_cond_swap(void* next,
                                                           void* (*on_top)(void* saved, void* argument),
                                                           void* argument) noexcept;
/// Saves the caller and calls `on_top(saved, argument)` on a new stack; resumes the context that it returns,
/// where the result is null then.
[[gnu::visibility("hidden")]] void* craton_fiber_save(void* stack_top,
                                                      void* (*on_top)(void* saved, void* argument),
                                                      void* argument) noexcept;
/// Abandons the caller, calls `on_top(null, argument)` on the stack of `next`, and resumes `next`.
[[noreturn, gnu::visibility("hidden")]] void craton_fiber_restore(
    void* next, void* (*on_top)(void* saved, void* argument), void* argument) noexcept;
/// Where a made context starts: calls its entry with its argument and what the primitive returned.
[[gnu::visibility("hidden")]] void craton_fiber_start() noexcept;
}

// In a COMDAT section each, so that this header can be included in many files.
#if defined(__x86_64__)
__asm__(R"(
  .macro CRATON_FIBER_FUNCTION name
  .pushsection .text.\name,"axG",@progbits,\name,comdat
  .weak \name
  .hidden \name
  .type \name,@function
  .p2align 4
\name:
  .cfi_startproc
  .endm
  .macro CRATON_FIBER_END name
  .cfi_endproc
  .size \name,.-\name
  .popsection
  .endm
  .macro CRATON_FIBER_PUSH
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  .endm
  .macro CRATON_FIBER_FRAME  # what the unwinder has to know while a whole frame lies at %rsp
  .cfi_def_cfa %rsp, 64
  .cfi_offset %rip, -8
  .cfi_offset %rbp, -16
  .cfi_offset %rbx, -24
  .cfi_offset %r12, -32
  .cfi_offset %r13, -40
  .cfi_offset %r14, -48
  .cfi_offset %r15, -56
  .endm
  .macro CRATON_FIBER_CONTROL_WORDS from, to  # loads those of \to if they differ; the exception flags do not count
  movl (\from), %eax
  xorl (\to), %eax
  andl $0xffffffc0, %eax
  movzwl 4(\from), %r8d
  xorw 4(\to), %r8w
  movzwl %r8w, %r8d
  orl %r8d, %eax
  jz 1f
  ldmxcsr (\to)
  fldcw 4(\to)
1:
  .endm
  .macro CRATON_FIBER_POP_REGISTERS  # keeps %rax
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %r15
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r15
  popq %r14
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r14
  popq %r13
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r13
  popq %r12
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r12
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  .endm
  .macro CRATON_FIBER_POP  # keeps %rax
  CRATON_FIBER_POP_REGISTERS
  # Not a return: the processor predicts those by the calls on the stack that was left.
  popq %rcx
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rcx
  jmpq *%rcx
  .endm

  CRATON_FIBER_FUNCTION craton_fiber_swap
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  movq %rsp, %rcx
  CRATON_FIBER_CONTROL_WORDS %rcx, %rdi
  movq %rdi, %rsp
  movq %rsi, %rax
  movq %rcx, %rdi
  movq %rdx, %rsi
  callq *%rax
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_swap

  CRATON_FIBER_FUNCTION craton_fiber_cond_swap
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  movq %rsp, %rbx
  movq %rsi, %rax
  movq %rdx, %rsi
  movq %rdi, %rsp
  movq %rbx, %rdi
  callq *%rax
  testq %rax, %rax
  jz 2f
  movq %rax, %rcx
  CRATON_FIBER_CONTROL_WORDS %rbx, %rsp
  movq %rcx, %rax
  jmp 3f
2:
  movq %rbx, %rsp
3:
  CRATON_FIBER_POP_REGISTERS
  retq  # where all suspend at one place in the code, this and the returns after it are what the processor expects
  CRATON_FIBER_END craton_fiber_cond_swap

  CRATON_FIBER_FUNCTION craton_fiber_save
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  movq %rsp, %rcx
  movq %rsi, %rax
  movq %rdx, %rsi
  movq %rdi, %rsp
  movq %rcx, %rdi
  .cfi_undefined %rip  # nothing below on the new stack: here a backtrace ends
  callq *%rax
  movq %rax, %rsp
  CRATON_FIBER_FRAME
  stmxcsr -16(%rsp)
  fnstcw -12(%rsp)
  leaq -16(%rsp), %rcx
  CRATON_FIBER_CONTROL_WORDS %rcx, %rsp
  xorl %eax, %eax
  CRATON_FIBER_POP_REGISTERS
  retq  # most often to who called: then all returns up to here were those that the processor expected
  CRATON_FIBER_END craton_fiber_save

  CRATON_FIBER_FUNCTION craton_fiber_restore
  stmxcsr -16(%rdi)
  fnstcw -12(%rdi)
  leaq -16(%rdi), %rcx
  CRATON_FIBER_CONTROL_WORDS %rcx, %rdi
  movq %rdi, %rsp
  CRATON_FIBER_FRAME
  movq %rsi, %rax
  movq %rdx, %rsi
  xorl %edi, %edi
  callq *%rax
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_restore

  CRATON_FIBER_FUNCTION craton_fiber_start
  .cfi_undefined %rip
  movq %rax, %rdi
  movq %r12, %rsi
  callq *%r13
  ud2
  CRATON_FIBER_END craton_fiber_start

  .purgem CRATON_FIBER_FUNCTION
  .purgem CRATON_FIBER_END
  .purgem CRATON_FIBER_PUSH
  .purgem CRATON_FIBER_FRAME
  .purgem CRATON_FIBER_CONTROL_WORDS
  .purgem CRATON_FIBER_POP_REGISTERS
  .purgem CRATON_FIBER_POP
)");
#elif defined(__aarch64__)
__asm__(R"(
  .macro CRATON_FIBER_FUNCTION name
  .pushsection .text.\name,"axG",@progbits,\name,comdat
  .weak \name
  .hidden \name
  .type \name,%function
  .p2align 4
\name:
  .cfi_startproc
  hint #34
  .endm
  .macro CRATON_FIBER_END name
  .cfi_endproc
  .size \name,.-\name
  .popsection
  .endm
  .macro CRATON_FIBER_PUSH
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mrs x9, fpcr
  str x9, [sp, #160]
  .endm
  .macro CRATON_FIBER_FRAME
  .cfi_def_cfa sp, 176
  .cfi_offset x19, -176
  .cfi_offset x20, -168
  .cfi_offset x21, -160
  .cfi_offset x22, -152
  .cfi_offset x23, -144
  .cfi_offset x24, -136
  .cfi_offset x25, -128
  .cfi_offset x26, -120
  .cfi_offset x27, -112
  .cfi_offset x28, -104
  .cfi_offset x29, -96
  .cfi_offset x30, -88
  .endm
  .macro CRATON_FIBER_POP  // keeps x0
  mrs x10, fpcr
  ldr x9, [sp, #160]
  cmp x9, x10
  b.eq 1f
  msr fpcr, x9
1:
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  .cfi_def_cfa_offset 0
  .cfi_restore x29
  .cfi_restore x30
  ret
  .endm

  CRATON_FIBER_FUNCTION craton_fiber_swap
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  mov x9, sp
  mov sp, x0
  mov x10, x1
  mov x0, x9
  mov x1, x2
  blr x10
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_swap

  CRATON_FIBER_FUNCTION craton_fiber_cond_swap
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  mov x19, sp
  mov sp, x0
  mov x10, x1
  mov x0, x19
  mov x1, x2
  blr x10
  cbnz x0, 2f
  mov sp, x19
2:
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_cond_swap

  CRATON_FIBER_FUNCTION craton_fiber_save
  CRATON_FIBER_PUSH
  CRATON_FIBER_FRAME
  mov x9, sp
  mov sp, x0
  mov x10, x1
  mov x0, x9
  mov x1, x2
  .cfi_undefined x30
  blr x10
  mov sp, x0
  mov x0, #0
  CRATON_FIBER_FRAME
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_save

  CRATON_FIBER_FUNCTION craton_fiber_restore
  mov sp, x0
  CRATON_FIBER_FRAME
  mov x10, x1
  mov x0, #0
  mov x1, x2
  blr x10
  CRATON_FIBER_POP
  CRATON_FIBER_END craton_fiber_restore

  CRATON_FIBER_FUNCTION craton_fiber_start
  .cfi_undefined x30
  mov x1, x19
  blr x20
  brk #1
  CRATON_FIBER_END craton_fiber_start

  .purgem CRATON_FIBER_FUNCTION
  .purgem CRATON_FIBER_END
  .purgem CRATON_FIBER_PUSH
  .purgem CRATON_FIBER_FRAME
  .purgem CRATON_FIBER_POP
)");
#else
#error "fibers: no context switch for this architecture; add one beside those for x86-64 and AArch64"
#endif

namespace craton::fiber {

/// A suspended context, or none. A value: copying it does not copy the context.
struct Continuation {
  void* frame = nullptr;  ///< the lowest saved word
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext* sanitizer = nullptr;  ///< on the stack of the context, or in its maker's care
#endif
  explicit operator bool() const noexcept {
    return frame != nullptr;
  }
};

namespace detail {

/// What the function on top is told, on the stack that is left. `on_top` must be copied or done with before
/// the continuation is shown to others.
template <typename OnTop>
struct Switch {
  OnTop* on_top;
  Continuation next;
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext* left;
#endif
};

template <typename OnTop>
Continuation continuation_of(void* frame, [[maybe_unused]] const Switch<OnTop>& how) noexcept {
#if defined(CRATON_FIBER_SANITIZED)
  return {frame, how.left};
#else
  return {frame};
#endif
}

template <typename OnTop>
CRATON_FIBER_CALLS_NOT_COUNTED void* on_top_of_next(void* saved, void* argument) noexcept {
  auto& how = *static_cast<Switch<OnTop>*>(argument);
#if defined(CRATON_FIBER_SANITIZED)
  how.next.sanitizer->arrived(how.left);
#endif
  return (*how.on_top)(continuation_of(saved, how));
}

template <typename OnTop>
CRATON_FIBER_CALLS_NOT_COUNTED void* maybe_on_top_of_next(void* saved, void* argument) noexcept {
  auto& how = *static_cast<Switch<OnTop>*>(argument);
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext* const next = how.next.sanitizer;
  SanitizerContext* const left = how.left;
  next->arrived(left);
  void* const result = (*how.on_top)(continuation_of(saved, how));
  if (result == nullptr) next->leave_for(*left);
  return result;
#else
  return (*how.on_top)(continuation_of(saved, how));
#endif
}

template <typename OnTop>
CRATON_FIBER_CALLS_NOT_COUNTED void* on_top_of_new(void* saved, void* argument) noexcept {
  auto& how = *static_cast<Switch<OnTop>*>(argument);
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext* const here = how.next.sanitizer;
  SanitizerContext* const left = how.left;
  here->arrived(left);
  (*how.on_top)(continuation_of(saved, how));
  here->leave_for_good(*left);
#else
  (*how.on_top)(continuation_of(saved, how));
#endif
  return saved;
}

}  // namespace detail

/// Suspends the caller and resumes `next`. On top of it, before, calls `on_top(saved)`, `saved` being the
/// caller's Continuation; its result, a `void*`, is what the primitive that suspended `next` returns there.
/// Any thread; `next` may have been suspended on another. Costs a few ns.
template <typename OnTop>
[[gnu::always_inline]] inline void* swap_context(Continuation next, OnTop&& on_top) noexcept {
  using Function = std::remove_reference_t<OnTop>;
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext here;
  detail::Switch<Function> how{std::addressof(on_top), next, &here};
  here.leave_for(*next.sanitizer);
  return craton_fiber_swap(next.frame, &detail::on_top_of_next<Function>, &how);
#else
  detail::Switch<Function> how{std::addressof(on_top), next};
  return craton_fiber_swap(next.frame, &detail::on_top_of_next<Function>, &how);
#endif
}

/// As swap_context(), but when `on_top` returns null the caller goes on as if nothing had been, `next` stays
/// suspended, and the result is null. So a lock can be taken when it turns out to be free while the caller is
/// being suspended.
template <typename OnTop>
[[gnu::always_inline]] inline void* cond_swap_context(Continuation next, OnTop&& on_top) noexcept {
  using Function = std::remove_reference_t<OnTop>;
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext here;
  detail::Switch<Function> how{std::addressof(on_top), next, &here};
  here.leave_for(*next.sanitizer);
  void* const result = craton_fiber_cond_swap(next.frame, &detail::maybe_on_top_of_next<Function>, &how);
  if (result == nullptr) here.arrived(next.sanitizer);
  return result;
#else
  detail::Switch<Function> how{std::addressof(on_top), next};
  return craton_fiber_cond_swap(next.frame, &detail::maybe_on_top_of_next<Function>, &how);
#endif
}

/// Suspends the caller and calls `on_top(saved)` on a new stack. If that returns, the caller goes on, which
/// it must not have done yet, and the result is null. Else `on_top` leaves by restore_context(), somebody
/// resumes `saved`, and the result is what the function on top of it returned, which then must not be null.
/// \param stack_top one past the highest byte, aligned to 16
/// \param sanitizer of the new stack, see SanitizerContext; lives as long as the stack is used
template <typename OnTop>
[[gnu::always_inline]] inline void* save_context(
    void* stack_top, OnTop&& on_top, [[maybe_unused]] SanitizerContext* sanitizer = nullptr) noexcept {
  using Function = std::remove_reference_t<OnTop>;
#if defined(CRATON_FIBER_SANITIZED)
  SanitizerContext here;
  detail::Switch<Function> how{std::addressof(on_top), {stack_top, sanitizer}, &here};
  here.leave_for(*sanitizer);
  void* const result = craton_fiber_save(stack_top, &detail::on_top_of_new<Function>, &how);
  if (result == nullptr) here.arrived(sanitizer);
  return result;
#else
  detail::Switch<Function> how{std::addressof(on_top), {stack_top}};
  return craton_fiber_save(stack_top, &detail::on_top_of_new<Function>, &how);
#endif
}

/// Abandons the caller for good and resumes `next`, with `on_top()` called on top of it; its result, a
/// `void*`, is what the primitive that suspended `next` returns there. Nothing of the caller's stack is
/// destroyed. \param on_top copied; must refer to nothing on the caller's stack \param sanitizer the
/// caller's, as given to save_context() or make_context()
template <typename OnTop>
[[noreturn]] CRATON_FIBER_ON_REAL_STACK void restore_context(
    Continuation next, const OnTop& on_top, [[maybe_unused]] SanitizerContext* sanitizer = nullptr) noexcept {
  auto without_saved = [copy = on_top](Continuation) -> void* { return copy(); };
  using Function = decltype(without_saved);
#if defined(CRATON_FIBER_SANITIZED)
  detail::Switch<Function> how{&without_saved, next, sanitizer};
  sanitizer->leave_for_good(*next.sanitizer);
  craton_fiber_restore(next.frame, &detail::on_top_of_next<Function>, &how);
#else
  detail::Switch<Function> how{&without_saved, next};
  craton_fiber_restore(next.frame, &detail::on_top_of_next<Function>, &how);
#endif
}

/// Prepares a context that, once resumed, calls `entry(value, argument)`: `value` is what the function on top
/// returned. `entry` must not return (it leaves by restore_context()) and lets no exception out. Does not
/// switch. \param stack_top one past the highest byte, aligned to 16 \param sanitizer as for save_context()
inline Continuation make_context(void* stack_top, void (*entry)(void* value, void* argument), void* argument,
                                 [[maybe_unused]] SanitizerContext* sanitizer = nullptr) noexcept {
#if defined(__x86_64__)
  std::uint64_t frame[8] = {};
  std::uint32_t mxcsr = 0;
  std::uint16_t x87_control = 0;
  __asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87_control));
  frame[0] = mxcsr | std::uint64_t{x87_control} << 32U;
  frame[3] = reinterpret_cast<std::uintptr_t>(entry);                // r13
  frame[4] = reinterpret_cast<std::uintptr_t>(argument);             // r12
  frame[7] = reinterpret_cast<std::uintptr_t>(&craton_fiber_start);  // return address; then 16-byte aligned
#else
  std::uint64_t frame[22] = {};
  __asm__("mrs %0, fpcr" : "=r"(frame[20]));
  frame[0] = reinterpret_cast<std::uintptr_t>(argument);              // x19
  frame[1] = reinterpret_cast<std::uintptr_t>(entry);                 // x20
  frame[11] = reinterpret_cast<std::uintptr_t>(&craton_fiber_start);  // x30
#endif
  std::byte* const lowest = static_cast<std::byte*>(stack_top) - sizeof frame;
  std::memcpy(lowest, frame, sizeof frame);
#if defined(CRATON_FIBER_SANITIZED)
  return {lowest, sanitizer};
#else
  return {lowest};
#endif
}

/// The C++ runtime's record of exceptions in flight (__cxa_eh_globals of libstdc++ and libc++abi, laid down
/// by the Itanium C++ ABI, section 2.2.2). It is kept for each kernel thread, but belongs to a thread of
/// control: whoever suspends inside a catch block takes it along.
///
///   ExceptionState mine = ExceptionState::of_thread()->take();
///   swap_context(...);
///   mine.put_back();
class ExceptionState {
 public:
  /// Takes it, and leaves it empty.
  ExceptionState take() noexcept {
    if (caught_ == nullptr && uncaught_ == 0) return {};
    return std::exchange(*this, {});
  }
  /// Makes it the calling kernel thread's, whose own must be empty.
  void put_back() const noexcept {
    if (caught_ != nullptr || uncaught_ != 0) *of_thread() = *this;
  }

  /// The calling kernel thread's, as long as it lives.
  // Not inlined: the address is that of the kernel thread, which may be another after a switch.
  [[gnu::noinline]] static ExceptionState* of_thread() noexcept {
    __asm__ volatile("" ::: "memory");
    return reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
  }

 private:
  void* caught_ = nullptr;
  unsigned int uncaught_ = 0;
};

}  // namespace craton::fiber
