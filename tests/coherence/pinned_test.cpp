/// \file
/// Pinned blocks (LeaseSegment::pin), which acquires bring up to date instead of closing them: simulated
/// ranks of which one has two threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

constexpr std::uint32_t site_word = 0;
constexpr std::uint64_t told = 5, updated = 7;

/// A thread updates a pinned block, and has it until its rank has heard what rank 0 has told, which it finds
/// to be known where it got the block from. The thread that hears it must not wait for the block before,
/// when it leaves the meeting that came first.
TEST(Pinned, WhoHasMetHearsWhatFollowsBeforeItWaitsForThem) {
  constexpr std::uint64_t seeds = 200;
  fabric::sim::Profile slow_messages;  // the block is here before the others' part of the meeting
  slow_messages.message_ns = 5000;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SegmentShape shape;
    shape.block_bytes = block_bytes;
    bool has_updated = false;
    std::uint64_t found = 0;
    std::uint64_t found_told = 0;
    space::BarrierNote note;
    note.is_marked = true;
    const auto meet = [note](SimRank& rank) {
      space::BarrierNote carried = note;
      rank.barrier().meet(2, 0, &carried);
    };
    const std::vector<std::vector<Turn>> steps = {
        {{1, [](SimRank& rank) { rank.protocol().segment(0).pin(0); }}},
        {{0,
          [&](SimRank& rank) {
            write(rank, 1, 0, told);
            meet(rank);
            write(rank, 2, 0, told);
            space::BarrierNote next;
            next.count = 1;
            next.words[site_word] = 0;
            rank.barrier().tell(2, next);
            rank.update(0, 0, sizeof updated,
                        [](std::byte* word) { std::memcpy(word, &updated, sizeof updated); });
            has_updated = true;
          }},
         {1,
          [&](SimRank& rank) {
            meet(rank);
            rank.barrier().hear(site_word);
            found_told = read(rank, 2, 0);
          }},
         {1, [&](SimRank& rank) {
            static_cast<void>(rank.fabric().wait_until([&] { return has_updated; }, no_deadline));
            rank.update(0, 0, sizeof found,
                        [&](std::byte* word) { std::memcpy(&found, word, sizeof found); });
          }}}};
    ASSERT_EQ(take_steps(seed, 2, shape, steps, slow_messages), "") << "seed " << seed;
    ASSERT_EQ(found, updated) << "seed " << seed;
    ASSERT_EQ(found_told, told) << "seed " << seed;
  }
}

/// Ranks ask for a block with atomics to become strong, which it cannot while it is pinned; none may be kept
/// from its update by the others' asking for ever.
TEST(Pinned, IsUpdatedByAll) {
  constexpr std::uint64_t seeds = 100, times = 5;
  constexpr Rank ranks = 4;
  SegmentShape shape;
  shape.dials.strength = Strength::automatic;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<Turn> together;
    for (Rank rank = 0; rank < ranks; ++rank) {
      together.push_back({rank, [](SimRank& self) {
                            for (std::uint64_t i = 0; i < times; ++i)
                              self.atomic(0, 0, sizeof i, [](std::byte* word) {
                                std::uint64_t value = 0;
                                std::memcpy(&value, word, sizeof value);
                                ++value;
                                std::memcpy(word, &value, sizeof value);
                              });
                          }});
    }
    std::uint64_t sum = 0;
    const std::vector<std::vector<Turn>> steps = {
        {{0, [](SimRank& rank) { rank.protocol().segment(0).pin(0); }}},
        together,
        {{0, [&](SimRank& rank) {
            rank.update(0, 0, sizeof sum, [&](std::byte* word) { std::memcpy(&sum, word, sizeof sum); });
          }}}};
    ASSERT_EQ(take_steps(seed, ranks, shape, steps), "") << "seed " << seed;
    ASSERT_EQ(sum, ranks * times) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
