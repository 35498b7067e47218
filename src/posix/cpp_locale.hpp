/// \file
/// What std::locale::global() has been given (cpp_settings.hpp).
#pragma once

#include "posix/everywhere.hpp"

namespace craton::posix {

/// If it has changed here: to all others, or a line says that they cannot have it. Blocks.
void tell_cpp_locale(Everywhere& others) noexcept;

}  // namespace craton::posix
