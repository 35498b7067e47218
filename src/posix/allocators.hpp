/// \file
/// Allocators that a program brings itself, in the executable or in a library (jemalloc, tcmalloc, mimalloc):
/// the loader has everybody find their malloc before ours, the C library too, and their own code calls it
/// without the loader. So the first bytes of their functions become jumps to ours (allocation.cpp), which
/// tell by the caller what is to be shared.
///
/// Of an object that defines malloc, or TBB's scalable_malloc, all other functions of the family are replaced
/// that it has, and C++'s operators by the C++ library's, which call ours. What has names of its own
/// (mallocx, mi_malloc_aligned) stays: in the executable it allocates what mmap gives a program, shared
/// memory, too, but not what free() takes; programs that call it in a library are refused (job/program.hpp).
#pragma once

namespace craton::posix {

/// Before any constructor has run, on a rank's initial thread: what has been allocated before, nobody frees.
/// \throws Error where a function is too short to be overwritten, or memory cannot be mapped
void replace_allocators();

}  // namespace craton::posix
