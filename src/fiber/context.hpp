/// \file
/// A stackful context: what a thread of control is while it does not run. `switch_to` is the only primitive;
/// it saves what the ABI says a call preserves (registers, floating-point control words) on the stack that is
/// left, and the C++ runtime's record of exceptions in flight, which belongs to a thread of control and not
/// to a kernel thread. AddressSanitizer and ThreadSanitizer are told of every switch.
///
/// Invariant: of the contexts that one kernel thread switches between, exactly one runs; every other one is
/// either new or suspended inside `switch_to`.
#pragma once

#include <cxxabi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fiber/sanitizer.hpp"
#include "fiber/stack.hpp"

#if defined(CRATON_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CRATON_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

extern "C" {
/// Pushes the preserved registers, stores the stack pointer to `*suspended`, loads `next` and pops.
[[gnu::visibility("hidden")]] void craton_fiber_switch(void** suspended, void* next) noexcept;
/// Where a new context starts: calls its entry with its argument.
[[gnu::visibility("hidden")]] void craton_fiber_start() noexcept;
}

// In a COMDAT section each, so that this header can be included in many files.
#if defined(__x86_64__)
//   suspended stack, from the stack pointer up: mxcsr + x87 control word, r15, r14, r13, r12, rbx, rbp,
//   return address
__asm__(R"(
  .pushsection .text.craton_fiber_switch,"axG",@progbits,craton_fiber_switch,comdat
  .weak craton_fiber_switch
  .hidden craton_fiber_switch
  .type craton_fiber_switch,@function
  .p2align 4
craton_fiber_switch:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pushq %r12
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r12, 0
  pushq %r13
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r13, 0
  pushq %r14
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r14, 0
  pushq %r15
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r15, 0
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
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
  retq
  .cfi_endproc
  .size craton_fiber_switch,.-craton_fiber_switch
  .popsection

  .pushsection .text.craton_fiber_start,"axG",@progbits,craton_fiber_start,comdat
  .weak craton_fiber_start
  .hidden craton_fiber_start
  .type craton_fiber_start,@function
  .p2align 4
craton_fiber_start:
  .cfi_startproc
  .cfi_undefined %rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
  .size craton_fiber_start,.-craton_fiber_start
  .popsection
)");
#elif defined(__aarch64__)
//   suspended stack, from the stack pointer up: x19 to x28, x29 (frame), x30 (return), d8 to d15, fpcr,
//   padding
__asm__(R"(
  .pushsection .text.craton_fiber_switch,"axG",@progbits,craton_fiber_switch,comdat
  .weak craton_fiber_switch
  .hidden craton_fiber_switch
  .type craton_fiber_switch,%function
  .p2align 4
craton_fiber_switch:
  .cfi_startproc
  hint #34
  sub sp, sp, #176
  .cfi_adjust_cfa_offset 176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  .cfi_rel_offset x29, 80
  .cfi_rel_offset x30, 88
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mrs x9, fpcr
  str x9, [sp, #160]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldr x9, [sp, #160]
  msr fpcr, x9
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
  .cfi_adjust_cfa_offset -176
  .cfi_restore x29
  .cfi_restore x30
  ret
  .cfi_endproc
  .size craton_fiber_switch,.-craton_fiber_switch
  .popsection

  .pushsection .text.craton_fiber_start,"axG",@progbits,craton_fiber_start,comdat
  .weak craton_fiber_start
  .hidden craton_fiber_start
  .type craton_fiber_start,%function
  .p2align 4
craton_fiber_start:
  .cfi_startproc
  .cfi_undefined x30
  hint #34
  mov x0, x19
  blr x20
  brk #1
  .cfi_endproc
  .size craton_fiber_start,.-craton_fiber_start
  .popsection
)");
#else
#error "fibers: no context switch for this architecture; add one beside those for x86-64 and AArch64"
#endif

namespace craton::fiber {

/// Neither moved nor copied: others hold its address. Used by one kernel thread.
class Context {
 public:
  using Entry = void (*)(void* argument);

  /// The context of the thread that constructs it, to switch back to.
  Context() noexcept {
#if defined(CRATON_FIBER_TSAN)
    tsan_fiber_ = __tsan_get_current_fiber();
#endif
  }

  /// A new context that will call `entry(argument)` when it is first switched to. `entry` must not return and
  /// must let no exception out; it ends with exit_to(). The stack must outlive the context.
  Context(const Stack& stack, Entry entry, void* argument) noexcept
      : entry_(entry), argument_(argument), stack_pointer_(first_frame(stack)) {
#if defined(CRATON_FIBER_ASAN)
    stack_bottom_ = stack.bottom();
    stack_bytes_ = stack.bytes();
#endif
#if defined(CRATON_FIBER_TSAN)
    tsan_fiber_ = __tsan_create_fiber(0);
#endif
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
#if defined(CRATON_FIBER_TSAN)
    if (entry_ != nullptr) __tsan_destroy_fiber(tsan_fiber_);
#endif
  }

  /// Suspends the caller, whose context this must be, and resumes `next`. Returns when somebody switches
  /// back.
  void switch_to(Context& next) noexcept {
    void* asan_fake_stack = nullptr;
    leave_for(next, &asan_fake_stack);
    arrived(asan_fake_stack);
  }

  /// Leaves the caller, whose context this must be, for good.
  [[noreturn]] void exit_to(Context& next) noexcept {
    leave_for(next, nullptr);
    __builtin_unreachable();
  }

 private:
  /// libstdc++'s and libc++abi's __cxa_eh_globals, laid down by the Itanium C++ ABI (section 2.2.2).
  struct ExceptionState {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };

  static void start(void* self) {
    auto* context = static_cast<Context*>(self);
    context->arrived(nullptr);
    context->entry_(context->argument_);
    __builtin_trap();
  }

  void* first_frame(const Stack& stack) noexcept {
#if defined(__x86_64__)
    constexpr std::size_t words = 10;
    std::uint64_t frame[words] = {};
    std::uint32_t mxcsr = 0;
    std::uint16_t x87_control = 0;
    __asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87_control));
    frame[0] = mxcsr | std::uint64_t{x87_control} << 32U;
    frame[3] = reinterpret_cast<std::uintptr_t>(&start);               // r13
    frame[4] = reinterpret_cast<std::uintptr_t>(this);                 // r12
    frame[7] = reinterpret_cast<std::uintptr_t>(&craton_fiber_start);  // return address; then 16-byte aligned
#else
    constexpr std::size_t words = 22;
    std::uint64_t frame[words] = {};
    __asm__("mrs %0, fpcr" : "=r"(frame[20]));
    frame[0] = reinterpret_cast<std::uintptr_t>(this);                  // x19
    frame[1] = reinterpret_cast<std::uintptr_t>(&start);                // x20
    frame[11] = reinterpret_cast<std::uintptr_t>(&craton_fiber_start);  // x30
#endif
    std::byte* lowest = stack.top() - sizeof frame;
    std::memcpy(lowest, frame, sizeof frame);
    return lowest;
  }

  void leave_for(Context& next, [[maybe_unused]] void** asan_fake_stack) noexcept {
    auto* exceptions = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
    exceptions_ = *exceptions;
    *exceptions = next.exceptions_;
#if defined(CRATON_FIBER_ASAN)
    next.came_from_ = this;
    __sanitizer_start_switch_fiber(asan_fake_stack, next.stack_bottom_, next.stack_bytes_);
#endif
#if defined(CRATON_FIBER_TSAN)
    __tsan_switch_to_fiber(next.tsan_fiber_, 0);
#endif
    craton_fiber_switch(&stack_pointer_, next.stack_pointer_);
  }

  void arrived([[maybe_unused]] void* asan_fake_stack) noexcept {
#if defined(CRATON_FIBER_ASAN)
    // Also learns the bounds of a kernel thread's own stack, which nobody told us.
    __sanitizer_finish_switch_fiber(asan_fake_stack, &came_from_->stack_bottom_, &came_from_->stack_bytes_);
#endif
  }

  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  void* stack_pointer_ = nullptr;
  ExceptionState exceptions_;
#if defined(CRATON_FIBER_ASAN)
  Context* came_from_ = nullptr;
  const void* stack_bottom_ = nullptr;
  std::size_t stack_bytes_ = 0;
#endif
#if defined(CRATON_FIBER_TSAN)
  void* tsan_fiber_ = nullptr;
#endif
};

}  // namespace craton::fiber
