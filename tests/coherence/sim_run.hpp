/// \file
/// What the random programs of simulated ranks have in common: a world of a seed's, the ranks in it, and how
/// a failure says how it can be run again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric/sim/random.hpp"
#include "schedules.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

class SimRun {
 public:
  Seen seen;

 protected:
  /// \param kind of program: those of one seed have nothing to do with each other
  SimRun(std::uint64_t seed, std::uint64_t kind)
      : seed_(seed), random_(fabric::sim::Random::mix(seed ^ kind)) {}

  void make_world(fabric::Rank ranks) {
    world_ = std::make_unique<fabric::sim::World>(
        fabric::sim::Options{.size = ranks,
                             .seed = seed_,
                             .ranks_per_node = random_.one_in(3) ? fabric::Rank{2} : fabric::Rank{1},
                             .direct_neighbours = random_.one_in(2),
                             .agents_serve = agents_serve(seed_),
                             .stack_bytes = std::size_t{128} * 1024});
    ranks_.resize(ranks);
  }
  /// \param main of each rank, called with its fabric \returns what failed
  template <typename Main>
  std::string run_ranks(const Main& main) {
    for (fabric::Rank rank = 0; rank < ranks_.size(); ++rank) world_->spawn(rank, main);
    return world_->run().failure;
  }
  /// The same with how to run it again. \param story lines about the run, each after its end of line
  std::string told(const std::string& failure, const std::string& tests,
                   const std::string& story = {}) const {
    if (failure.empty()) return failure;
    return failure + story + "\n  replay: CRATON_SIM_SEED=" + std::to_string(seed_) +
           " build/bin/test_coherence --gtest_filter='" + tests + "'\n";
  }

  const std::uint64_t seed_;
  fabric::sim::Random random_;
  std::unique_ptr<fabric::sim::World> world_;
  std::vector<std::unique_ptr<SimRank>> ranks_;
};

}  // namespace craton::coherence::test
