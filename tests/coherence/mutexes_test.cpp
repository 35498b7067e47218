/// \file
/// How many ranks a mutex is asked of where each asks another one by messages: simulated ranks that take
/// turns.
#include "space/mutexes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/sim/random.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr space::MutexId turned_mutex = 1;
constexpr Rank turning_ranks = 8;
constexpr unsigned rounds = 20;

/// \returns of how many ranks the mutex was asked in all, each time that a rank asked another
std::uint64_t hops_in_turn(const std::vector<Rank>& turns, std::uint64_t seed) {
  World world({.size = turning_ranks, .seed = seed, .agents_serve = true, .stack_bytes = 128 * 1024});
  std::vector<std::unique_ptr<SimRank>> ranks(turning_ranks);
  std::vector<SimFabric*> fabrics(turning_ranks);
  std::size_t turn = 0;
  std::uint64_t hops = 0;
  for (Rank rank = 0; rank < turning_ranks; ++rank) {
    world.spawn(rank, [&, rank](SimFabric& fabric) {
      fabrics[rank] = &fabric;
      ranks[rank] =
          std::make_unique<SimRank>(fabric, std::vector{SegmentShape{}}, SpaceDials{}, 1, turned_mutex + 1);
      ranks[rank]->barrier().wait();
      for (;;) {
        static_cast<void>(
            fabric.wait_until([&] { return turn == turns.size() || turns[turn] == rank; }, no_deadline));
        if (turn == turns.size()) break;
        ranks[rank]->mutexes().lock(turned_mutex);
        ranks[rank]->mutexes().unlock(turned_mutex);
        ++turn;
        for (SimFabric* each : fabrics) each->notify();
      }
      hops += ranks[rank]->protocol().counters().lock_hops.load();
      ranks[rank]->barrier().wait();
      ranks[rank]->close();
    });
  }
  EXPECT_EQ(world.run().failure, "") << "seed " << seed;
  return hops;
}

TEST(Mutexes, AreAskedOfFewRanksWhereAllTakeTurns) {
  std::vector<Rank> turns;
  for (unsigned round = 0; round < rounds; ++round)
    for (Rank rank = 0; rank < turning_ranks; ++rank) turns.push_back(rank);
  // Along links that are never made shorter it would be seven.
  EXPECT_LE(hops_in_turn(turns, 1), 5 * turns.size() / 2);
}

TEST(Mutexes, AreAskedOfFewRanksInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    std::vector<Rank> turns;
    for (unsigned i = 0; i < rounds * turning_ranks; ++i)
      turns.push_back(static_cast<Rank>(random.below(turning_ranks)));
    // The logarithm of their number, at most; along links that are never made shorter some 3.5.
    EXPECT_LE(hops_in_turn(turns, seed), 3 * turns.size());
  }
}

}  // namespace

}  // namespace craton::coherence::test
