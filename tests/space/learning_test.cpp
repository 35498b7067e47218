/// \file
/// What acquires learn: which blocks are needed after which of them, and for what. Looks at open blocks are
/// dear on a busy machine, so it may take more faults here than where looks take no time
/// (tests/coherence/changing_hands_test.cpp).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

/// A grid that changes hands, as the transpose of a Fourier transform: rank 0 writes all of it twice while
/// rank 1 does not look, then rank 1 does.
void grid_changes_hands(RankSpace& rank) {
  constexpr std::uint64_t blocks = 64;
  constexpr unsigned iterations = 40;
  constexpr unsigned warm = 20;
  Segment& segment =
      rank.space.create_segment({.name = "grid", .bytes = blocks * 16384, .initial_homes = {}, .dials = {}});
  const std::size_t words_a_block = segment.block_bytes() / sizeof(std::uint64_t);
  const std::uint64_t words = segment.bytes() / sizeof(std::uint64_t);
  auto* const grid = reinterpret_cast<std::uint64_t*>(segment.data());
  const auto add_to_all = [&](fabric::Rank who, std::uint64_t expected) {
    if (rank.rank() != who) return;
    for (std::uint64_t word = 0; word < words; word += words_a_block / 4) {
      rank.check(grid[word] == expected,
                 "word " + std::to_string(word) + " is " + std::to_string(grid[word]));
      ++grid[word];
    }
  };
  const coherence::Counters& counters = segment.blocks().counters();
  std::uint64_t faults = 0;
  std::uint64_t fetched = 0;
  for (unsigned i = 0; i < iterations; ++i) {
    if (i == warm) {
      faults = counters.read_faults + counters.write_faults;
      fetched = counters.fetched_bytes;
    }
    add_to_all(0, 3 * std::uint64_t{i});
    rank.space.barrier().wait(0x10);
    add_to_all(0, 3 * std::uint64_t{i} + 1);
    rank.space.barrier().wait(0x20);
    add_to_all(1, 3 * std::uint64_t{i} + 2);
    rank.space.barrier().wait(0x30);
  }
  if (rank.rank() != 1) return;
  faults = counters.read_faults + counters.write_faults - faults;
  fetched = counters.fetched_bytes - fetched;
  constexpr unsigned measured = iterations - warm;
  // Now and then a block is left closed, to see whether it is still used: read, then written.
  rank.check(faults <= 7 * measured, std::to_string(faults) + " faults where all is known");
  rank.check(fetched <= measured * segment.bytes() * 105 / 100,
             std::to_string(fetched) + " bytes fetched, of " + std::to_string(measured * segment.bytes()));
}

TEST(Learning, WhatChangesHandsIsFetchedOnceAndOpenForWhatItIsNeeded) {
  const Machine& machine = machines.front();
  const std::string failure = run_space(machine, 2, {}, grid_changes_hands);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

}  // namespace

}  // namespace craton::space::test
