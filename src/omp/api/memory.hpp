/// \file
/// Memory of the shared heap, for programs that ask OpenMP for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::omp::api {

/// omp_allocator_handle_t: one of the named ones, or the address of an Allocator.
using AllocatorHandle = std::uintptr_t;
inline constexpr AllocatorHandle null_allocator = 0;

/// \param alignment a power of two \returns null if there is none, and the allocator says so
void* allocate(std::size_t bytes, std::size_t alignment, AllocatorHandle allocator);
/// \param pointer from allocate(), or null
void release(void* pointer);

}  // namespace craton::omp::api
