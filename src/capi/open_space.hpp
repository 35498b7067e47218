/// \file
/// The space of a program: what craton_space_open makes and craton_finalize ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "coherence/block.hpp"
#include "fabric/region_memory.hpp"
#include "job/job.hpp"
#include "observe/record.hpp"
#include "space/agreement.hpp"
#include "space/collection.hpp"
#include "space/heap.hpp"
#include "space/race_log.hpp"
#include "space/space.hpp"
#include "space/statistics.hpp"

namespace craton::capi {

/// Limits of what craton.h lets a program ask for.
inline constexpr std::uint32_t mutexes_most = 1U << 20U;
inline constexpr std::uint32_t mutexes_default = 1U << 16U;
inline constexpr unsigned segments_most = 1000;  ///< of the program; its heaps are more
/// Blocks of large memory of unmodified programs. Measured: more gives larger arrays nothing, and costs where
/// ranks share one.
inline constexpr std::size_t large_block_bytes = std::size_t{16} * 1024;

struct OpenSpaceOptions {
  unsigned threads = 1;
  std::uint32_t mutexes = mutexes_default;
  std::size_t notice_capacity = 0;
  unsigned parallel_releases = 1;
  TimeNs heartbeat_ns = 0;
  std::size_t heap_bytes = 0;
  /// Of another heap, for large allocations, in larger blocks: fewer faults and messages for as many bytes,
  /// and what two ranks write lies farther apart. 0: there is none.
  std::size_t large_heap_bytes = 0;
  std::size_t address_bytes = 0;  ///< 0: as space::SpaceOptions has it
  std::string mechanism;
};

class OpenSpace {
 public:
  /// Collective; blocks. \throws Error
  OpenSpace(job::Job& job, const OpenSpaceOptions& options);
  OpenSpace(const OpenSpace&) = delete;
  OpenSpace& operator=(const OpenSpace&) = delete;
  /// Whether a user has asked for anything that tell() tells.
  bool has_to_tell() const;
  /// Collective, once; blocks. Prints races and statistics at rank 0, as they are: other threads may go on.
  /// \throws Error peer_lost
  void tell();
  /// Collective; blocks. Tells, where that has not been done. After it only the destructor may be called.
  /// \throws Error peer_lost
  void close();

  space::Space& space() noexcept { return space_; }
  space::Heap& heap() noexcept { return *heap_; }
  space::Heap* large_heap() noexcept { return large_heap_.has_value() ? &*large_heap_ : nullptr; }
  /// Of both heaps together, of all ranks: told to each, counted at rank 0. Any thread. \param bytes
  /// HeapBudget::unlimited_bytes: none
  void limit_heaps(std::uint64_t bytes) noexcept { heap_budget_.limit(bytes); }
  bool are_heaps_limited() const noexcept { return heap_budget_.is_limited(); }
  /// Whether what the program reaches without asking for a segment is causal: threads that it starts itself
  /// may release and acquire by atomics, plain stores and loads, and no instruction tells of them. What
  /// OpenMP has for that are calls and flushes.
  bool is_causal() const noexcept;
  coherence::Counters& counters() noexcept { return space_.protocol().counters(); }
  const Clock& clock() const noexcept { return job_.fabric().clock(); }

  /// Collective; blocks. \throws Error
  void* create_segment(const space::SegmentOptions& options);
  /// \throws Error invalid_argument if more threads of this rank are in it than take part, peer_lost
  void barrier(std::uint32_t site);

  /// Any rank's, any time; blocks. \throws Error out_of_resources, peer_lost
  std::uint32_t create_mutex();
  /// The same number at all ranks. Collective; blocks.
  std::uint32_t create_mutex_together();
  /// \throws Error invalid_argument, peer_lost
  void lock(std::uint32_t mutex);
  bool try_lock(std::uint32_t mutex);
  void unlock(std::uint32_t mutex);

 private:
  void make_heap(std::optional<space::Heap>& heap, const char* name, std::size_t bytes,
                 std::size_t block_bytes, fabric::HandlerId handler);
  void check_mutex(std::uint32_t mutex, const char* asked);
  bool holds(std::uint32_t mutex) const noexcept;
  std::vector<observe::Part> parts();
  bool hand_over(const std::vector<std::vector<std::byte>>& records,
                 const std::vector<space::RacePlace>& places, std::uint64_t left_out,
                 const std::string& statistics);
  std::string where_of(const space::RacePlace& place);
  void print_races(const std::vector<space::RacePlace>& places, std::uint64_t left_out);
  void print_statistics(const std::string& text) const;

  job::Job& job_;
  const unsigned threads_;
  const std::uint32_t mutexes_;
  const observe::Request observed_;
  space::Agreement agreement_;
  fabric::RegionMemory mutex_counter_;  ///< at rank 0: how many mutexes there are
  space::Collection collection_;
  space::RaceLog races_;
  space::Space space_;
  space::HeapBudget heap_budget_;
  std::optional<space::Heap> heap_;
  std::optional<space::Heap> large_heap_;
  std::atomic<unsigned> segments_{0};
  bool has_told_ = false;
  std::atomic<unsigned> in_barrier_{0};
  std::atomic<std::uint64_t> mutexes_seen_{0};                   ///< so many were there when last asked
  coherence::ZeroedArray<std::atomic<std::uintptr_t>> holders_;  ///< of each mutex: a mark of its thread
};

}  // namespace craton::capi
