/// \file
/// Large global variables of a program: arrays, mostly, which are best shared in larger blocks than what lies
/// between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "posix/image.hpp"

namespace craton::posix {

/// Where variables of large_variable_bytes or more lie, neighbours as one span, in order. Reads the symbol
/// table of the file once, at the start. Of a file that has none, or cannot be read, there are none. \param
/// base what the loader added to the file's addresses
std::vector<AddressSpan> find_large_variables(const std::string& path, std::uintptr_t base);

}  // namespace craton::posix
