/// \file
/// What reading ahead must leave alone: three simulated ranks that take turns, on random schedules.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

/// A copy that an acquire has closed, and a release then merged, is newer than what the acquire told of. Once
/// another rank has taken its home, nothing but its time says so.
TEST(ReadAhead, KeepsACopyThatIsNewerThanItsNotice) {
  constexpr Rank own = 0, source = 1, taker = 2;
  constexpr std::uint64_t seeds = 50;
  SegmentShape shape;
  shape.block_bytes = block_bytes;
  shape.initial_homes = {.kind = InitialHomes::Kind::one, .rank = source};
  shape.dials.prefetch = shape.dials.sole_copies = false;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<std::uint64_t> found;
    const std::string failure = take_turns(seed, 3, shape,
                                           {{source,
                                             [](SimRank& rank) {
                                               for (std::uint64_t block = 0; block < 3; ++block)
                                                 write(rank, block, 0, 1);
                                               rank.protocol().release();
                                             }},
                                            {own,
                                             [](SimRank& rank) {
                                               rank.protocol().acquire(source, 0);
                                               write(rank, 2, 1, 7);
                                             }},
                                            {source,
                                             [](SimRank& rank) {
                                               write(rank, 2, 0, 2);
                                               rank.protocol().release();
                                             }},
                                            {own,
                                             [](SimRank& rank) {
                                               rank.protocol().acquire(source, 0);
                                               rank.protocol().release();
                                             }},
                                            {taker,
                                             [](SimRank& rank) {
                                               write(rank, 2, 2, 3);
                                               rank.protocol().release();
                                             }},
                                            {own, [&found](SimRank& rank) {
                                               for (std::uint64_t block = 0; block < 3; ++block)
                                                 found.push_back(read(rank, block, 0));
                                               found.push_back(read(rank, 2, 1));
                                             }}});
    ASSERT_EQ(failure, "") << "seed " << seed;
    ASSERT_EQ(found, (std::vector<std::uint64_t>{1, 1, 2, 7})) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
