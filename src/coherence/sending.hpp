/// \file
/// How a rank publishes what it has written to a block whose home stays elsewhere: it sends it there, where
/// the home's handler merges it. For homes whose agent would serve each step of taking them (tcp).
///
///     sent_part ──▶   pieces of the diff, if one message has not room for all
///     sent ───────▶   the rest: merged into the home's twin, published, and put by for its copy (put_by.hpp)
///          ◀─── merged
///
/// Two ranks that take a home from one another get the block each time, and ask for it; so one of them sends
/// less, and the other nothing.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "coherence/diff.hpp"
#include "coherence/timestamp.hpp"
#include "fabric/questions.hpp"

namespace craton::coherence {

/// What who sends wants. Travels as it is, and pieces behind it.
struct SendTerms {
  Timestamp least;  ///< what it publishes is later
};

/// What a home says when something was sent there. Travels as it is.
struct MergedWords {
  Timestamp write_ts;   ///< published at that time; 0: nothing was done, and the home must be taken
  Timestamp before_ts;  ///< when the home had been written last
  std::uint64_t link;   ///< of whom was asked: namespace link. Of a rank: the home has gone there
};

using Sending = fabric::WordsQuestion<MergedWords>;

/// Of a home: pieces that have come before the rest has. Any thread.
class SentParts {
 public:
  void add(fabric::Rank from, std::uint64_t sending, std::span<const DiffPiece> pieces) {
    const std::lock_guard lock(lock_);
    std::vector<DiffPiece>& parts = parts_[{from, sending}];
    parts.insert(parts.end(), pieces.begin(), pieces.end());
  }
  /// All of them, and no more are kept.
  std::vector<DiffPiece> take(fabric::Rank from, std::uint64_t sending) {
    const std::lock_guard lock(lock_);
    auto found = parts_.extract({from, sending});
    return found.empty() ? std::vector<DiffPiece>() : std::move(found.mapped());
  }

 private:
  std::mutex lock_;
  std::map<std::pair<fabric::Rank, std::uint64_t>, std::vector<DiffPiece>> parts_;
};

}  // namespace craton::coherence
