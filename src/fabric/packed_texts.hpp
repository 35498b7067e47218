/// \file
/// Several texts as one, for Bootstrap::exchange: each behind its length in 32 bits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace craton::fabric {

std::string pack(const std::vector<std::string>& texts);

/// \param expected how many texts there must be
/// \throws Error protocol
std::vector<std::string> unpack(const std::string& packed, std::size_t expected);

}  // namespace craton::fabric
