/// \file
/// Simulated ranks that take turns, or steps together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim_space.hpp"

namespace craton::coherence::test {

/// Of the ranks' segment, as SegmentShape has it.
inline constexpr std::size_t block_bytes = 64;

inline void write(SimRank& rank, std::uint64_t block, std::uint64_t word, std::uint64_t value) {
  rank.store(0, block * block_bytes + word * sizeof value, &value, sizeof value);
}
inline std::uint64_t read(SimRank& rank, std::uint64_t block, std::uint64_t word) {
  std::uint64_t value = 0;
  rank.load(0, block * block_bytes + word * sizeof value, &value, sizeof value);
  return value;
}

struct Turn {
  fabric::Rank rank;
  std::function<void(SimRank&)> run;
};

/// In each step its turns run at a time, all but a rank's first one on threads of their own; it ends when
/// they have ended. \param profile without it the seed draws one \returns what failed
inline std::string take_steps(std::uint64_t seed, fabric::Rank ranks, const SegmentShape& shape,
                              const std::vector<std::vector<Turn>>& steps,
                              std::optional<fabric::sim::Profile> profile = {},
                              const SpaceDials& dials = {}) {
  fabric::sim::World world({.size = ranks,
                            .seed = seed,
                            .agents_serve = seed % 2 == 0,
                            .stack_bytes = 128 * 1024,
                            .profile = profile});
  std::vector<std::unique_ptr<SimRank>> all(ranks);
  std::vector<fabric::sim::SimFabric*> fabrics(ranks);
  std::vector<std::size_t> left;
  for (const std::vector<Turn>& turns : steps) left.push_back(turns.size());
  for (fabric::Rank rank = 0; rank < ranks; ++rank) {
    world.spawn(rank, [&](fabric::sim::SimFabric& fabric) {
      const fabric::Rank self = fabric.rank();
      fabrics[self] = &fabric;
      all[self] = std::make_unique<SimRank>(fabric, std::vector{shape}, dials, 1, 1);
      all[self]->barrier().wait();
      for (std::size_t step = 0; step < steps.size(); ++step) {
        const auto run = [&, self, step](const Turn& turn) {
          turn.run(*all[self]);
          --left[step];
          for (fabric::sim::SimFabric* each : fabrics) each->notify();
        };
        const Turn* first = nullptr;
        for (const Turn& turn : steps[step]) {
          if (turn.rank != self) continue;
          if (first == nullptr) {
            first = &turn;
          } else {
            world.spawn(self, [run, &turn](fabric::sim::SimFabric& /*same*/) { run(turn); });
          }
        }
        if (first != nullptr) run(*first);
        static_cast<void>(fabric.wait_until([&] { return left[step] == 0; }, no_deadline));
      }
      all[self]->barrier().wait();
      all[self]->close();
    });
  }
  return world.run().failure;
}

/// Each turn begins when the one before it has ended. \returns what failed
inline std::string take_turns(std::uint64_t seed, fabric::Rank ranks, const SegmentShape& shape,
                              const std::vector<Turn>& turns) {
  std::vector<std::vector<Turn>> steps;
  for (const Turn& turn : turns) steps.push_back({turn});
  return take_steps(seed, ranks, shape, steps);
}

}  // namespace craton::coherence::test
