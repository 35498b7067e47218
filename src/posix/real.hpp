/// \file
/// The C library's own versions of the functions that programs get from us (interposed.inc).
///
///     program ──▶ fopen ──▶ ours ──▶ CRATON_REAL(fopen) ──▶ libc
///     runtime ──▶ fopen ──(linker: --wrap)──▶ __wrap_fopen ──▶ libc
#pragma once

#include <cstddef>

extern "C" {
#define CRATON_INTERPOSED(name) extern void* craton_real_##name;
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}

/// A function pointer of the type of `name`. The first call of any finds them all, so it works also before
/// the program has started: constructors of libraries call us as well.
#define CRATON_REAL(name) (reinterpret_cast<decltype(&::name)>(craton_real_##name))

namespace craton::posix {

/// The C library's own allocator. Whom the loader finds by its names is another's where a program has one
/// that takes those as well: see replace_allocators(), which corrects this.
struct LibcAllocator {
  void* (*malloc)(std::size_t bytes);
  void* (*calloc)(std::size_t count, std::size_t bytes);
  void* (*realloc)(void* pointer, std::size_t bytes);
  void* (*memalign)(std::size_t alignment, std::size_t bytes);
  void (*free)(void* pointer);
};
extern LibcAllocator libc_allocator;

}  // namespace craton::posix
