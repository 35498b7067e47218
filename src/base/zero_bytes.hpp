/// \file
/// Memory that holds nothing.
#pragma once

#include <cstddef>
#include <cstring>

namespace craton {

/// Whether all of it is zero bytes. At nearly the speed of memory; ends at the first that is not.
inline bool is_zero(const std::byte* bytes, std::size_t count) noexcept {
  return count == 0 || (bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

}  // namespace craton
