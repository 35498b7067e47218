/// \file
/// What a barrier tells: few blocks go by a store into the neighbour's memory, many by messages.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

/// Rank after rank writes so many blocks, and after the barrier all find them written.
void all_find_what_one_wrote(RankSpace& rank) {
  constexpr std::uint64_t counts[] = {1, 40, 0, 700, 3, 1500};
  constexpr std::uint64_t blocks = 1500;
  Segment& segment =
      rank.space.create_segment({.name = "blocks", .bytes = blocks * 4096, .initial_homes = {}, .dials = {}});
  rank.check(segment.block_bytes() == 4096, "blocks have another size");
  std::uint64_t round = 0;
  const auto word_of = [&](std::uint64_t block) -> std::uint64_t& {
    return *reinterpret_cast<std::uint64_t*>(segment.data() + block * 4096);
  };
  for (const std::uint64_t count : counts) {
    for (fabric::Rank writer = 0; writer < rank.size(); ++writer) {
      ++round;
      for (std::uint64_t block = 0; rank.rank() == writer && block < count; ++block) word_of(block) = round;
      rank.space.barrier().wait(0x10 + writer);
      for (std::uint64_t block = 0; block < count; ++block)
        rank.check(word_of(block) == round,
                   "block " + std::to_string(block) + " of " + std::to_string(count) + " has " +
                       std::to_string(word_of(block)) + ", not " + std::to_string(round));
      rank.space.barrier().wait(0x20 + writer);
    }
  }
}

class BarrierOver : public testing::TestWithParam<fabric::Rank> {};

TEST_P(BarrierOver, TellsOfAsManyBlocksAsWereWritten) {
  const std::string failure = run_space(machines.front(), GetParam(), {}, all_find_what_one_wrote);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, BarrierOver, testing::Values(2U, 4U));

}  // namespace

}  // namespace craton::space::test
