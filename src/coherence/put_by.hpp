/// \file
/// What was sent to a block's home and is not in its copy yet, because no thread there has acquired it.
/// Others get the home's twin, which has it.
///
///     twin   what was published, that which was sent included
///     base   the twin without what is put by; so what differs from it in the copy was written here since
///     copy   what this rank has acquired, and has written
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "base/function_ref.hpp"
#include "coherence/diff.hpp"
#include "coherence/timestamp.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

/// Of one block. Not for several threads.
class PutBy {
 public:
  /// \param twin with nothing put by \param bytes a multiple of DiffPiece::bytes
  PutBy(const std::byte* twin, std::size_t bytes);

  bool empty() const noexcept { return sent_.empty(); }
  /// Of the first that is put by.
  Timestamp first_ts() const noexcept { return sent_.front().write_ts; }
  const std::byte* base() const noexcept { return base_.get(); }

  /// Something that was published, after all that is put by.
  void add(fabric::Rank from, Timestamp write_ts, std::vector<DiffPiece> pieces);
  /// Merges what was published until then into the copy, which threads may be writing elsewhere.
  void catch_up(Timestamp until, std::byte* copy,
                FunctionRef<void(fabric::Rank from, const MergeOutcome& outcome)> merged);
  /// What was written here is published: over what is put by of the same bytes.
  void publish(const std::byte* copy, std::byte* twin);

 private:
  struct Sent {
    fabric::Rank from;
    Timestamp write_ts;
    std::vector<DiffPiece> pieces;
  };
  const std::size_t bytes_;
  const std::unique_ptr<std::byte[]> base_;
  std::deque<Sent> sent_;
};

}  // namespace craton::coherence
