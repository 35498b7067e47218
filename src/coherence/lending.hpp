/// \file
/// How a reader gets a home's leave to use a copy for a while: it extends the lease, by one-sided operations
/// (the words, then a compare-exchange), or, where the home's agent would serve each of them (tcp), by one
/// question that the home's handler answers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "coherence/timestamp.hpp"
#include "fabric/questions.hpp"

namespace craton::coherence {

/// What a reader wants. Travels as it is.
struct LendTerms {
  Timestamp least;           ///< the lease must reach beyond it
  Timestamp known_write_ts;  ///< of the copy that it has
  Timestamp if_known;        ///< by how much to extend it, if the block was not written since
  Timestamp if_written;      ///< and if it was

  Timestamp until(Timestamp write_ts) const noexcept {
    return std::max(least, write_ts) + (write_ts == known_write_ts ? if_known : if_written);
  }
};

/// What a home says. Travels as it is.
struct LentWords {
  std::uint64_t link;
  std::uint64_t lease;  ///< before it was extended; not open: the home is elsewhere
  Timestamp write_ts;
  Timestamp until;
};

using Lending = fabric::WordsQuestion<LentWords>;

}  // namespace craton::coherence
