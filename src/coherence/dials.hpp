/// \file
/// The settings of the protocol. Each is a dial on the same code (dissertation, figures 3.22 and 3.23), so
/// that what one of them is worth can be measured with all others equal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "coherence/timestamp.hpp"

namespace craton::coherence {

/// Where the home bytes of a block are.
enum class Home : std::uint8_t {
  floating,  ///< with the last releaser, which merges there (section 3.4.2)
  fixed,     ///< where they were at first; releasers carry their merged blocks there
};

/// How copies that a release has made old are found.
enum class Invalidation : std::uint8_t {
  leases,     ///< by the reader, at its acquire, from leases and write notices (section 3.4.5)
  directory,  ///< by the releaser, which tells each sharer and waits for its answer (section 3.4.3)
};

/// What a release does with blocks that are open for writing.
enum class Release : std::uint8_t {
  fast,   ///< blocks stay open; where the home is here, nothing is copied: whoever takes it later copies back
          ///< (section 3.4.6). Needs a floating home
  plain,  ///< write access is taken away; the next write faults and makes a twin
};

/// What programs with data races may rely on in a block (DESIGN, *Programs that are not data-race-free*).
enum class Strength : std::uint8_t {
  release,    ///< nothing: only what is ordered by barriers, mutexes and updates (lease_release.hpp)
  strong,     ///< one writer at a time, so every access is ordered (exclusive.hpp)
  automatic,  ///< of a segment: a block is strong from an atomic operation on it until none came for a while
};

/// Dials of a segment.
struct Dials {
  Home home = Home::floating;
  Invalidation invalidation = Invalidation::leases;
  Release release = Release::fast;
  /// By how much a reader extends the lease of a block, and what a release grants to the readers of its
  /// notice.
  Timestamp lease = 16;
  /// Open blocks are compared with their twins at each release, so that an unchanged one is announced to
  /// nobody, and closed once it has been unchanged for `cool_after` releases, or later if it was written
  /// again soon after that: see LeaseSegment::learn_gap. With Release::fast.
  bool hot_blocks = true;
  std::uint32_t cool_after = 4;
  /// How often a page of an open block, in the cache, can be compared in the time that a fault takes. What it
  /// takes elsewhere is measured.
  std::uint32_t looks_a_fault = 80;
  /// A release at home makes other copies old for good: then the home writes the block without a twin and
  /// without telling anybody, until somebody asks. With leases, and Release::fast and `hot_blocks`, or
  /// `causal` and a Releaser.
  bool sole_copies = true;
  /// One that others asked for is not tried again for so many releases that look at it, and for twice as many
  /// each time.
  std::uint8_t sole_delay = 8;
  /// The home of a block that is written after an acquire comes with that acquire, if so many releases in a
  /// row that took its home found that nobody else had written it at the time; 255: never. With `sole_copies`
  /// and `prefetch`.
  std::uint8_t migrate_after = 1;
  static constexpr std::uint8_t never = 255;
  /// The home of a block that several ranks write stays where it is, and they send what they have written
  /// there, once a release has taken it back from another rank so often; 255: never. Where the home's agent
  /// would serve each operation of taking it. With Release::fast, leases and `hot_blocks`.
  std::uint8_t send_after = 2;
  /// And if that is no more than one in so many pieces of the block.
  std::uint8_t send_one_in = 4;
  /// How far on either side of its own a fault opens blocks, 64 at most: to be written, where they were
  /// written together before, or those before it are; to be read, where those before it were fetched too.
  std::uint32_t open_ahead = 32;
  std::uint32_t read_ahead = 16;
  /// Blocks that were read after earlier acquires at the same place are brought up to date at the acquire.
  bool prefetch = true;
  /// After so many times, or half as many, one is left invalid instead, to see whether it is still read; if
  /// it is, the next time comes twice as late. 0: never.
  std::uint32_t probe_one_in = 64;
  /// Who finds in a block what another rank wrote finds elsewhere what that one had written, or found,
  /// before: see lease_release.hpp. Both must lie in segments with this dial. With Home::floating only, and
  /// then Release::plain and without migration.
  bool causal = false;
  /// Of blocks that are not told otherwise.
  Strength strength = Strength::release;
  /// A block that an atomic operation made strong becomes weak when none has come for so long.
  TimeNs fall_after_ns = 100'000'000;
  /// A copy of a strong block that was taken away several times before this has passed, perhaps before it was
  /// used, is left to its rank for so long the next time.
  TimeNs hold_ns = 10'000;
};

/// Dials of all segments of a rank.
struct SpaceDials {
  std::size_t notice_capacity = 1024;  ///< of a signature (figure 3.23)
  /// So many times as many at a barrier of all ranks, which tells them once; what is shown to single ranks is
  /// told again and again.
  unsigned barrier_factor = 16;
  /// Blocks that a fence takes from other ranks at a time, at most; 0 or 1: one after the other.
  unsigned parallel_releases = 16;
};

}  // namespace craton::coherence
