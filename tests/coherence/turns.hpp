/// \file
/// Simulated ranks that take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim_space.hpp"

namespace craton::coherence::test {

struct Turn {
  fabric::Rank rank;
  std::function<void(SimRank&)> run;
};

/// Each turn begins when the one before it has ended. \returns what failed
inline std::string take_turns(std::uint64_t seed, fabric::Rank ranks, const SegmentShape& shape,
                              const std::vector<Turn>& turns) {
  fabric::sim::World world({.size = ranks, .seed = seed, .stack_bytes = 128 * 1024});
  std::vector<std::unique_ptr<SimRank>> all(ranks);
  std::vector<fabric::sim::SimFabric*> fabrics(ranks);
  std::size_t next = 0;
  for (fabric::Rank rank = 0; rank < ranks; ++rank) {
    world.spawn(rank, [&](fabric::sim::SimFabric& fabric) {
      const fabric::Rank self = fabric.rank();
      fabrics[self] = &fabric;
      all[self] = std::make_unique<SimRank>(fabric, std::vector{shape}, SpaceDials{}, 1, 1);
      all[self]->barrier().wait();
      for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        if (turns[turn].rank != self) continue;
        static_cast<void>(fabric.wait_until([&] { return next == turn; }, no_deadline));
        turns[turn].run(*all[self]);
        ++next;
        for (fabric::sim::SimFabric* each : fabrics) each->notify();
      }
      all[self]->barrier().wait();
      all[self]->close();
    });
  }
  return world.run().failure;
}

}  // namespace craton::coherence::test
