// Contexts (getcontext and its like) and jumps that restore a mask of signals. The C library has the kernel
// read and write masks in the program's own structures, which fails where these lie in shared memory that is
// not accessible at that moment (kernel_memory.hpp): a context is not entered, a mask not restored. Here the
// kernel has copies on the stack.
//
//     swapcontext(from, to) ──▶ from: the caller's registers, and the mask
//                           ──▶ copy of `to` ──▶ the real setcontext(copy)
//     the function of a context returns ──▶ craton_context_ends, in place of the C library's ──▶
//     setcontext(uc_link)
//
// A context goes on in the frame of whoever has saved it, not in one of ours that is gone by then: so what
// saves registers is no function of the compiler's.
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "posix/kernel_memory.hpp"
#include "posix/signals.hpp"

// NOLINTBEGIN(readability-identifier-naming): the names of the C library
extern "C" {
int __sigsetjmp(struct __jmp_buf_tag* place, int with_mask) noexcept;
[[noreturn]] void __longjmp_chk(struct __jmp_buf_tag* place, int value) noexcept;
[[gnu::visibility("hidden")]] extern const char craton_context_ends;
}
// NOLINTEND(readability-identifier-naming)

namespace {

using craton::posix::Mask;
using craton::posix::shared_program;
using craton::posix::SharedProgram;
using craton::posix::touch;

/// The stack may be the program's own, in shared memory, whose page another thread takes away at that moment.
constexpr int attempts_most = 64;

/// Of a caller: what it expects to be kept, as the functions below push them.
struct Registers {
  std::uint64_t r15, r14, r13, r12, rbx, rbp, rsp, rip;
};

void keep_floating_point(ucontext_t& context) noexcept {
  context.uc_mcontext.fpregs = &context.__fpregs_mem;
  // The environment's last word lies where mxcsr is to be.
  asm volatile("fnstenv %0\n fldenv %0" : "+m"(context.__fpregs_mem));
  asm volatile("stmxcsr %0" : "=m"(context.__fpregs_mem.mxcsr));
}

/// What the C library has a context's function return to.
std::uintptr_t find_end_of_contexts() noexcept {
  std::array<std::byte, 1024> stack;
  ucontext_t made{};
  made.uc_stack = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::makecontext(
      &made, [] {}, 0);
  return *reinterpret_cast<const std::uintptr_t*>(made.uc_mcontext.gregs[REG_RSP]);
}

/// A context that has been made and not run yet ends in ours.
void take_over_end(const ucontext_t& context) noexcept {
  static const std::uintptr_t theirs = find_end_of_contexts();
  auto* const end = reinterpret_cast<std::uintptr_t*>(context.uc_mcontext.gregs[REG_RSP]);
  if (*end == theirs) *end = reinterpret_cast<std::uintptr_t>(&craton_context_ends);
}

using Jump = void (*)(struct __jmp_buf_tag* place, int value);

/// \param real the C library's, which is told that there is no mask
[[noreturn]] void jump(Jump real, const struct __jmp_buf_tag* place, int value) {
  struct __jmp_buf_tag copy = *place;
  if (copy.__mask_was_saved != 0) CRATON_REAL(pthread_sigmask)(SIG_SETMASK, &copy.__saved_mask, nullptr);
  copy.__mask_was_saved = 0;
  real(&copy, value);
  __builtin_unreachable();
}

}  // namespace

extern "C" {

[[gnu::visibility("hidden"), gnu::used]] int craton_keep_context(ucontext_t* context,
                                                                 const Registers* registers) noexcept {
  greg_t* const kept = context->uc_mcontext.gregs;
  const auto keep = [&](int which, std::uint64_t value) { kept[which] = static_cast<greg_t>(value); };
  keep(REG_R12, registers->r12);
  keep(REG_R13, registers->r13);
  keep(REG_R14, registers->r14);
  keep(REG_R15, registers->r15);
  keep(REG_RBX, registers->rbx);
  keep(REG_RBP, registers->rbp);
  keep(REG_RSP, registers->rsp);
  keep(REG_RIP, registers->rip);
  keep_floating_point(*context);
  sigset_t mask{};
  CRATON_REAL(pthread_sigmask)(SIG_BLOCK, nullptr, &mask);
  context->uc_sigmask = mask;
  return 0;
}

[[gnu::visibility("default")]] int setcontext(const ucontext_t* context) noexcept {
  ucontext_t copy = *context;
  copy.uc_sigmask = *static_cast<const sigset_t*>(Mask(&context->uc_sigmask));
  take_over_end(copy);
  const int before = errno;
  for (int attempt = 1;; ++attempt) {
    touch(&copy, sizeof copy, false);
    static_cast<void>(CRATON_REAL(setcontext)(&copy));
    if (errno != EFAULT || attempt == attempts_most) return -1;
    errno = before;
  }
}

[[gnu::visibility("hidden"), gnu::used]] int craton_swap_context(ucontext_t* from, const ucontext_t* to,
                                                                 const Registers* registers) noexcept {
  craton_keep_context(from, registers);
  return setcontext(to);
}

/// \param next uc_link
[[gnu::visibility("hidden"), gnu::used]] void craton_end_context(const ucontext_t* next) noexcept {
  const int status = next == nullptr ? EXIT_SUCCESS : setcontext(next);
  SharedProgram* const program = shared_program();
  if (program != nullptr && program->rank() != 0) program->exit_on_first(status);
  if (program != nullptr) program->begin_exit();
  CRATON_REAL(exit)(status);
  __builtin_unreachable();
}

/// The real __sigsetjmp has the kernel write it.
[[gnu::visibility("hidden"), gnu::used]] void craton_touch_mask(const struct __jmp_buf_tag* place) noexcept {
  touch(place, sizeof *place, true);
}

[[gnu::visibility("default")]] void siglongjmp(struct __jmp_buf_tag* place, int value) noexcept {
  jump(CRATON_REAL(siglongjmp), place, value);
}
[[gnu::visibility("default")]] void longjmp(struct __jmp_buf_tag* place, int value) noexcept {
  jump(CRATON_REAL(longjmp), place, value);
}
// NOLINTBEGIN(readability-identifier-naming)
[[gnu::visibility("default")]] void _longjmp(struct __jmp_buf_tag* place, int value) noexcept {
  jump(CRATON_REAL(_longjmp), place, value);
}
[[gnu::visibility("default")]] void __longjmp_chk(struct __jmp_buf_tag* place, int value) noexcept {
  jump(CRATON_REAL(__longjmp_chk), place, value);
}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"

// The C library's makecontext leaves in rbx where it has put uc_link.
asm(R"(
.text
.macro craton_push_registers
  lea 8(%rsp), %rax
  push (%rsp)
  push %rax
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
.endm

.globl getcontext
.type getcontext, @function
getcontext:
  endbr64
  craton_push_registers
  mov %rsp, %rsi
  sub $8, %rsp
  call craton_keep_context
  add $72, %rsp
  ret
.size getcontext, . - getcontext

.globl swapcontext
.type swapcontext, @function
swapcontext:
  endbr64
  craton_push_registers
  mov %rsp, %rdx
  sub $8, %rsp
  call craton_swap_context
  add $72, %rsp
  ret
.size swapcontext, . - swapcontext

.hidden craton_context_ends
.globl craton_context_ends
.type craton_context_ends, @function
craton_context_ends:
  endbr64
  mov (%rbx), %rdi
  mov %rbx, %rsp
  and $-16, %rsp
  call craton_end_context
  hlt
.size craton_context_ends, . - craton_context_ends

.globl __sigsetjmp
.type __sigsetjmp, @function
__sigsetjmp:
  endbr64
  test %esi, %esi
  je 1f
  push %rdi
  push %rsi
  sub $8, %rsp
  call craton_touch_mask
  add $8, %rsp
  pop %rsi
  pop %rdi
1:
  jmp *craton_real___sigsetjmp(%rip)
.size __sigsetjmp, . - __sigsetjmp
)");
