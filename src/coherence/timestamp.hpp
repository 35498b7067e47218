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

/// The time of a write that follows all leases that were given on the block, what was published of it before,
/// and what its rank has acquired.
inline Timestamp later_than(Timestamp leased_until, Timestamp write_ts, Timestamp min_write_ts) {
  return checked_timestamp(std::max({leased_until, write_ts, min_write_ts}) + 1);
}

}  // namespace craton::coherence
