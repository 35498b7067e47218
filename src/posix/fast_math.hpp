/// \file
/// Flush to zero, as -ffast-math wants it: GCC links a constructor for it into the executable
/// (crtfastmath.o), and the constructors of an executable run on rank 0 only. Threads inherit the mode from
/// the one that makes them.
#pragma once

namespace craton::posix {

/// Sets for the calling thread what such a constructor of the executable will set on rank 0; nothing where it
/// has none. x86-64.
void follow_fast_math() noexcept;

}  // namespace craton::posix
