/// \file
/// Which chunks of the shared heap belong to which rank. Rank 0 keeps it, in memory of its own, and answers
/// the others by messages (heap.hpp); so only its handlers call this, one at a time.
#pragma once

#include <atomic>
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

/// How much the heaps of a program may have together. Rank 0's handlers count; any thread sets the limit.
class HeapBudget {
 public:
  /// More than is taken already takes nothing away. \param bytes unlimited_bytes: as much as there is
  void limit(std::uint64_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  static constexpr std::uint64_t unlimited_bytes = ~std::uint64_t{0};
  bool is_limited() const noexcept { return limit_.load(std::memory_order_relaxed) != unlimited_bytes; }

  bool has_room(ChunkIndex chunks) const noexcept {
    return taken_ + std::uint64_t{chunks} * heap_chunk_bytes <= limit_.load(std::memory_order_relaxed);
  }
  void take(ChunkIndex chunks) noexcept { taken_ += std::uint64_t{chunks} * heap_chunk_bytes; }
  void give(ChunkIndex chunks) noexcept { taken_ -= std::uint64_t{chunks} * heap_chunk_bytes; }

 private:
  std::atomic<std::uint64_t> limit_{unlimited_bytes};
  std::uint64_t taken_ = 0;
};

class HeapRuns {
 public:
  /// All are free. \throws Error out_of_resources
  explicit HeapRuns(ChunkIndex chunks);
  /// Before anything is taken.
  void set_budget(HeapBudget& budget) noexcept { budget_ = &budget; }

  /// The lowest free run of so many chunks, which are the owner's from now on; nothing if there is none, or
  /// the budget has no room.
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

  HeapBudget* budget_ = nullptr;
  std::map<ChunkIndex, ChunkIndex> free_;  ///< runs: how many chunks from which on; none touch
  coherence::ZeroedArray<std::uint32_t> owners_;
  coherence::ZeroedArray<std::uint32_t> givers_;
};

}  // namespace craton::space
