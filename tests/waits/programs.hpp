/// \file
/// What random programs of waiting threads have in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedules.hpp"
#include "sim_job.hpp"

namespace craton::posix::test {

/// The programs of a seed.
class WaitingRun {
 public:
  explicit WaitingRun(std::uint64_t seed) : seed_(seed), job_(seed, ranks_of(seed)) {}
  Seen seen;

 protected:
  /// What the run says of a failure, after which it is over.
  std::string said(const std::string& failure) {
    if (failure.empty()) return failure;
    job_.abandon();
    return "seed " + std::to_string(seed_) + ", " + failure;
  }
  Random& random() { return job_.random(); }
  /// One or a few threads of each rank, of a few ranks one has none. \param body of a thread of that number
  template <typename Body>
  void spawn_threads(std::size_t least, const Body& body) {
    const std::size_t per_rank = job_.size() > 8 ? 1 : random().between(1, 3);
    const std::size_t count = std::max(least, job_.size() * per_rank);
    for (std::size_t i = 0; i < count; ++i)
      threads_.push_back(&job_.spawn(static_cast<Rank>(i % job_.size()), [body, i] { body(i); }));
  }

  const std::uint64_t seed_;
  SimJob job_;
  std::vector<SimThread*> threads_;

 private:
  /// Where there are more than the 32 that have a bit of their own, several share one.
  static Rank ranks_of(std::uint64_t seed) {
    Random random(Random::mix(seed ^ 0x5eedU));
    return static_cast<Rank>(random.one_in(64) ? random.between(33, 36) : random.between(2, 5));
  }
};

}  // namespace craton::posix::test
