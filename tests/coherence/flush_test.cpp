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

/// What one of them is told, or told to ask for, the other is not told again: it must not go on before that
/// is acquired.
TEST(Flush, OfEitherOfTwoThreadsFindsWhatWasFlushedBefore) {
  constexpr std::uint64_t seeds = 100, value = 7;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    const auto flush_and_read = [](SimRank& rank) {
      static_cast<void>(rank.protocol().flush());
      return read(rank, 0, 0);
    };
    const std::vector<std::vector<Turn>> steps = {
        {{1, [&](SimRank& rank) { static_cast<void>(flush_and_read(rank)); }}},  // a copy that is old then
        {{2,
          [](SimRank& rank) {
            write(rank, 0, 0, value);
            static_cast<void>(rank.protocol().flush());
          }}},
        {{1, [&](SimRank& rank) { first = flush_and_read(rank); }},
         {1, [&](SimRank& rank) { second = flush_and_read(rank); }}}};
    ASSERT_EQ(take_steps(seed, 3, SegmentShape{}, steps), "") << "seed " << seed;
    ASSERT_EQ(first, value) << "seed " << seed;
    ASSERT_EQ(second, value) << "seed " << seed;
  }
}

/// What is flushed after a barrier may follow from what that told, which is not told again: a rank's thread
/// that finds it waits for the one that is in the barrier still.
TEST(Flush, WaitsForABarrierThatOthersHaveLeft) {
  constexpr std::uint64_t seeds = 200, data = 5, flag = 7;
  fabric::sim::Profile slow_threads;
  slow_threads.pace_ns = 5000;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    bool has_flushed = false;
    std::uint64_t found_flag = 0;
    std::uint64_t found_data = 0;
    const auto flush = [](SimRank& rank) { static_cast<void>(rank.protocol().flush()); };
    const auto meet = [](SimRank& rank) { rank.barrier().meet(3); };
    const std::vector<std::vector<Turn>> steps = {
        {{0, flush}},
        {{2, flush}},
        {{1,
          [&](SimRank& rank) {
            flush(rank);
            found_data = read(rank, 1, 0);
          }}},
        {{0, meet},
         {2,
          [&](SimRank& rank) {
            write(rank, 1, 0, data);
            meet(rank);
            write(rank, 2, 0, flag);
            flush(rank);
            has_flushed = true;
          }},
         {1, meet},
         {1, [&](SimRank& rank) {
            static_cast<void>(rank.fabric().wait_until([&] { return has_flushed; }, no_deadline));
            flush(rank);
            found_flag = read(rank, 2, 0);
            found_data = read(rank, 1, 0);
          }}}};
    ASSERT_EQ(take_steps(seed, 3, SegmentShape{}, steps, slow_threads), "") << "seed " << seed;
    ASSERT_EQ(found_flag, flag) << "seed " << seed;
    ASSERT_EQ(found_data, data) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
