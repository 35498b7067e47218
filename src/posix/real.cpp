#include "posix/real.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {

// The allocator must work before anything else does, and libc names its own for this.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* pointer, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* pointer);

void* __wrap_malloc(std::size_t bytes) {
  return __libc_malloc(bytes);
}
void* __wrap_calloc(std::size_t count, std::size_t bytes) {
  return __libc_calloc(count, bytes);
}
void* __wrap_realloc(void* pointer, std::size_t bytes) {
  return __libc_realloc(pointer, bytes);
}
void* __wrap_memalign(std::size_t alignment, std::size_t bytes) {
  return __libc_memalign(alignment, bytes);
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return __libc_memalign(alignment, bytes);
}
int __wrap_posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  *pointer = __libc_memalign(alignment, bytes);
  return *pointer == nullptr ? 12 : 0;  // ENOMEM
}
void __wrap_free(void* pointer) {
  __libc_free(pointer);
}

/// libstdc++ in this library reads it where it counts references. The program may have a copy of libc's in
/// its data, where a load can fault, while the runtime holds locks.
[[gnu::visibility("hidden")]] char __libc_single_threaded = 0;

#define CRATON_INTERPOSED(name) [[gnu::visibility("hidden")]] void* craton_real_##name = nullptr;
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}

// What the linker calls instead of the program's versions: a jump with all arguments as they are.
#define CRATON_INTERPOSED(name)                                                       \
  asm(".text\n.globl __wrap_" #name "\n.hidden __wrap_" #name "\n.type __wrap_" #name \
      ", @function\n__wrap_" #name ":\n  endbr64\n  jmp *craton_real_" #name "(%rip)\n");
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED

namespace craton::posix {

namespace {

void* find(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found != nullptr) return found;
  static_cast<void>(std::fprintf(stderr, "craton: cannot find %s in the C library of this program\n", name));
  std::abort();
}

}  // namespace

void find_real_functions() {
#define CRATON_INTERPOSED(name) craton_real_##name = find(#name);
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}

}  // namespace craton::posix
