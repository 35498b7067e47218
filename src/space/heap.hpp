/// \file
/// The shared heap: memory that any thread of any rank allocates and frees, in one segment.
///
///     rank 0      HeapRuns: whose chunk is it?      ◀─ take, who ─  any rank
///     owner       HeapChunks: what is allocated     ◀─ free, find ─  any rank
///
/// A rank asks rank 0 for chunks and allocates in them without asking; whoever frees tells the owner. The
/// answers come from handlers, also while the other rank computes. No call touches the heap's own memory.
///
/// Invariant: before an address is handed out again, its new owner's rank has acquired what the one that
/// freed it knew. So that what was written there before, by whoever synchronised with the free, cannot come
/// back: who frees elsewhere publishes first (Space::publish), who gets it learns (Space::learn): from those
/// who freed in a chunk, or from its owner, who has learnt from them and published.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fabric/fabric.hpp"
#include "fiber/fiber.hpp"
#include "space/heap_chunks.hpp"
#include "space/heap_runs.hpp"
#include "space/learning.hpp"
#include "space/space.hpp"

namespace craton::space {

class Heap {
 public:
  /// Collective, in so far as all ranks must have made it before any allocates. All of the segment is its
  /// own. \param segment a multiple of heap_chunk_bytes \param handler a message handler, the same on all
  /// ranks
  Heap(fabric::Fabric& fabric, Space& space, Segment& segment, fabric::HandlerId handler);
  /// The same with memory of any kind. \param memory at the same address on all ranks
  Heap(fabric::Fabric& fabric, Learning& learning, std::span<std::byte> memory, fabric::HandlerId handler);
  /// What heaps of all ranks have together. Before anything is allocated; it counts at rank 0 only.
  void set_budget(HeapBudget& budget) noexcept { runs_.set_budget(budget); }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Aligned to 16 bytes, to 64 if it has 64 or more. Any thread; blocks. \throws Error out_of_resources,
  /// peer_lost
  void* allocate(std::size_t bytes) { return allocate_fresh(bytes).begin; }

  struct Fresh {
    void* begin;
    bool is_zero;  ///< all of it, because nobody has had it before; else it may be anything
  };
  /// As allocate. So that large memory that is to be zero need not be touched by who allocates it.
  Fresh allocate_fresh(std::size_t bytes);
  /// Any thread; blocks. \throws Error invalid_argument if it is no allocation, peer_lost
  void free(void* pointer);

  struct Allocation {
    std::byte* begin;
    std::size_t bytes;  ///< as asked for or more
  };
  /// The allocation that an address lies in, if it is in one. Any thread; blocks. \throws Error peer_lost
  std::optional<Allocation> find(const void* address);
  bool contains(const void* address) const noexcept {
    return address >= memory_.data() && address < memory_.data() + memory_.size();
  }

 private:
  enum class Kind : std::uint32_t {
    take,     ///< so many chunks are wanted. To rank 0, as are the next two
    who,      ///< who owns this chunk?
    give,     ///< these chunks are free. Not answered
    free,     ///< this offset is free. To its owner, as is the next one
    find,     ///< what lies there?
    settle,   ///< to any rank: what it has given must have arrived. Rank 0 answers, which it tells
    settled,  ///< this is behind all that the sender has given so far. To rank 0
    answer,   ///< to one of these
  };
  static constexpr std::uint32_t ranks_told = 16;
  static constexpr std::uint32_t all_ranks = ~std::uint32_t{0};
  struct Message {
    Kind kind;
    HeapFinding finding;
    std::uint64_t ticket;       ///< of the question
    std::uint64_t first;        ///< chunk, offset, owner
    std::uint64_t count;        ///< of chunks, of bytes
    std::uint32_t giver;        ///< in `settled`: who asked
    std::uint32_t givers_told;  ///< or all_ranks: too many to tell
    std::array<fabric::Rank, ranks_told> givers;
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void answer(fabric::Rank source, const Message& question);
  Message ask(fabric::Rank to, Kind kind, std::uint64_t first, std::uint64_t count);
  Message ask_owner(Kind kind, std::uint64_t offset);
  void tell_given(ChunkRun run, fabric::Rank giver);
  struct TakenRun {
    ChunkRun run;
    bool is_zero;  ///< nobody has had it before
  };
  TakenRun take_run(ChunkIndex chunks, std::size_t for_bytes);
  void learn_of_frees(std::uint64_t frees);
  void give_spares(std::size_t kept);
  [[noreturn]] void refuse(const void* pointer, HeapFinding finding) const;

  fabric::Fabric& fabric_;
  Learning& learning_;
  const std::span<std::byte> memory_;
  const fabric::HandlerId handler_;
  const ChunkIndex chunk_count_;
  HeapChunks chunks_;
  HeapRuns runs_;  ///< used at rank 0 only; elsewhere it costs nothing
  coherence::ZeroedArray<std::atomic<std::uint32_t>>
      owners_;  ///< of chunks, as heard last; plus 1; 0: not asked

  fiber::Mutex asking_;  ///< one question at a time
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<std::uint64_t> answered_{0};
  Message answer_{};

  fiber::Mutex learns_;
  std::atomic<std::uint64_t> learnt_{0};  ///< the frees by others up to here have been learnt of
};

}  // namespace craton::space
