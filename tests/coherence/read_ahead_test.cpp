/// \file
/// What reading ahead must leave alone: three simulated ranks that take turns, on random schedules.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::SimFabric;
using fabric::sim::World;

struct Turn {
  Rank rank;
  std::function<void(SimRank&)> run;
};

/// Each turn begins when the one before it has ended. \returns what failed
std::string take_turns(std::uint64_t seed, Rank ranks, const SegmentShape& shape,
                       const std::vector<Turn>& turns) {
  World world({.size = ranks, .seed = seed, .stack_bytes = 128 * 1024});
  std::vector<std::unique_ptr<SimRank>> all(ranks);
  std::vector<SimFabric*> fabrics(ranks);
  std::size_t next = 0;
  for (Rank rank = 0; rank < ranks; ++rank) {
    world.spawn(rank, [&](SimFabric& fabric) {
      const Rank self = fabric.rank();
      fabrics[self] = &fabric;
      all[self] = std::make_unique<SimRank>(fabric, std::vector{shape}, SpaceDials{}, 1, 1);
      all[self]->barrier().wait();
      for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        if (turns[turn].rank != self) continue;
        static_cast<void>(fabric.wait_until([&] { return next == turn; }, no_deadline));
        turns[turn].run(*all[self]);
        ++next;
        for (SimFabric* each : fabrics) each->notify();
      }
      all[self]->barrier().wait();
      all[self]->close();
    });
  }
  return world.run().failure;
}

constexpr std::size_t block_bytes = 64;

void write(SimRank& rank, std::uint64_t block, std::uint64_t word, std::uint64_t value) {
  rank.store(0, block * block_bytes + word * sizeof value, &value, sizeof value);
}
std::uint64_t read(SimRank& rank, std::uint64_t block, std::uint64_t word) {
  std::uint64_t value = 0;
  rank.load(0, block * block_bytes + word * sizeof value, &value, sizeof value);
  return value;
}

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
