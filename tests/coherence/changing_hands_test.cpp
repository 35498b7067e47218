/// \file
/// What acquires learn of a grid that changes hands: which blocks are needed after which of them, and for
/// what. Looks take no simulated time, so what is counted here does not hang on how fast a machine is;
/// tests/space/learning_test.cpp has the same on a real one.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

class Grid {
 public:
  static constexpr std::uint64_t blocks = 64;
  static constexpr std::size_t block_bytes = 4096;
  static constexpr unsigned iterations = 40;
  static constexpr unsigned warm = 20;  ///< what comes after so many of them is counted

  /// As the transpose of a Fourier transform: rank 0 writes all of it twice while rank 1 does not look, then
  /// rank 1 does.
  void run(SimRank& rank, Rank self) {
    const Counters& counters = rank.protocol().segment(0).counters();
    const auto faults = [&counters] { return counters.read_faults + counters.write_faults; };
    std::uint64_t faults_before = 0;
    std::uint64_t fetched_before = 0;
    for (unsigned i = 0; i < iterations; ++i) {
      if (i == warm) {
        faults_before = faults();
        fetched_before = counters.fetched_bytes;
      }
      if (self == 0) add_to_all(rank, 3 * std::uint64_t{i});
      rank.barrier().wait(0x10);
      if (self == 0) add_to_all(rank, 3 * std::uint64_t{i} + 1);
      rank.barrier().wait(0x20);
      if (self == 1) add_to_all(rank, 3 * std::uint64_t{i} + 2);
      rank.barrier().wait(0x30);
    }
    if (self != 1) return;
    faults_ = faults() - faults_before;
    fetched_bytes_ = counters.fetched_bytes - fetched_before;
  }

  /// Of rank 1.
  std::uint64_t faults() const noexcept { return faults_; }
  std::uint64_t fetched_bytes() const noexcept { return fetched_bytes_; }

 private:
  static void add_to_all(SimRank& rank, std::uint64_t expected) {
    constexpr std::uint64_t step = block_bytes / 4;
    for (std::uint64_t offset = step - sizeof(std::uint64_t); offset < blocks * block_bytes; offset += step) {
      std::uint64_t word = 0;
      rank.load(0, offset, &word, sizeof word);
      EXPECT_EQ(word, expected) << "at " << offset;
      ++word;
      rank.store(0, offset, &word, sizeof word);
    }
  }

  std::uint64_t faults_ = 0;
  std::uint64_t fetched_bytes_ = 0;
};

TEST(ChangingHands, FetchesOnceAndOpensForWhatItIsNeeded) {
  constexpr std::uint64_t seeds = 5;
  SegmentShape shape;
  shape.block_bytes = Grid::block_bytes;
  shape.blocks = Grid::blocks;
  shape.dials.send_after = Dials::never;  // the few words of a block that each rank writes would be sent
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Grid grid;
    const std::string failure = take_steps(seed, 2, shape,
                                           {{{0, [&grid](SimRank& rank) { grid.run(rank, 0); }},
                                             {1, [&grid](SimRank& rank) { grid.run(rank, 1); }}}});
    EXPECT_EQ(failure, "");
    constexpr unsigned measured = Grid::iterations - Grid::warm;
    constexpr std::uint64_t bytes = measured * Grid::blocks * Grid::block_bytes;
    // Now and then a block is left closed, to see whether it is still used: read, then written.
    EXPECT_LE(grid.faults(), 2 * measured);
    EXPECT_GE(grid.fetched_bytes(), bytes);
    EXPECT_LE(grid.fetched_bytes(), bytes * 105 / 100);
  }
}

}  // namespace

}  // namespace craton::coherence::test
