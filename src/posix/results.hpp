/// \file
/// Names that the C library keeps for itself, and the program is given.
#pragma once

namespace craton::posix {

/// The same text where all ranks can read it, for good: for texts of which there are few. The text itself
/// where there is no program or no memory. Any thread.
char* shared_name(const char* text) noexcept;

}  // namespace craton::posix
