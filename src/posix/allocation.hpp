/// \file
/// Memory that the program is given by functions of the C library other than malloc: it must come from where
/// all ranks see it, and from where the program's free() takes it.
///
/// Threads: any.
#pragma once

#include <cstddef>

extern "C" {
/// malloc and realloc as the program has them; in this library those names are the C library's.
void* craton_program_malloc(std::size_t bytes);
void* craton_program_realloc(void* pointer, std::size_t bytes);
}

namespace craton::posix {

/// What the C library has allocated for itself, as the program's. \param own freed \returns null where there
/// is no memory; errno is ENOMEM then
void* hand_over(void* own, std::size_t bytes) noexcept;

}  // namespace craton::posix
