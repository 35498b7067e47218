/// \file
/// What acquires open of the blocks that a rank wrote after the acquire at the same place, and that its
/// releases have closed since (LeaseSegment::expect_writes).
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

constexpr Rank writer = 0, reader = 1;
constexpr std::uint32_t write_site = 1, first_idle_site = 2;
constexpr std::uint64_t blocks_written = 8, distance = 5;

SegmentShape shape_of(std::uint32_t open_ahead) {
  SegmentShape shape;
  shape.block_bytes = block_bytes;
  shape.blocks = blocks_written * distance;
  shape.initial_homes = {.kind = InitialHomes::Kind::one, .rank = writer};
  shape.dials.sole_copies = false;
  shape.dials.looks_a_fault = 0;  // what is not written all the time is closed
  shape.dials.open_ahead = open_ahead;
  return shape;
}

/// Writes blocks of its own, far from each other, then meets three times without writing them.
void iterate(SimRank& rank, std::uint64_t value, bool writes) {
  LeaseRelease& protocol = rank.protocol();
  protocol.acquire(reader, write_site);
  for (std::uint64_t i = 0; writes && i < blocks_written; ++i) write(rank, i * distance, 0, value);
  protocol.release();
  for (std::uint32_t i = 0; i < 3; ++i) {
    protocol.acquire(reader, first_idle_site + i);
    protocol.release();
  }
}

/// \returns the sum of a counter over some iterations, after others
std::uint64_t count_after(const SegmentShape& shape, std::uint64_t learning, std::uint64_t counted,
                          bool writes, Counters::Count Counters::*counter) {
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::uint64_t value = 0;
  std::vector<Turn> turns;
  turns.push_back({writer, [&](SimRank& rank) {
                     for (std::uint64_t i = 0; i < learning; ++i) iterate(rank, ++value, true);
                     if (!writes) iterate(rank, value, false);
                     before = rank.protocol().count(counter);
                     for (std::uint64_t i = 0; i < counted; ++i) iterate(rank, ++value, writes);
                     after = rank.protocol().count(counter);
                   }});
  turns.push_back({reader, [&](SimRank& rank) {
                     rank.protocol().acquire(writer, write_site);
                     const std::uint64_t expected = writes ? value : learning;
                     for (std::uint64_t i = 0; i < blocks_written; ++i)
                       EXPECT_EQ(read(rank, i * distance, 0), expected);
                   }});
  EXPECT_EQ(take_turns(1, 2, shape, turns), "");
  return after - before;
}

TEST(OpenExpected, BlocksThatReleasesCloseAreOpenWhenTheyAreWrittenAgain) {
  EXPECT_EQ(count_after(shape_of(32), 4, 10, true, &Counters::write_faults), 0U);
  EXPECT_GT(count_after(shape_of(32), 4, 10, true, &Counters::opened_ahead), 0U);
}

TEST(OpenExpected, NothingIsOpenedAheadWhereThatIsSwitchedOff) {
  EXPECT_EQ(count_after(shape_of(0), 4, 10, true, &Counters::write_faults), 10 * blocks_written);
}

/// One acquire opens them in vain, the next ones do not.
TEST(OpenExpected, WhatIsNotWrittenIsNotExpectedAgain) {
  EXPECT_EQ(count_after(shape_of(32), 4, 10, false, &Counters::opened_ahead), 0U);
}

}  // namespace

}  // namespace craton::coherence::test
