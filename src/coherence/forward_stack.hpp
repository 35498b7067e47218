/// \file
/// Who has a copy of a strong block, and which of them serves the next reader: the *forward* rank (vGASNet,
/// section III-E). The paper's stack-based array:
///
///     push     the newest copy goes on top
///     access   who is on top serves, and moves to the bottom: so the work goes round
///     remove   a copy was invalidated
///
/// Each operation costs a pass over the ranks that have a copy. Not for several threads.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

class ForwardStack {
 public:
  bool empty() const noexcept { return ranks_.empty(); }
  std::size_t size() const noexcept { return ranks_.size(); }
  bool contains(fabric::Rank rank) const noexcept {
    return std::find(ranks_.begin(), ranks_.end(), rank) != ranks_.end();
  }
  /// The bottom first.
  std::span<const fabric::Rank> ranks() const noexcept { return ranks_; }

  /// \param rank is not in it
  void push(fabric::Rank rank) {
    CRATON_ASSERT(!contains(rank));
    ranks_.push_back(rank);
  }
  /// \returns who was on top. There must be one.
  fabric::Rank access() noexcept {
    CRATON_ASSERT(!empty());
    std::rotate(ranks_.begin(), ranks_.end() - 1, ranks_.end());
    return ranks_.front();
  }
  void remove(fabric::Rank rank) noexcept { std::erase(ranks_, rank); }
  void clear() noexcept { ranks_.clear(); }

 private:
  std::vector<fabric::Rank> ranks_;  ///< the last is the top
};

}  // namespace craton::coherence
