/// \file
/// Memory that programs ask the runtime for: of the shared heap.
#include "omp/api/memory.hpp"

#include <algorithm>
#include <cstddef>

#include "omp/kmpc/abi.hpp"

namespace craton::omp::kmpc {

using api::AllocatorHandle;

extern "C" {
void* omp_aligned_alloc(std::size_t alignment, std::size_t bytes, AllocatorHandle allocator);
void* omp_calloc(std::size_t count, std::size_t each, AllocatorHandle allocator);
void* omp_realloc(void* pointer, std::size_t bytes, AllocatorHandle allocator,
                  AllocatorHandle free_allocator);
AllocatorHandle omp_init_allocator(AllocatorHandle memory_space, int count, const void* traits);
void omp_destroy_allocator(AllocatorHandle handle);
void omp_set_default_allocator(AllocatorHandle handle);
AllocatorHandle omp_get_default_allocator();
void* GOMP_alloc(std::size_t alignment, std::size_t bytes, AllocatorHandle allocator);
}

namespace {
constexpr AllocatorHandle usual = 1;  ///< omp_default_mem_alloc
}

/// For `allocate` clauses: never null.
CRATON_KMPC void* __kmpc_alloc(std::int32_t /*thread*/, std::size_t bytes, AllocatorHandle allocator) {
  return GOMP_alloc(alignof(std::max_align_t), bytes, allocator);
}
CRATON_KMPC void* __kmpc_aligned_alloc(std::int32_t /*thread*/, std::size_t alignment, std::size_t bytes,
                                       AllocatorHandle allocator) {
  return GOMP_alloc(alignment, bytes, allocator);
}
CRATON_KMPC void* __kmpc_calloc(std::int32_t /*thread*/, std::size_t count, std::size_t each,
                                AllocatorHandle allocator) {
  return omp_calloc(count, each, allocator);
}
CRATON_KMPC void* __kmpc_realloc(std::int32_t /*thread*/, void* pointer, std::size_t bytes,
                                 AllocatorHandle allocator, AllocatorHandle free_allocator) {
  return omp_realloc(pointer, bytes, allocator, free_allocator);
}
CRATON_KMPC void __kmpc_free(std::int32_t /*thread*/, void* pointer, AllocatorHandle /*allocator*/) {
  api::release(pointer);
}
CRATON_KMPC AllocatorHandle __kmpc_init_allocator(std::int32_t /*thread*/, AllocatorHandle memory_space,
                                                  int count, const void* traits) {
  return omp_init_allocator(memory_space, count, traits);
}
CRATON_KMPC void __kmpc_destroy_allocator(std::int32_t /*thread*/, AllocatorHandle handle) {
  omp_destroy_allocator(handle);
}
CRATON_KMPC void __kmpc_set_default_allocator(std::int32_t /*thread*/, AllocatorHandle handle) {
  omp_set_default_allocator(handle);
}
CRATON_KMPC AllocatorHandle __kmpc_get_default_allocator(std::int32_t /*thread*/) {
  return omp_get_default_allocator();
}

// ---- kmp_malloc and its like, in C and Fortran

CRATON_KMPC void* kmpc_malloc(std::size_t bytes) {
  return omp_aligned_alloc(alignof(std::max_align_t), bytes, usual);
}
CRATON_KMPC void* kmpc_aligned_malloc(std::size_t bytes, std::size_t alignment) {
  return omp_aligned_alloc(alignment, bytes, usual);
}
CRATON_KMPC void* kmpc_calloc(std::size_t count, std::size_t each) {
  return omp_calloc(count, each, usual);
}
CRATON_KMPC void* kmpc_realloc(void* pointer, std::size_t bytes) {
  return omp_realloc(pointer, bytes, usual, usual);
}
CRATON_KMPC void kmpc_free(void* pointer) {
  api::release(pointer);
}
CRATON_KMPC void* kmp_malloc(std::size_t bytes) {
  return kmpc_malloc(bytes);
}
CRATON_KMPC void* kmp_aligned_malloc(std::size_t bytes, std::size_t alignment) {
  return kmpc_aligned_malloc(bytes, alignment);
}
CRATON_KMPC void* kmp_calloc(std::size_t count, std::size_t each) {
  return kmpc_calloc(count, each);
}
CRATON_KMPC void* kmp_realloc(void* pointer, std::size_t bytes) {
  return kmpc_realloc(pointer, bytes);
}
CRATON_KMPC void kmp_free(void* pointer) {
  api::release(pointer);
}
CRATON_KMPC void* kmp_malloc_(const std::size_t* bytes) {
  return kmpc_malloc(*bytes);
}
CRATON_KMPC void* kmp_aligned_malloc_(const std::size_t* bytes, const std::size_t* alignment) {
  return kmpc_aligned_malloc(*bytes, *alignment);
}
CRATON_KMPC void* kmp_calloc_(const std::size_t* count, const std::size_t* each) {
  return kmpc_calloc(*count, *each);
}
CRATON_KMPC void* kmp_realloc_(void* const* pointer, const std::size_t* bytes) {
  return kmpc_realloc(*pointer, *bytes);
}
CRATON_KMPC void kmp_free_(void* const* pointer) {
  api::release(*pointer);
}

}  // namespace craton::omp::kmpc
