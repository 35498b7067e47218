/// \file
/// The functions of libatomic, in place of its own: compilers call them for atomics of 16 bytes, and of sizes
/// that no instruction has. On shared memory they go to the hooks; private memory they change themselves.
/// Linking this file (craton_libatomic) exports all that libatomic.so.1 of GCC 12 does.
#pragma once

#include "posix/atomics/shared_memory.hpp"

namespace craton::posix {

/// From now on, for all threads. Until then all memory is private. `hooks.locked` must be there.
/// \param shared is copied, and the copy never freed
void send_libatomic_to(const SharedMemory& shared);

}  // namespace craton::posix
