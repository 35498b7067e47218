/// \file
/// What a rank has seen of a word it keeps seeing, whatever it acquires from whom: simulated ranks that take
/// turns.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

// Words of block 0.
constexpr std::uint64_t contended = 0;  ///< of ranks 1 and 2
constexpr std::uint64_t beside = 1;

/// Rank 0 learns of the first write, and when it gets the block from rank 1 that one has published the third.
/// Then it learns of the second, which rank 2 still has, without the third.
std::vector<Turn> get_early(std::uint64_t& seen) {
  return {
      {0, [](SimRank& rank) { static_cast<void>(read(rank, 0, contended)); }},
      {1,
       [](SimRank& rank) {
         write(rank, 0, contended, 1);
         rank.protocol().release();
       }},
      {0, [](SimRank& rank) { rank.protocol().acquire(Rank{1}); }},
      {2,
       [](SimRank& rank) {
         rank.protocol().acquire(Rank{1});
         write(rank, 0, beside, 1);
         rank.protocol().release();
       }},
      {1,
       [](SimRank& rank) {
         rank.protocol().acquire(Rank{2});
         write(rank, 0, contended, 2);
         rank.protocol().release();
       }},
      {0, [&seen](SimRank& rank) { seen = read(rank, 0, contended); }},
  };
}

SegmentShape without_prefetch() {
  SegmentShape shape;
  shape.dials.prefetch = false;  // rank 0 is to get the block when it reads
  shape.dials.sole_copies = false;
  return shape;
}

TEST(Copies, DoNotGoBackBehindWhatWasSeen) {
  constexpr std::uint64_t seeds = 20;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t first = 0;
    std::uint64_t then = 0;
    std::vector<Turn> turns = get_early(first);
    turns.push_back({0, [&then](SimRank& rank) {
                       rank.protocol().acquire(Rank{2});
                       then = read(rank, 0, contended);
                     }});
    ASSERT_EQ(take_turns(seed, 3, without_prefetch(), turns), "") << "seed " << seed;
    ASSERT_EQ(first, 2) << "the copy was not newer than what rank 0 knew: this tests nothing";
    ASSERT_EQ(then, 2) << "seed " << seed;
  }
}

/// A thread that has seen the third write, and writes the word, must not find that what it writes is there
/// already, since another thread of its rank acquired the second meanwhile.
TEST(Copies, KeepWhatIsWrittenOverWhatWasSeen) {
  constexpr std::uint64_t seeds = 20;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t first = 0;
    std::uint64_t found = 0;
    std::vector<Turn> turns = get_early(first);
    turns.push_back({0, [](SimRank& rank) {
                       rank.protocol().acquire(Rank{2});
                       write(rank, 0, contended, 1);  // as rank 2 has it
                       rank.protocol().release();
                     }});
    turns.push_back({1, [&found](SimRank& rank) {
                       rank.protocol().acquire(Rank{0});
                       found = read(rank, 0, contended);
                     }});
    ASSERT_EQ(take_turns(seed, 3, without_prefetch(), turns), "") << "seed " << seed;
    ASSERT_EQ(first, 2) << "the copy was not newer than what rank 0 knew: this tests nothing";
    ASSERT_EQ(found, 1) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
