/// \file
/// A thread as OpenMP sees it: which team it is in, as which one, and at what.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "omp/icvs.hpp"
#include "omp/loops.hpp"
#include "omp/places.hpp"
#include "omp/task.hpp"

namespace craton::omp {

class Team;

/// The teams of a `teams` construct on the host, which run one after the other.
struct League {
  std::uint32_t number = 0;  ///< of the team that runs
  std::uint32_t count = 1;
};

/// What a thread puts aside while it is in an inner region.
struct TeamState {
  Team* team = nullptr;            ///< null outside of all regions
  std::uint32_t number = 0;        ///< of the thread, in the team
  std::uint32_t level = 0;         ///< regions that it is in
  std::uint32_t active_level = 0;  ///< of them, those of several threads
  std::uint64_t shares = 0;        ///< the number of the last work share that it met
  std::uint64_t singles = 0;       ///< that it met in the region, where the team is of one rank
  LoopPosition position;
  void* memory = nullptr;  ///< of a work share outside of all regions
  League league = {};
  Seat seat = {};
};

/// Blocks that ended tasks of this rank had, for the next ones.
struct BlockCache {
  static constexpr std::size_t kinds = 4;  ///< of 64, 128, 256, 512 bytes
  static constexpr std::size_t kept = 32;  ///< of each
  static constexpr std::size_t bytes_of(std::size_t kind) noexcept { return std::size_t{64} << kind; }
  static constexpr std::size_t kind_of(std::size_t bytes) noexcept {
    std::size_t kind = 0;
    while (kind < kinds && bytes > bytes_of(kind)) ++kind;
    return kind;
  }

  std::array<std::array<void*, kept>, kinds> blocks{};
  std::array<std::uint32_t, kinds> counts{};
};

struct Thread {
  explicit Thread(const Icvs& icvs) { initial.icvs = icvs; }

  TeamState state;
  Task* task = &initial;  ///< that it runs
  Task initial;
  BlockCache blocks;
  std::uint32_t shown_in = 0;             ///< the size of the team in which it showed its affinity last
  std::optional<std::uint32_t> bound_to;  ///< the place that it may use
  bool is_master = false;                 ///< the program's main thread, which starts regions of all ranks
};

/// The calling thread's. Made when it first asks.
Thread& self();
/// The same; null where it has never asked. Signal handlers may call it.
Thread* self_if_known() noexcept;

}  // namespace craton::omp
