/// \file
/// Work shares: which thread of a team runs which iterations of a loop, or which sections.
///
///     all iterations ──▶ a share for a rank, by compare-exchange of one word at rank 0
///                        ──▶ a chunk for a thread, under a lock of the rank
///
/// Each thread counts the work shares that it meets, so all agree on the number of one. The word of a loop is
///
///     turn of its slot (40 bits) │ chunks given away (24 bits)
///
/// and a slot serves every 64th loop: one with an older turn is taken over by whoever comes first, a newer
/// one says that all of this loop was given away, since nobody goes past a loop that has anything left. So
/// there is neither reset nor barrier. The slots of a rank work alike.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/types.hpp"
#include "fiber/fiber.hpp"
#include "omp/icvs.hpp"

namespace craton::omp {

class TeamHost;

/// The iterations of a loop, numbered from 0, in arithmetic modulo 2^64: right for any signed or unsigned
/// variable.
struct Iterations {
  std::uint64_t start = 0;
  std::uint64_t step = 1;
  std::uint64_t end = 0;  ///< as the program gave it
  std::uint64_t count = 0;

  static Iterations of(long start, long end, long step) noexcept;
  static Iterations of(bool up, std::uint64_t start, std::uint64_t end, std::uint64_t step) noexcept;
  std::uint64_t value(std::uint64_t index) const noexcept { return start + index * step; }
  /// The value of the loop variable where a chunk ends; never past the end.
  std::uint64_t value_at_end(std::uint64_t index) const noexcept {
    return index >= count ? end : start + index * step;
  }
};

enum class WorkKind : std::uint32_t { none, fixed, dynamic, guided, sections };

/// A loop as all threads of a team meet it.
struct Loop {
  WorkKind kind = WorkKind::none;
  bool ordered = false;
  bool doacross = false;    ///< iterations wait for others: see Doacross
  std::uint64_t chunk = 0;  ///< iterations; 0: the same for each thread (static)
  Iterations iterations;
};

/// Where a thread is in the loop that it met last.
struct LoopPosition {
  Loop loop;
  std::uint64_t number = 0;  ///< of the work share
  std::uint64_t trip = 0;    ///< chunks that it has had (static)
  std::uint64_t first = 0;   ///< its chunk, as numbers of iterations
  std::uint64_t last = 0;    ///< beyond it
  /// Chunks up to here are this rank's (dynamic, guided).
  std::uint64_t share_last = 0;
};

/// Words at rank 0 by which ranks share loops.
inline constexpr std::size_t loop_words = 64;

class Loops {
 public:
  static constexpr std::size_t slots = 16;

  /// The team of a region: so many ranks, threads in all, and threads of this rank.
  struct Shape {
    fabric::Rank own = 0;  ///< this rank
    fabric::Rank ranks = 1;
    std::uint32_t size = 1;
    std::uint32_t local = 1;
  };

  explicit Loops(TeamHost& host) noexcept : host_(host) {}
  /// Before a region.
  void begin(const Shape& shape) noexcept { shape_ = shape; }

  /// Takes the next chunk for a thread. Blocks for the network. \returns false if nothing is left for it
  bool next(LoopPosition& position, std::uint32_t thread_number);

 private:
  struct alignas(fabric::line_bytes) Slot {
    fiber::Mutex lock;
    std::uint64_t number = 0;  ///< of the work share; 0: none yet
    std::uint64_t next = 0;    ///< chunks of this rank's share, or sections
    std::uint64_t end = 0;
    std::uint64_t seen = 0;  ///< the word at rank 0, as it was last
    bool is_last = false;    ///< no more shares
  };
  bool next_static(LoopPosition& position, std::uint32_t thread_number) const noexcept;
  bool next_shared(LoopPosition& position);
  std::uint64_t units_of(const Loop& loop) const noexcept;
  void take_share(Slot& slot, const LoopPosition& position, std::uint64_t units);

  TeamHost& host_;
  Shape shape_;
  std::array<Slot, slots> slots_;
};

}  // namespace craton::omp
