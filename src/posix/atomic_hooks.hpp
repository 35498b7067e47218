/// \file
/// Atomic instructions of the program on memory that all ranks share: what their patched code
/// (atomics/patch.hpp) calls. A block that one reaches becomes strong; on stacks of other nodes the owner's
/// word is exchanged.
#pragma once

#include <cstdint>

#include "posix/shared_program.hpp"

namespace craton::posix {

/// Patches the code of the executable and of the program's own libraries. Before any of it runs; once.
/// \throws Error
void patch_program(SharedProgram& program);

/// Stores a byte of shared memory as an atomic instruction would: whoever finds it by a plain load, on
/// whatever rank, finds what was written before. Ends the job where a rank is lost.
void store_for_all(std::uint8_t& byte, std::uint8_t value) noexcept;

}  // namespace craton::posix
