/// \file
/// Atomic instructions of the program on memory that all ranks share: what their patched code
/// (atomics/patch.hpp) calls. A block that one reaches becomes strong; on stacks of other nodes the owner's
/// word is exchanged.
#pragma once

#include "posix/shared_program.hpp"

namespace craton::posix {

/// Patches the code of the executable and of the program's own libraries. Before any of it runs; once.
/// \throws Error
void patch_program(SharedProgram& program);

}  // namespace craton::posix
