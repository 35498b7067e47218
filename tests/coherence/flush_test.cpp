/// \file
/// What a flush says that it found, and what it leaves the others to find: simulated ranks that take turns.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

/// Else what one rank publishes would go round and round: each shows what it has learnt, and all look again.
TEST(Flush, ShowsWhatTheRankHasPublishedAndNotWhatItHasLearnt) {
  constexpr std::uint64_t seeds = 20;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<std::pair<Rank, bool>> found;
    const auto flush = [&found](SimRank& rank, Rank self) {
      found.emplace_back(self, rank.protocol().flush());
    };
    std::vector<Turn> turns;
    turns.push_back({0, [&](SimRank& rank) {
                       const std::uint64_t value = 7;
                       rank.store(0, 0, &value, sizeof value);
                       flush(rank, 0);
                     }});
    for (const Rank self : {1U, 1U, 2U, 0U, 1U, 2U, 0U})
      turns.push_back({self, [&flush, self](SimRank& rank) { flush(rank, self); }});
    ASSERT_EQ(take_turns(seed, 3, SegmentShape{}, turns), "") << "seed " << seed;
    // Where there is a bulletin, rank 1 posts what rank 0 had shown to it before it did; but only once.
    const bool is_posted = seed % 2 == 0;
    const std::vector<std::pair<Rank, bool>> expected = {{0, true},      {1, true},  {1, false}, {2, true},
                                                         {0, is_posted}, {1, false}, {2, false}, {0, false}};
    ASSERT_EQ(found, expected) << "seed " << seed;
  }
}

/// Who acquires of one rank alone must still learn what that one had learnt by a flush.
TEST(Flush, ItsNewsGoOnWithTheNextRelease) {
  constexpr std::uint64_t seeds = 20;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t found = 0;
    const std::vector<Turn> turns = {
        {2, [&found](SimRank& rank) { rank.load(0, 0, &found, sizeof found); }},  // a copy that is old then
        {0,
         [](SimRank& rank) {
           const std::uint64_t value = 7;
           rank.store(0, 0, &value, sizeof value);
           rank.protocol().flush();
         }},
        {1,
         [](SimRank& rank) {
           rank.protocol().flush();
           rank.protocol().release();
         }},
        {2, [&found](SimRank& rank) {
           rank.protocol().acquire(Rank{1});
           rank.load(0, 0, &found, sizeof found);
         }}};
    ASSERT_EQ(take_turns(seed, 3, SegmentShape{}, turns), "") << "seed " << seed;
    ASSERT_EQ(found, 7) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
