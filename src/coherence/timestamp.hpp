/// \file
/// Logical time (dissertation, section 3.4.4, after Tardis): numbers that order the writes of a block and
/// bound how long a copy of it may be used. They have nothing to do with clocks, and those of different
/// blocks meet only where ranks synchronise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"

namespace craton::coherence {

using Timestamp = std::uint64_t;

/// No timestamp gets here: at a million releases a second, each granting a lease of 1000, it takes 4 years.
inline constexpr Timestamp timestamp_limit = Timestamp{1} << 57U;

inline Timestamp checked_timestamp(Timestamp timestamp) {
  CRATON_ASSERT(timestamp < timestamp_limit);
  return timestamp;
}

}  // namespace craton::coherence
