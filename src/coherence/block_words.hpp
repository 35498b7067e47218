/// \file
/// What each rank keeps of each block where all ranks reach it by get, put and compare-exchange, and the
/// meaning of those words.
///
///     link       unlocked │ locked │ trying │ the rank that took it next      on the way to the home (3.5.4)
///     lease      open until a time │ closed │ moved                           open only at the home
///     write_ts   when the home was written last
///     sharers    a bit a rank that has a copy (directory only)
///     updater    the rank that updated a word of it atomically last, plus one; 0: none has
///     exposed    1: threads of the home may be writing the block now, and it has no twin (fast releases
///                without hot blocks)
///
/// All bytes are zero at first and then mean what is right at the start, whose home `initial_home` names: a
/// word is stored xor its initial value. So the memory of blocks that nobody touches is never allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coherence/timestamp.hpp"
#include "fabric/types.hpp"

namespace craton::coherence {

struct alignas(64) BlockWords {
  std::uint64_t link;
  std::uint64_t lease;
  std::uint64_t write_ts;
  std::uint64_t sharers;
  std::uint64_t exposed;
  std::uint64_t updater;
  std::uint64_t reserved[2];
};
static_assert(sizeof(BlockWords) == 64);

/// Values of `link`.
namespace link {
inline constexpr std::uint64_t unlocked = 1;
inline constexpr std::uint64_t locked = 2;
/// The rank is on its way to take the lock if nobody has it, and may not get it.
inline constexpr std::uint64_t trying = 3;
inline constexpr std::uint64_t first_rank = 4;
inline constexpr std::uint64_t to(fabric::Rank rank) noexcept {
  return first_rank + rank;
}
/// The same, and that rank has been told that it has the lock: nobody awaits it by this word any more.
inline constexpr std::uint64_t passed_bit = std::uint64_t{1} << 63U;
inline constexpr std::uint64_t passed_to(fabric::Rank rank) noexcept {
  return passed_bit | to(rank);
}
inline constexpr bool is_rank(std::uint64_t value) noexcept {
  return value >= first_rank;
}
inline constexpr fabric::Rank rank(std::uint64_t value) noexcept {
  return static_cast<fabric::Rank>((value & ~passed_bit) - first_rank);
}
}  // namespace link

/// Values of `lease`: a state, a time, and five marks.
namespace lease {
/// A thread of the rank whose word it is sleeps until it becomes `moved`.
inline constexpr std::uint64_t awaited = 1;
/// Something was published: without it the block is still all zero bytes. In this word because it must be
/// read together with the lease; write_ts may be read before the one and the lease after the other of two
/// releases.
inline constexpr std::uint64_t written = 2;
/// The home is the only one to have a copy that it may use, and writes it without telling anybody: who wants
/// one tells the home first (LeaseSegment::end_sole), then takes this away.
inline constexpr std::uint64_t sole = 4;
/// Since it was published last it has been sole. If it is no more, its twin was made later, at no time that a
/// reader of the words could tell.
inline constexpr std::uint64_t was_sole = 8;
/// What was published last is in the home's copy, which is closed to writes, and not in its twin
/// (lease_segment_migrate.cpp). It may be `sole` as well: then nobody has fetched it from there.
inline constexpr std::uint64_t kept = 16;
inline constexpr unsigned mark_bits = 5;
/// The home is here, and copies of it may be used until the time.
inline constexpr std::uint64_t open_until(Timestamp time) noexcept {
  return time << mark_bits;
}
/// The block is being taken from here: its bytes are still needed.
inline constexpr std::uint64_t closed = std::uint64_t{1} << 62U;
/// The home is elsewhere, and nobody needs anything from here any more. What was here then is published at
/// the time.
inline constexpr std::uint64_t moved_at(Timestamp time) noexcept {
  return std::uint64_t{1} << 63U | time << mark_bits;
}
inline constexpr bool is_open(std::uint64_t value) noexcept {
  return value < closed;
}
inline constexpr bool is_moved(std::uint64_t value) noexcept {
  return value >> 63U != 0;
}
inline constexpr Timestamp time(std::uint64_t value) noexcept {
  return (value & (closed - 1)) >> mark_bits;
}
inline constexpr bool is_sole(std::uint64_t value) noexcept {
  return (value & sole) != 0;
}
inline constexpr bool is_kept(std::uint64_t value) noexcept {
  return (value & kept) != 0;
}
inline constexpr std::uint64_t marks(std::uint64_t value) noexcept {
  return value & (awaited | written | sole | was_sole | kept);
}
static_assert(open_until(timestamp_limit) <= closed);
}  // namespace lease

}  // namespace craton::coherence
