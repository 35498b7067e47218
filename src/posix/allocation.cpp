// The malloc family: what the program allocates comes from the heap of the space, what the C library
// allocates for itself from its own. Which one a pointer belongs to its address tells.
//
// All of it in sections (base/signal_section.hpp): the runtime allocates where a handler makes it publish.
// Before the program starts, in the constructors of libraries, everything is the C library's.
#include <unwind.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/allocation.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"
#include "posix/streams.hpp"

namespace {

using craton::posix::libc_allocator;
using craton::posix::shared_program;
using craton::posix::SharedProgram;
using craton::space::Heap;

/// The program, if what the caller allocates is to be shared.
inline SharedProgram* sharing(const void* caller) noexcept {
  SharedProgram* const program = shared_program();
  if (program == nullptr || !program->allocates_privately(caller)) return program;
  return craton::posix::ProgramAllocations::now() ? program : nullptr;
}

/// The program, if the pointer is one of its heaps.
inline SharedProgram* owner_of(const void* pointer) noexcept {
  SharedProgram* const program = shared_program();
  return program != nullptr && program->heap_of(pointer) != nullptr ? program : nullptr;
}

/// For the C library itself.
void* allocate_privately(std::size_t bytes) noexcept {
  if (craton::posix::OpeningStream::now()) [[unlikely]] {
    if (void* const stream = craton::posix::stream_memory().allocate(bytes)) return stream;
  }
  return libc_allocator.malloc(bytes);
}

void free_privately(void* pointer) noexcept {
  if (craton::posix::stream_memory().owns(pointer)) return craton::posix::stream_memory().free(pointer);
  libc_allocator.free(pointer);
}

/// Null, with errno, where there is none.
Heap::Fresh allocate_fresh(SharedProgram& program, std::size_t bytes) noexcept {
  try {
    return program.allocate(bytes);
  } catch (const craton::Error& error) {
    if (error.code() != craton::ErrorCode::out_of_resources) program.fail(error.what());
  } catch (const std::bad_alloc&) {
  }
  errno = ENOMEM;
  return {.begin = nullptr, .is_zero = false};
}

/// For the report of sharing: who has asked for memory. Behind operator new and the like it is the first
/// caller that is the program's own code. Small blocks share pages, and so does what is told of them.
[[gnu::cold, gnu::noinline]] void note_allocation(SharedProgram& program, const void* begin,
                                                  std::size_t bytes, const void* caller) noexcept {
  struct Search {
    SharedProgram& program;
    const void* found;
  } search{program, program.is_own_code(caller) ? caller : nullptr};
  const auto look = [](_Unwind_Context* context, void* to) {
    auto& in = *static_cast<Search*>(to);
    const auto* const at = reinterpret_cast<const void*>(_Unwind_GetIP(context));
    if (!in.program.is_own_code(at)) return _URC_NO_REASON;
    in.found = at;
    return _URC_END_OF_STACK;
  };
  if (search.found == nullptr) _Unwind_Backtrace(look, &search);
  craton::events::note(craton::events::Kind::allocation, begin, bytes,
                       search.found != nullptr ? search.found : caller);
}

constexpr std::size_t noted_bytes = 64;  ///< smaller allocations are not told of

/// \param caller whose the memory is
inline void note_if_wanted(SharedProgram& program, const void* begin, std::size_t bytes,
                           const void* caller) noexcept {
  if (craton::events::wants(craton::events::sharing) && begin != nullptr && bytes >= noted_bytes) [[unlikely]]
    note_allocation(program, begin, bytes, caller);
}

void* allocate(SharedProgram& program, std::size_t bytes, const void* caller) noexcept {
  void* const begin = allocate_fresh(program, bytes).begin;
  note_if_wanted(program, begin, bytes, caller);
  return begin;
}

/// The allocation that a pointer is, or (where it was aligned) lies in.
Heap::Allocation allocation_of(SharedProgram& program, const void* pointer, const char* asked) noexcept {
  try {
    if (const std::optional<Heap::Allocation> found = program.heap_of(pointer)->find(pointer)) return *found;
  } catch (const craton::Error& error) {
    program.fail(error.what());
  }
  program.fail(std::string(asked) + ": the pointer is no allocation of the shared heap, or has been freed");
}

std::size_t usable_bytes(SharedProgram& program, const void* pointer) noexcept {
  const Heap::Allocation found = allocation_of(program, pointer, "realloc()");
  return static_cast<std::size_t>(found.begin + found.bytes - static_cast<const std::byte*>(pointer));
}

/// What the heap aligns to by itself.
constexpr std::size_t usual_alignment = 64;
/// The largest power of two.
constexpr std::size_t alignment_most = SIZE_MAX / 2 + 1;

/// \param program null: for the C library itself
void* allocate_aligned(SharedProgram* program, std::size_t alignment, std::size_t bytes,
                       const void* caller) noexcept {
  const craton::SignalSection section;
  if (program == nullptr) return libc_allocator.memalign(alignment, bytes);
  if (alignment <= 16) return allocate(*program, bytes, caller);
  if (alignment <= usual_alignment) return allocate(*program, std::max(bytes, usual_alignment), caller);
  if (alignment > alignment_most) {
    errno = EINVAL;
    return nullptr;
  }
  // As in the C library, which takes any alignment: only so does release() know what may lie inside.
  const std::size_t whole = std::bit_ceil(alignment);
  if (bytes > SIZE_MAX - whole) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const pointer = allocate(*program, bytes + whole, caller);
  if (pointer == nullptr) return nullptr;
  return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(pointer) + whole - 1) / whole * whole);
}

void release(SharedProgram& program, void* pointer) noexcept {
  const bool may_be_inside = reinterpret_cast<std::uintptr_t>(pointer) % (2 * usual_alignment) == 0;
  void* const begin = may_be_inside ? allocation_of(program, pointer, "free()").begin : pointer;
  try {
    program.heap_of(begin)->free(begin);
  } catch (const craton::Error& error) {
    program.fail(error.what());
  }
}

void* reallocate(void* pointer, std::size_t bytes, const void* caller) {
  const craton::SignalSection section;
  if (pointer == nullptr) {
    SharedProgram* const program = sharing(caller);
    // No stream: those do not grow, as popen's list of what its child is to close does.
    return program == nullptr ? libc_allocator.malloc(bytes) : allocate(*program, bytes, caller);
  }
  SharedProgram* const program = owner_of(pointer);
  if (program == nullptr) return libc_allocator.realloc(pointer, bytes);
  if (bytes == 0) {
    release(*program, pointer);
    return nullptr;
  }
  const std::size_t before = usable_bytes(*program, pointer);
  if (bytes <= before && bytes >= before / 2) return pointer;
  void* const moved = allocate(*program, bytes, caller);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, pointer, std::min(before, bytes));
  release(*program, pointer);
  return moved;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) {
  const craton::SignalSection section;
  SharedProgram* const program = sharing(__builtin_return_address(0));
  return program == nullptr ? allocate_privately(bytes)
                            : allocate(*program, bytes, __builtin_return_address(0));
}

[[gnu::visibility("default")]] void free(void* pointer) {
  if (pointer == nullptr) return;
  const craton::SignalSection section;
  SharedProgram* const program = owner_of(pointer);
  if (program == nullptr) return free_privately(pointer);
  const craton::KeptErrno kept;
  release(*program, pointer);
}

[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes) {
  const craton::SignalSection section;
  SharedProgram* const program = sharing(__builtin_return_address(0));
  if (program == nullptr) return libc_allocator.calloc(count, bytes);
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  const Heap::Fresh fresh = allocate_fresh(*program, all);
  note_if_wanted(*program, fresh.begin, all, __builtin_return_address(0));
  if (fresh.begin != nullptr && !fresh.is_zero) std::memset(fresh.begin, 0, all);
  return fresh.begin;
}

[[gnu::visibility("default")]] void* realloc(void* pointer, std::size_t bytes) {
  return reallocate(pointer, bytes, __builtin_return_address(0));
}

[[gnu::visibility("default")]] void* reallocarray(void* pointer, std::size_t count,
                                                  std::size_t bytes) noexcept {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) {
    errno = ENOMEM;
    return nullptr;
  }
  return reallocate(pointer, all, __builtin_return_address(0));
}

[[gnu::visibility("default")]] void* memalign(std::size_t alignment, std::size_t bytes) {
  return allocate_aligned(sharing(__builtin_return_address(0)), alignment, bytes,
                          __builtin_return_address(0));
}

[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocate_aligned(sharing(__builtin_return_address(0)), alignment, bytes,
                          __builtin_return_address(0));
}

[[gnu::visibility("default")]] void* valloc(std::size_t bytes) {
  return allocate_aligned(sharing(__builtin_return_address(0)), craton::posix::page_bytes, bytes,
                          __builtin_return_address(0));
}

[[gnu::visibility("default")]] void* pvalloc(std::size_t bytes) {
  const std::size_t pages = craton::posix::page_up(bytes);
  if (pages < bytes) {
    errno = ENOMEM;
    return nullptr;
  }
  return allocate_aligned(sharing(__builtin_return_address(0)), craton::posix::page_bytes, pages,
                          __builtin_return_address(0));
}

[[gnu::visibility("default")]] int posix_memalign(void** pointer, std::size_t alignment, std::size_t bytes) {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  const int before = errno;
  void* const got =
      allocate_aligned(sharing(__builtin_return_address(0)), alignment, bytes, __builtin_return_address(0));
  errno = before;
  if (got == nullptr) return ENOMEM;
  *pointer = got;
  return 0;
}

[[gnu::visibility("default")]] std::size_t malloc_usable_size(void* pointer) noexcept {
  if (pointer == nullptr) return 0;
  if (SharedProgram* const program = owner_of(pointer)) return usable_bytes(*program, pointer);
  // The word before the C library's blocks: the size with three flags, and its own eight bytes.
  std::size_t word = 0;
  std::memcpy(&word, static_cast<const std::byte*>(pointer) - sizeof word, sizeof word);
  return (word & ~std::size_t{7}) - 2 * sizeof word + ((word & 2) != 0 ? 0 : sizeof word);
}

[[gnu::visibility("hidden")]] void* craton_program_malloc(std::size_t bytes) {
  const craton::SignalSection section;
  SharedProgram* const program = shared_program();
  return program == nullptr ? libc_allocator.malloc(bytes)
                            : allocate(*program, bytes, __builtin_return_address(0));
}

[[gnu::visibility("hidden")]] void craton_program_free(void* pointer) {
  free(pointer);
}

[[gnu::visibility("hidden")]] void* craton_program_realloc(void* pointer, std::size_t bytes) {
  if (pointer == nullptr) return craton_program_malloc(bytes);
  return realloc(pointer, bytes);
}

// By names that nobody else defines, so that the loader cannot find others.
#define CRATON_OWN(name)                                                                               \
  asm(".globl craton_own_" #name "\n.hidden craton_own_" #name "\n.set craton_own_" #name ", " #name); \
  [[gnu::visibility("hidden")]] extern const char craton_own_##name;
#include "posix/allocator_functions.inc"
#undef CRATON_OWN

}  // extern "C"

namespace craton::posix {

namespace {

void* scalable_aligned_malloc(std::size_t bytes, std::size_t alignment) {
  return allocate_aligned(sharing(__builtin_return_address(0)), alignment, bytes,
                          __builtin_return_address(0));
}

void* scalable_aligned_realloc(void* pointer, std::size_t bytes, std::size_t alignment) {
  const void* const caller = __builtin_return_address(0);
  void* const moved = bytes == 0 ? nullptr : allocate_aligned(sharing(caller), alignment, bytes, caller);
  if (pointer == nullptr) return moved;
  if (moved == nullptr && bytes != 0) return nullptr;
  if (moved != nullptr) std::memcpy(moved, pointer, std::min(bytes, ::malloc_usable_size(pointer)));
  ::free(pointer);
  return moved;
}

}  // namespace

std::span<const AllocatorFunction> allocator_functions() noexcept {
  const auto own = [](const char* name, const auto& function) {
    return AllocatorFunction{name, reinterpret_cast<std::uintptr_t>(&function)};
  };
  static const std::array functions = std::to_array<AllocatorFunction>({
#define CRATON_OWN(name) own(#name, craton_own_##name),
#include "posix/allocator_functions.inc"
#undef CRATON_OWN
      // TBB's, whose library may be part of a program that keeps the C library's malloc.
      own("scalable_malloc", craton_own_malloc),
      own("scalable_calloc", craton_own_calloc),
      own("scalable_realloc", craton_own_realloc),
      own("scalable_free", craton_own_free),
      own("scalable_posix_memalign", craton_own_posix_memalign),
      own("scalable_msize", craton_own_malloc_usable_size),
      own("scalable_aligned_malloc", scalable_aligned_malloc),
      own("scalable_aligned_realloc", scalable_aligned_realloc),
      own("scalable_aligned_free", craton_own_free),
  });
  return functions;
}

constinit thread_local int ProgramAllocations::depth = 0;

void* copy_for_program(const void* from, std::size_t bytes) noexcept {
  void* const copy = craton_program_malloc(bytes);
  return copy == nullptr ? nullptr : std::memcpy(copy, from, bytes);
}

void* hand_over(void* own, std::size_t bytes) noexcept {
  const craton::SignalSection section;
  SharedProgram* const program = shared_program();
  if (program == nullptr || own == nullptr) return own;
  void* const given = allocate(*program, bytes, __builtin_return_address(0));
  if (given != nullptr) std::memcpy(given, own, bytes);
  libc_allocator.free(own);
  return given;
}

}  // namespace craton::posix
