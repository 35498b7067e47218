/// \file
/// Which chunks of the shared heap belong to which rank. Rank 0 keeps it, in memory of its own, and answers
/// the others by messages (heap.hpp); so only its handlers call this, one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "coherence/block.hpp"
#include "fabric/types.hpp"

namespace craton::space {

/// A chunk of the heap: heap_chunk_bytes bytes, counted from the heap's first.
using ChunkIndex = std::uint32_t;

inline constexpr std::size_t heap_chunk_bytes = std::size_t{64} * 1024;

/// For all ranks, where one is to be named.
inline constexpr fabric::Rank every_rank = ~fabric::Rank{0} - 1;

/// Chunks in a row.
struct ChunkRun {
  ChunkIndex first;
  ChunkIndex chunks;
};

class HeapRuns {
 public:
  /// All are free. \throws Error out_of_resources
  explicit HeapRuns(ChunkIndex chunks);

  /// The lowest free run of so many chunks, which are the owner's from now on; nothing if there is none.
  std::optional<ChunkIndex> take(ChunkIndex chunks, fabric::Rank owner);
  /// \param giver knows, and has published, all that was written there; every_rank: only all of them together
  /// do
  void give(ChunkRun run, fabric::Rank giver);

  std::optional<fabric::Rank> owner(ChunkIndex chunk) const noexcept { return rank_of(owners_[chunk]); }
  /// Who gave the chunks back that are now in a run, each once; whoever takes the run learns from them.
  /// Nobody where no chunk of it was ever taken before: it is all zero.
  std::vector<fabric::Rank> givers(ChunkRun run) const;

 private:
  /// 0 is nobody, so that what was never touched costs nothing.
  static std::optional<fabric::Rank> rank_of(std::uint32_t number) noexcept {
    if (number == 0) return {};
    return number - 1;
  }

  std::map<ChunkIndex, ChunkIndex> free_;  ///< runs: how many chunks from which on; none touch
  coherence::ZeroedArray<std::uint32_t> owners_;
  coherence::ZeroedArray<std::uint32_t> givers_;
};

}  // namespace craton::space
