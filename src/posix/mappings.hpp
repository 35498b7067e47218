/// \file
/// Files that the program has mapped, at the same address on all ranks of a node (mappings.cpp).
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "posix/shared_program.hpp"

namespace craton::posix {

/// Async-signal-safe.
bool is_of_all(const void* address) noexcept;

/// Blocks. \param protection, flags, descriptor, offset as mmap() has them, of a regular file here
/// \returns null where not all ranks have it now
void* map_everywhere(SharedProgram& program, std::size_t bytes, int protection, int flags, int descriptor,
                     off64_t offset);

}  // namespace craton::posix
