/// \file
/// The chunks of the shared heap that a rank owns, and what is allocated in them. All of it is out of band:
/// no byte of the heap is read or written here, so that no allocation can fault, and none can be broken by a
/// program that writes past its end.
///
///     a chunk    slots of one size, a bit each        │ or the first, or a later one, of a large allocation
///     by size    chunks with a free slot ─▶ ...       │ spare: chunks without any allocation
///
/// Threads: any, also handlers. Nothing here blocks but for the lock, which is held for a few steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "coherence/block.hpp"
#include "fabric/types.hpp"
#include "space/heap_runs.hpp"

namespace craton::space {

/// Why an address could not be freed.
enum class HeapFinding : std::uint32_t {
  found,
  elsewhere,  ///< its chunk is not this rank's
  inside,     ///< it lies in an allocation, but is not its start
  no_longer,  ///< it is free
};

class HeapChunks {
 public:
  /// Larger allocations have chunks of their own.
  static constexpr std::size_t slot_bytes_most = heap_chunk_bytes / 4;

  /// \param chunks of the heap \param own this rank \throws Error out_of_resources
  HeapChunks(ChunkIndex chunks, fabric::Rank own, fabric::Rank ranks);

  struct Slot {
    std::uint64_t offset;
    std::uint64_t frees;  ///< by other ranks before it was taken: see take_freers()
  };
  /// A slot for so many bytes (1 to slot_bytes_most); nothing if there is no chunk for it.
  std::optional<Slot> take_slot(std::size_t bytes);
  /// A chunk of this rank's for slots of any size.
  void add_chunk(ChunkIndex chunk);
  /// An allocation with chunks of its own.
  void add_large(ChunkRun run, std::size_t bytes);

  struct Freed {
    HeapFinding finding;
    /// It is nobody's now, the caller gives it back: a large allocation's, or a chunk too many in which other
    /// ranks alone have freed.
    std::optional<ChunkRun> run{};
    fabric::Rank giver = 0;  ///< see HeapRuns::give
  };
  /// \param by who frees it
  Freed free(std::uint64_t offset, fabric::Rank by);
  static constexpr std::size_t spares_kept = 16;
  /// Spare chunks to be given back: all but so many.
  std::vector<ChunkIndex> take_spares(std::size_t kept);

  struct Allocation {
    HeapFinding finding;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  /// The allocation that an offset lies in.
  Allocation find(std::uint64_t offset);

  struct Freers {
    std::uint64_t frees;  ///< by other ranks so far
    std::vector<fabric::Rank> ranks;
  };
  /// Who has freed since the last call.
  Freers take_freers();

 private:
  static constexpr std::size_t slot_bytes_least = 16;
  static constexpr std::size_t word_bits = 64;

  struct Chunk {
    ChunkRun run{};
    std::size_t slot_bytes = 0;   ///< 0: large, or spare
    std::size_t large_bytes = 0;  ///< as asked for
    std::uint32_t slots = 0;
    std::uint32_t free_slots = 0;
    bool freed_here = false;            ///< something of it, since it is this rank's
    std::optional<fabric::Rank> freer;  ///< likewise of others: one, or every_rank
    Chunk* before = nullptr;            ///< in its list
    Chunk* after = nullptr;
    std::array<std::uint64_t, heap_chunk_bytes / slot_bytes_least / word_bits> taken{};
  };
  struct Place {
    Chunk* chunk;
  };
  struct List {
    Chunk* first = nullptr;
    std::size_t count = 0;
    void push(Chunk& chunk) noexcept;
    void remove(Chunk& chunk) noexcept;
  };

  static std::size_t slot_bytes_for(std::size_t bytes) noexcept;
  List& list_of(std::size_t slot_bytes) noexcept;
  Chunk& new_chunk(ChunkRun run);
  void retire(Chunk& chunk) noexcept;
  Allocation find_locked(std::uint64_t offset) const noexcept;

  const fabric::Rank own_;
  std::mutex lock_;
  coherence::ZeroedArray<Place> chunks_;  ///< of all the heap; null: another rank's
  std::deque<Chunk> records_;             ///< theirs, which stay where they are
  List retired_;                          ///< records without a chunk
  List spare_;
  std::vector<List> with_free_slots_;  ///< by slot_bytes / 16
  std::vector<bool> freed_by_;         ///< by rank: since the last take_freers()
  std::uint64_t frees_ = 0;
};

}  // namespace craton::space
