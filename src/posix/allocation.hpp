/// \file
/// Memory that the program is given by functions of the C library other than malloc: it must come from where
/// all ranks see it, and from where the program's free() takes it.
///
/// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

extern "C" {
/// malloc and realloc as the program has them; in this library those names are the C library's.
void* craton_program_malloc(std::size_t bytes);
void* craton_program_realloc(void* pointer, std::size_t bytes);
/// What one of them has returned.
void craton_program_free(void* pointer);
}

namespace craton::posix {

struct AllocatorFunction {
  const char* name;
  std::uintptr_t address;  ///< of ours, whatever the loader finds by that name
};

/// The malloc family.
std::span<const AllocatorFunction> allocator_functions() noexcept;

/// A copy of so many bytes, the program's. \returns null where there is no memory; errno is ENOMEM then
void* copy_for_program(const void* from, std::size_t bytes) noexcept;

/// What the C library has allocated for itself, as the program's. \param own freed \returns null where there
/// is no memory; errno is ENOMEM then
void* hand_over(void* own, std::size_t bytes) noexcept;

/// While one exists, what the C library allocates on this thread is the program's: in functions that keep it
/// in the program's hands, and give none of it to the kernel.
class ProgramAllocations {
 public:
  ProgramAllocations() noexcept { ++depth; }
  ProgramAllocations(const ProgramAllocations&) = delete;
  ProgramAllocations& operator=(const ProgramAllocations&) = delete;
  ~ProgramAllocations() { --depth; }

  static bool now() noexcept { return depth != 0; }

 private:
  static thread_local int depth;
};

}  // namespace craton::posix
