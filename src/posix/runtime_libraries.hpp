/// \file
/// Libraries that the runtime has loaded for itself (UCX, PMIx), not for the program.
///
///     program ──▶ malloc ──▶ ours: shared memory
///     libucs  ──▶ malloc ──▶ ours ──(rebound)──▶ libc
#pragma once

#include "posix/image.hpp"

namespace craton::posix {

/// Of what was loaded since `image`. The loader has bound its calls to what this library is for the program;
/// from now on they are the C library's, as the runtime's own are: what such a library allocates, its threads
/// and descriptors are one process's. And exit() would call its destructors when those of the program's
/// libraries have run, before the job ends, for which it is needed: nobody calls them. Before anything is the
/// program's; what the libraries have had from our functions until then is the C library's as well. Other
/// threads may call them meanwhile. \throws Error where their tables cannot be written
void take_over_runtime_libraries(const Image& image);

}  // namespace craton::posix
