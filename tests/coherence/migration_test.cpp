/// \file
/// Blocks that migrate (lease_segment_migrate.cpp): what simulated ranks find in them, and what they cost,
/// where the order of events is known but for one step.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedules.hpp"
#include "sim_space.hpp"
#include "turns.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;

constexpr Rank own = 0, other = 1, third = 2, fourth = 3;
constexpr std::uint32_t site = 1;
constexpr std::uint64_t seeds = 500;
constexpr std::uint64_t stays = 77;  ///< what a block has where a write to it is taken back

SegmentShape shape_of(std::uint8_t migrate_after, std::uint32_t probe_one_in) {
  SegmentShape shape;
  shape.block_bytes = block_bytes;
  shape.initial_homes = {.kind = InitialHomes::Kind::one, .rank = other};
  shape.dials.migrate_after = migrate_after;
  shape.dials.probe_one_in = probe_one_in;
  shape.dials.looks_a_fault = 0;
  return shape;
}

/// A rank acquires what the other one wrote, and writes the block itself. Later releases close what it has
/// not written since.
Turn take_over(Rank rank, std::uint64_t value, std::uint64_t block = 0, std::uint64_t word = 0) {
  return {rank, [=](SimRank& self) {
            self.protocol().acquire(rank == own ? other : own, site);
            write(self, block, word, value);
            for (int release = 0; release < 3; ++release) self.protocol().release();
          }};
}

std::vector<Turn> take_over_in_turn(std::uint64_t times, std::uint64_t block = 0) {
  std::vector<Turn> turns;
  for (std::uint64_t i = 1; i <= times; ++i) turns.push_back(take_over(i % 2 == 1 ? other : own, i, block));
  return turns;
}

/// What a rank does from one of its turns to the end.
struct Spent {
  std::uint64_t faults = 0;
  std::uint64_t twins = 0;
  std::uint64_t merges = 0;
  std::uint64_t migrated = 0;
};
Spent spent(SimRank& rank) {
  const LeaseRelease& protocol = rank.protocol();
  return {.faults = protocol.count(&Counters::read_faults) + protocol.count(&Counters::write_faults),
          .twins = protocol.count(&Counters::twins),
          .merges = protocol.count(&Counters::merges),
          .migrated = protocol.count(&Counters::migrated)};
}

std::string run_in_turn(const SegmentShape& shape, std::uint64_t learning, std::uint64_t times,
                        Spent& after) {
  std::vector<Turn> turns = take_over_in_turn(learning);
  Spent before;
  turns.push_back({own, [&before](SimRank& rank) { before = spent(rank); }});
  for (const Turn& turn : take_over_in_turn(2 * times)) turns.push_back(turn);
  turns.push_back({own, [&before, &after](SimRank& rank) {
                     after = spent(rank);
                     after.faults -= before.faults;
                     after.twins -= before.twins;
                     after.merges -= before.merges;
                     after.migrated -= before.migrated;
                   }});
  return take_turns(1, 2, shape, turns);
}

TEST(Migration, CostsNoFaultAndNoTwinWhenItIsLearnt) {
  constexpr std::uint64_t times = 10;
  Spent after;
  ASSERT_EQ(run_in_turn(shape_of(1, 0), 8, times, after), "");
  EXPECT_EQ(after.migrated, times);
  EXPECT_EQ(after.faults, 0U);
  EXPECT_EQ(after.twins, 0U);
  EXPECT_EQ(after.merges, 0U);
}

TEST(Migration, CanBeSwitchedOff) {
  constexpr std::uint64_t times = 10;
  Spent after;
  ASSERT_EQ(run_in_turn(shape_of(Dials::never, 0), 8, times, after), "");
  EXPECT_EQ(after.migrated, 0U);
  EXPECT_EQ(after.merges, times);
}

/// A rank that has stopped to write a block leaves its home where it is, after it has looked once.
TEST(Migration, EndsWhenTheBlockIsOnlyRead) {
  constexpr std::uint64_t times = 40;
  std::uint64_t found = 0;
  std::uint64_t migrated = 0;
  std::vector<Turn> turns = take_over_in_turn(10);
  for (std::uint64_t i = 1; i <= times; ++i) {
    turns.push_back(take_over(other, 100 + i));
    turns.push_back({own, [&found, &migrated, i](SimRank& rank) {
                       const std::uint64_t before = spent(rank).migrated;
                       rank.protocol().acquire(other, site);
                       found = read(rank, 0, 0);
                       rank.protocol().release();
                       if (i > times / 2) migrated += spent(rank).migrated - before;
                     }});
  }
  ASSERT_EQ(take_turns(1, 2, shape_of(1, 16), turns), "");
  EXPECT_EQ(found, 100 + times);
  EXPECT_EQ(migrated, 0U);
}

/// While a reader fetches a kept block, another rank takes its home, and the home so far writes what it takes
/// back before its release: that has nothing to tell, and the reader must not have seen it.
TEST(Migration, AReaderGetsNothingThatAFormerHomeTakesBack) {
  constexpr std::uint64_t passing = 999;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    std::uint64_t kept = 0;
    std::uint64_t found = 0;
    std::vector<std::vector<Turn>> steps;
    for (const Turn& turn : take_over_in_turn(8)) steps.push_back({turn});
    steps.push_back({{own, [](SimRank& rank) {
                        rank.protocol().acquire(other, site);
                        write(rank, 0, 1, stays);
                        rank.protocol().release();
                      }}});
    steps.push_back({take_over(other, 9)});
    steps.push_back({take_over(own, 10)});
    steps.push_back({{own, [&kept](SimRank& rank) { kept = rank.protocol().count(&Counters::kept); }}});
    steps.push_back({{third,
                      [](SimRank& rank) {
                        rank.protocol().acquire(own, site);
                        static_cast<void>(read(rank, 0, 2));
                      }},
                     {other,
                      [](SimRank& rank) {
                        rank.protocol().acquire(own, site);
                        write(rank, 0, 0, 11);
                      }},
                     {own, [](SimRank& rank) {
                        write(rank, 0, 1, passing);
                        static_cast<void>(read(rank, 1, 0));  // takes a while
                        write(rank, 0, 1, stays);
                        rank.protocol().release();
                      }}});
    steps.push_back({{third, [&found](SimRank& rank) {
                        rank.protocol().acquire(own, site);
                        found = read(rank, 0, 1);
                      }}});
    ASSERT_EQ(take_steps(seed, 3, shape_of(0, 0), steps), "") << "seed " << seed;
    ASSERT_GT(kept, 0U);
    ASSERT_EQ(found, stays) << "seed " << seed;
  }
}

/// The lease of a reader's copy of a kept block has ended, and it fetches it again while the home writes it:
/// what came is not what its copy was, though the home has published nothing since.
/// \param overtaken one more if the reader could not have it \returns what it finds in the end
std::uint64_t read_after_overwriting(std::uint64_t seed, const std::function<void(SimRank&)>& fetch_again,
                                     std::uint64_t& overtaken) {
  constexpr std::uint64_t block = 2, passing = 999;
  constexpr std::uint32_t elsewhere = 2;
  fabric::sim::Profile slow_effects;
  slow_effects.effect_ns = 5000;
  const auto set = [](std::byte* word) { *word = std::byte{1}; };
  const auto read_it = [](SimRank& rank) {
    rank.protocol().acquire(own, site);
    static_cast<void>(read(rank, block, 1));
  };
  std::uint64_t found = 0;
  std::vector<std::vector<Turn>> steps;
  for (const Turn& turn : take_over_in_turn(8, block)) steps.push_back({turn});
  steps.push_back({{third, read_it}});
  steps.push_back({take_over(other, 9, block)});
  steps.push_back({take_over(own, stays, block, 1)});
  steps.push_back({{third, read_it}});
  steps.push_back({{other, [](SimRank& rank) {  // can tell what it has heard
                      rank.protocol().acquire(own, elsewhere);
                      rank.protocol().release();
                    }}});
  steps.push_back({{fourth, [set](SimRank& rank) {  // much time passes
                      for (unsigned i = 0; i < 40; ++i) rank.update(0, (1 + i % 2 * 2) * block_bytes, 1, set);
                    }}});
  steps.push_back({{third, [](SimRank& rank) {
                      rank.protocol().acquire(fourth, elsewhere);
                      static_cast<void>(read(rank, 0, 0));
                    }}});
  steps.push_back({{third, fetch_again}, {own, [seed](SimRank& rank) {
                                            // About when the reader has been lent it.
                                            for (std::uint64_t i = 0; i < seed % 8; ++i)
                                              rank.protocol().acquire(other, elsewhere);
                                            write(rank, block, 1, passing);
                                          }}});
  steps.push_back({{third, [&overtaken, set](SimRank& rank) {
                      if (rank.access(0, block) == vm::Access::none) ++overtaken;
                      rank.update(0, block * block_bytes, 1, set);
                    }}});
  steps.push_back({{own, [](SimRank& rank) {
                      write(rank, block, 1, stays);
                      rank.protocol().release();
                    }}});
  steps.push_back({{third, [&found](SimRank& rank) {
                      rank.protocol().acquire(own, site);
                      found = read(rank, block, 1);
                    }}});
  EXPECT_EQ(take_steps(seed, 4, shape_of(0, 0), steps, slow_effects, {.notice_capacity = 1}), "")
      << "seed " << seed;
  return found;
}

/// The same for many seeds: the reader always finds what the home has.
void expect_disbelief(const std::function<void(SimRank&)>& fetch_again) {
  std::uint64_t overtaken = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed)
    ASSERT_EQ(read_after_overwriting(seed, fetch_again, overtaken), stays) << "seed " << seed;
  EXPECT_GT(overtaken, 0U);
  EXPECT_LT(overtaken, seeds);
}

TEST(Migration, WhoTakesAHomeDoesNotBelieveInACopyThatAnAcquireOverwrote) {
  expect_disbelief([](SimRank& rank) { rank.protocol().acquire(other, site); });
}

TEST(Migration, WhoTakesAHomeDoesNotBelieveInACopyThatReadingAheadOverwrote) {
  expect_disbelief([](SimRank& rank) { static_cast<void>(read(rank, 1, 0)); });
}

/// Another rank takes the home of a block that migrated, while a reader has its writer make a twin: what is
/// in that twin the writer does not publish any more, so who takes the home must not believe that nobody has
/// written the block since its own copy. It may have read the home's words in part before the twin was made.
TEST(Migration, WhoTakesAHomeGetsWhatWasWrittenBeforeATwin) {
  constexpr std::uint64_t before_twin = 55, merged = 77;
  fabric::sim::Profile slow_effects;  // and much happens before the last piece of the words has been read
  slow_effects.effect_ns = 5000;
  slow_effects.pieces_at_most = 8;
  const std::uint64_t tries = schedules_wanted(4000, 500);
  for (std::uint64_t seed = 1; seed <= 2 * tries; seed += 2) {  // so that it is done by one-sided operations
    std::uint64_t found = 0;
    std::uint64_t found_merged = 0;
    std::uint64_t migrated = 0;
    std::vector<std::vector<Turn>> steps;
    for (const Turn& turn : take_over_in_turn(9)) steps.push_back({turn});
    steps.push_back({{third, [](SimRank& rank) {
                        rank.protocol().acquire(other, site);
                        write(rank, 0, 2, merged);
                      }}});
    steps.push_back({{own, [&migrated](SimRank& rank) {
                        const std::uint64_t before = spent(rank).migrated;
                        rank.protocol().acquire(other, site);
                        migrated = spent(rank).migrated - before;
                        write(rank, 0, 0, before_twin);
                      }}});
    steps.push_back({{fourth,
                      [](SimRank& rank) {
                        rank.protocol().acquire(other, site);
                        static_cast<void>(read(rank, 0, 1));
                      }},
                     {third, [seed](SimRank& rank) {
                        // About when the reader has been answered.
                        for (std::uint64_t i = 0; i < seed / 2 % 8; ++i)
                          rank.protocol().acquire(fourth, site);
                        rank.protocol().release();
                      }}});
    steps.push_back({{own, [](SimRank& rank) { rank.protocol().release(); }}});
    steps.push_back({{third,
                      [&found](SimRank& rank) {
                        rank.protocol().acquire(own, site);
                        found = read(rank, 0, 0);
                      }},
                     {own, [&found_merged](SimRank& rank) {
                        rank.protocol().acquire(third, site);
                        found_merged = read(rank, 0, 2);
                      }}});
    ASSERT_EQ(take_steps(seed, 4, shape_of(1, 0), steps, slow_effects), "") << "seed " << seed;
    ASSERT_EQ(migrated, 1U);
    ASSERT_EQ(found, before_twin) << "seed " << seed;
    ASSERT_EQ(found_merged, merged) << "seed " << seed;
  }
}

}  // namespace

}  // namespace craton::coherence::test
