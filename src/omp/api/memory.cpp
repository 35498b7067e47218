/// \file
/// Allocators. All memory comes from the shared heap; of an allocator's traits, alignment, pool size and
/// fallback are kept, the others change nothing here.
///
///     allocation ─▶ ... │ Head │ what the program has
#include "omp/api/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "omp/api/api.hpp"

namespace craton::omp::api {

namespace {

constexpr AllocatorHandle default_allocator = 1;
constexpr AllocatorHandle last_named_allocator = 8;

// Keys and values of traits, as in <omp.h>.
enum Trait : std::uint32_t {
  sync_hint_trait = 1,
  alignment_trait = 2,
  access_trait = 3,
  pool_size_trait = 4,
  fallback_trait = 5,
  fb_data_trait = 6,
  pinned_trait = 7,
  partition_trait = 8
};
constexpr std::uintptr_t value_default = ~std::uintptr_t{0};
enum Fallback : std::uintptr_t { default_memory = 11, null_pointer = 12, abort_program = 13, other = 14 };

struct TraitPair {
  std::uint32_t key;
  std::uintptr_t value;
};

/// Whether a trait that changes nothing here has a value that there is.
bool makes_sense(const TraitPair& trait) noexcept {
  const auto is_between = [&](std::uintptr_t first, std::uintptr_t last) {
    return trait.value == value_default || (trait.value >= first && trait.value <= last);
  };
  switch (trait.key) {
    case sync_hint_trait:
      return is_between(3, 6);
    case access_trait:
      return is_between(7, 10);
    case pinned_trait:
      return is_between(0, 0);  // pinned memory is not to be had
    case partition_trait:
      return is_between(15, 18);
    default:
      return false;
  }
}

/// In the shared heap, so that it has the same address on all ranks.
struct Allocator {
  std::size_t alignment = 1;
  std::uint64_t pool_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uintptr_t fallback = default_memory;
  AllocatorHandle fallback_allocator = null_allocator;
  std::uint64_t used_bytes = 0;  ///< changed by atomic updates only
};

struct Head {
  void* begin;
  std::size_t bytes;        ///< asked for
  std::size_t whole_bytes;  ///< taken
  AllocatorHandle owner;    ///< an allocator of the program's; null: none
  bool is_shared;
};
constexpr std::size_t least_alignment = 16;
constexpr std::size_t head_bytes = (sizeof(Head) + least_alignment - 1) / least_alignment * least_alignment;

Head& head_of(void* pointer) noexcept {
  return *reinterpret_cast<Head*>(static_cast<std::byte*>(pointer) - head_bytes);
}

Allocator* custom(AllocatorHandle handle) noexcept {
  return handle > last_named_allocator ? reinterpret_cast<Allocator*>(handle) : nullptr;
}

/// Adds to what a pool has given away. \param back of what it has given, so many are given back with it
/// \returns false if it has not got so much
bool take_from_pool(Allocator& allocator, std::uint64_t bytes, std::uint64_t back) {
  bool fits = false;
  // Read before: with the word's block taken, a fault on what lies beside it would wait for itself.
  const std::uint64_t pool_bytes = allocator.pool_bytes;
  runtime()->guard([&] {
    runtime()->platform().space().update(&allocator.used_bytes, sizeof allocator.used_bytes,
                                         [&](std::byte* word) {
                                           std::uint64_t used = 0;
                                           std::memcpy(&used, word, sizeof used);
                                           const std::uint64_t rest = used - back;
                                           fits = rest + bytes >= rest && rest + bytes <= pool_bytes;
                                           if (fits) used = rest + bytes;
                                           std::memcpy(word, &used, sizeof used);
                                         });
  });
  return fits;
}

void give_to_pool(Allocator& allocator, std::uint64_t bytes) {
  runtime()->guard([&] {
    runtime()->platform().space().update(&allocator.used_bytes, sizeof allocator.used_bytes,
                                         [&](std::byte* word) {
                                           std::uint64_t used = 0;
                                           std::memcpy(&used, word, sizeof used);
                                           used -= bytes;
                                           std::memcpy(word, &used, sizeof used);
                                         });
  });
}

bool has_pool(const Allocator& allocator) noexcept {
  return allocator.pool_bytes != std::numeric_limits<std::uint64_t>::max();
}

/// Null if the heap is full.
void* allocate_raw(std::size_t bytes) {
  if (runtime() == nullptr) return std::malloc(bytes);
  try {
    return runtime()->platform().heap().allocate(bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_resources) return nullptr;
    runtime()->fail(error);
  }
}

/// \param back see take_from_pool
void* allocate_from(Allocator* allocator, std::size_t bytes, std::size_t alignment, std::size_t back = 0) {
  alignment = std::max({alignment, least_alignment, allocator != nullptr ? allocator->alignment : 1});
  const std::size_t whole = bytes + head_bytes + alignment - least_alignment;
  if (whole < bytes) return nullptr;
  const bool counts = allocator != nullptr && has_pool(*allocator);
  if (counts && !take_from_pool(*allocator, whole, back)) return nullptr;
  void* const begin = allocate_raw(whole);
  if (begin == nullptr) {
    if (counts) give_to_pool(*allocator, whole - back);
    return nullptr;
  }
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) + head_bytes;
  void* const pointer = reinterpret_cast<void*>((first + alignment - 1) / alignment * alignment);
  head_of(pointer) = {.begin = begin,
                      .bytes = bytes,
                      .whole_bytes = whole,
                      .owner = reinterpret_cast<AllocatorHandle>(allocator),
                      .is_shared = runtime() != nullptr};
  return pointer;
}

}  // namespace

void* allocate(std::size_t bytes, std::size_t alignment, AllocatorHandle handle) {
  if (handle == null_allocator) handle = icvs().default_allocator;
  Allocator* const allocator = custom(handle);
  void* const pointer = allocate_from(allocator, bytes, alignment);
  if (pointer != nullptr || allocator == nullptr) return pointer;
  if (allocator->fallback == default_memory) return allocate_from(nullptr, bytes, alignment);
  if (allocator->fallback == other) return allocate(bytes, alignment, allocator->fallback_allocator);
  if (allocator->fallback == abort_program)
    runtime()->platform().fail("an OpenMP allocator has no memory left, and its fallback is to abort");
  return nullptr;
}

void release(void* pointer) {
  if (pointer == nullptr) return;
  const Head head = head_of(pointer);
  if (!head.is_shared) return std::free(head.begin);
  if (head.owner != null_allocator && has_pool(*custom(head.owner)))
    give_to_pool(*custom(head.owner), head.whole_bytes);
  runtime()->guard([&] { runtime()->platform().heap().free(head.begin); });
}

CRATON_OMP void* omp_aligned_alloc(std::size_t alignment, std::size_t bytes, AllocatorHandle allocator) {
  return bytes == 0 ? nullptr : allocate(bytes, alignment, allocator);
}
CRATON_OMP void* omp_alloc(std::size_t bytes, AllocatorHandle allocator) {
  return omp_aligned_alloc(1, bytes, allocator);
}
CRATON_OMP void omp_free(void* pointer, AllocatorHandle /*allocator*/) {
  release(pointer);
}
CRATON_OMP void* omp_aligned_calloc(std::size_t alignment, std::size_t count, std::size_t each,
                                    AllocatorHandle allocator) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, each, &bytes)) return nullptr;
  void* const pointer = omp_aligned_alloc(alignment, bytes, allocator);
  if (pointer != nullptr) std::memset(pointer, 0, bytes);
  return pointer;
}
CRATON_OMP void* omp_calloc(std::size_t count, std::size_t each, AllocatorHandle allocator) {
  return omp_aligned_calloc(1, count, each, allocator);
}
CRATON_OMP void* omp_realloc(void* pointer, std::size_t bytes, AllocatorHandle allocator,
                             AllocatorHandle /*free_allocator*/) {
  if (pointer == nullptr) return omp_alloc(bytes, allocator);
  if (bytes == 0) {
    release(pointer);
    return nullptr;
  }
  Head& head = head_of(pointer);
  if (allocator == null_allocator) allocator = head.owner != null_allocator ? head.owner : default_allocator;
  void* moved = nullptr;
  if (allocator == head.owner && has_pool(*custom(allocator))) {
    // The pool need not have room for both at a time.
    moved = allocate_from(custom(allocator), bytes, 1, head.whole_bytes);
    if (moved != nullptr) head.owner = null_allocator;
  }
  if (moved == nullptr) moved = omp_alloc(bytes, allocator);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, pointer, std::min(bytes, head.bytes));
  release(pointer);
  return moved;
}

/// For `allocate` clauses and directives: never null.
CRATON_OMP void* GOMP_alloc(std::size_t alignment, std::size_t bytes, AllocatorHandle allocator) {
  void* const pointer = allocate(std::max<std::size_t>(bytes, 1), alignment, allocator);
  if (pointer == nullptr && runtime() != nullptr)
    runtime()->platform().fail(
        "cannot allocate what an OpenMP construct asks for: the shared heap is full; "
        "raise --heap-bytes");
  return pointer;
}
CRATON_OMP void GOMP_free(void* pointer, AllocatorHandle /*allocator*/) {
  release(pointer);
}

/// \returns 0 if a trait makes no sense
CRATON_OMP AllocatorHandle omp_init_allocator(AllocatorHandle memory_space, int count,
                                              const TraitPair* traits) {
  constexpr AllocatorHandle high_bandwidth = 3;
  constexpr AllocatorHandle last_space = 4;
  if (memory_space == high_bandwidth || memory_space > last_space) return null_allocator;
  Allocator allocator;
  for (int i = 0; i < count; ++i) {
    const std::uintptr_t value = traits[i].value;
    switch (traits[i].key) {
      case alignment_trait:
        if (value == value_default) break;
        if (value == 0 || (value & (value - 1)) != 0) return null_allocator;
        allocator.alignment = value;
        break;
      case pool_size_trait:
        if (value != value_default) allocator.pool_bytes = value;
        break;
      case fallback_trait:
        if (value != value_default) allocator.fallback = value;
        if (allocator.fallback < default_memory || allocator.fallback > other) return null_allocator;
        break;
      case fb_data_trait:
        allocator.fallback_allocator = value;
        break;
      default:
        if (!makes_sense(traits[i])) return null_allocator;
    }
  }
  if (runtime() == nullptr) return default_allocator;
  void* const memory = allocate_raw(sizeof allocator);
  if (memory == nullptr) return null_allocator;
  return reinterpret_cast<AllocatorHandle>(new (memory) Allocator(allocator));
}
CRATON_OMP void omp_destroy_allocator(AllocatorHandle handle) {
  if (Allocator* const allocator = custom(handle))
    runtime()->guard([&] { runtime()->platform().heap().free(allocator); });
}
CRATON_OMP void omp_set_default_allocator(AllocatorHandle handle) {
  icvs().default_allocator = handle == null_allocator ? default_allocator : handle;
}
CRATON_OMP AllocatorHandle omp_get_default_allocator() {
  return icvs().default_allocator;
}

// ---- Fortran

CRATON_OMP AllocatorHandle omp_init_allocator_(const AllocatorHandle* memory_space, const std::int32_t* count,
                                               const TraitPair* traits) {
  return omp_init_allocator(*memory_space, *count, traits);
}
CRATON_OMP AllocatorHandle omp_init_allocator_8_(const AllocatorHandle* memory_space,
                                                 const std::int64_t* count, const TraitPair* traits) {
  return omp_init_allocator(*memory_space, to_int(*count), traits);
}
CRATON_OMP void omp_destroy_allocator_(const AllocatorHandle* handle) {
  omp_destroy_allocator(*handle);
}
CRATON_OMP void omp_set_default_allocator_(const AllocatorHandle* handle) {
  omp_set_default_allocator(*handle);
}
CRATON_OMP AllocatorHandle omp_get_default_allocator_() {
  return omp_get_default_allocator();
}

}  // namespace craton::omp::api
