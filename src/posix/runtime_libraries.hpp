/// \file
/// Libraries that the runtime has loaded for itself (UCX, PMIx), not for the program.
///
///     program ──▶ malloc ──▶ ours: shared memory
///     libucs  ──▶ malloc ──▶ ours ──(rebound)──▶ libc
#pragma once

#include "posix/image.hpp"

namespace craton::posix {

/// The loader has bound the calls of what was loaded since `image` to what this library is for the program;
/// from now on they are the C library's, as the runtime's own are: what such a library allocates, its
/// messages, threads and descriptors are one process's. Before anything is the program's; what the libraries
/// have from our functions until then is the C library's as well. Other threads may call them meanwhile.
/// \throws Error where their tables cannot be written
void unbind_runtime_libraries(const Image& image);

}  // namespace craton::posix
