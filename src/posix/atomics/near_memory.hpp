/// \file
/// Memory for code that is reached by, and reaches, an object's own code: jumps and operands take distances
/// of 31 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "posix/atomics/code_map.hpp"

namespace craton::posix {

/// Maps memory to read and write, from which every byte of `image` is within 2 GiB; preferably below the
/// image, since the program's heap grows above it. Where nothing is free there: anywhere.
/// \returns its beginning, on a page
/// \throws Error out_of_resources
std::uintptr_t map_near(const AddressRange& image, std::size_t bytes);

}  // namespace craton::posix
