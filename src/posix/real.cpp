#include "posix/real.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "base/signal_section.hpp"

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* pointer);
}

namespace craton::posix {

// The allocator must work before anything else does, so these are there when the loader has relocated.
constinit LibcAllocator libc_allocator{.malloc = &__libc_malloc,
                                       .calloc = &__libc_calloc,
                                       .realloc = &__libc_realloc,
                                       .memalign = &__libc_memalign,
                                       .free = &__libc_free};

}  // namespace craton::posix

using craton::posix::libc_allocator;

extern "C" {

// In sections: a handler of the program may make the runtime allocate.
void* __wrap_malloc(std::size_t bytes) {
  const craton::SignalSection section;
  return libc_allocator.malloc(bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  const craton::SignalSection section;
  return libc_allocator.calloc(count, bytes);
}
void* __wrap_realloc(void* pointer, std::size_t bytes) {
  const craton::SignalSection section;
  return libc_allocator.realloc(pointer, bytes);
}
void* __wrap_memalign(std::size_t alignment, std::size_t bytes) {
  const craton::SignalSection section;
  return libc_allocator.memalign(alignment, bytes);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  const craton::SignalSection section;
  return libc_allocator.memalign(alignment, bytes);
}
int __wrap_posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  const craton::SignalSection section;
  *pointer = libc_allocator.memalign(alignment, bytes);
  return *pointer == nullptr ? 12 : 0;  // ENOMEM
}
void __wrap_free(void* pointer) {
  const craton::SignalSection section;
  libc_allocator.free(pointer);
}

/// libstdc++ in this library reads it where it counts references. The program may have a copy of libc's in
/// its data, where a load can fault, while the runtime holds locks.
[[gnu::visibility("hidden")]] char __libc_single_threaded = 0;

// Constructors of libraries call ours before any code of this library has run: the first call finds the real
// ones.
#define CRATON_INTERPOSED(name)                                        \
  [[gnu::visibility("hidden")]] extern const char craton_first_##name; \
  [[gnu::visibility("hidden")]] void* craton_real_##name = const_cast<char*>(&craton_first_##name);
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}

#define CRATON_INTERPOSED(name)                                                                             \
  asm(".text\n.hidden craton_first_" #name "\n.type craton_first_" #name ", @function\ncraton_first_" #name \
      ":\n  endbr64\n  call craton_find_real_functions\n"                                                   \
      "  jmp *craton_real_" #name "(%rip)\n");
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED

// Keeps all that an argument may be in.
asm(R"(
.text
.type craton_find_real_functions, @function
craton_find_real_functions:
  push %rax
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  sub $136, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  call craton_find_them
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $136, %rsp
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  pop %rax
  ret
)");

// What the linker calls instead of the program's versions: a jump with all arguments as they are.
#define CRATON_INTERPOSED(name)                                                       \
  asm(".text\n.globl __wrap_" #name "\n.hidden __wrap_" #name "\n.type __wrap_" #name \
      ", @function\n__wrap_" #name ":\n  endbr64\n  jmp *craton_real_" #name "(%rip)\n");
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED

namespace {

void* find_real(const char* name) {
  void* found = ::dlsym(RTLD_NEXT, name);
  // Those for old programs only, which have no version that is looked for by default.
  if (found == nullptr) found = ::dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
  if (found != nullptr) return found;
  static_cast<void>(std::fprintf(stderr, "craton: cannot find %s in the C library of this program\n", name));
  std::abort();
}

}  // namespace

extern "C" [[gnu::visibility("hidden"), gnu::used]] void craton_find_them() {
#define CRATON_INTERPOSED(name) craton_real_##name = find_real(#name);
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}
