/// \file
/// A simulated job of ranks with threads: fibers of the simulator's scheduler in place of threads, its events
/// in place of messages. Nobody looks again without reason, so a wake-up that is lost is a thread that never
/// ends.
///
/// What ranks know: a rank has written so often, and knows of so many of each other's writes. Programs call
/// wrote() before they let others on and know_at_least() after they have been let on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabric/sim/random.hpp"
#include "fabric/sim/scheduler.hpp"
#include "fabric/types.hpp"

namespace craton::test {

using fabric::Rank;
using fabric::sim::Random;

/// Of each rank the number of its writes.
class Known {
 public:
  explicit Known(std::size_t ranks = 0) : writes_(ranks) {}
  void add(Rank rank) { ++writes_[rank]; }
  void merge(const Known& other);
  bool includes(const Known& other) const;

 private:
  std::vector<std::uint32_t> writes_;
};

struct SimThread {
  Rank rank;
  std::size_t number;
  bool is_agent;  ///< serves the others, and need not end
  fabric::sim::Fiber* fiber = nullptr;
};

class SimThreads {
 public:
  static constexpr TimeNs pace_ns = 1000;

  SimThreads(std::uint64_t seed, Rank ranks, std::size_t stack_bytes);
  SimThreads(const SimThreads&) = delete;
  SimThreads& operator=(const SimThreads&) = delete;

  Rank size() const noexcept { return static_cast<Rank>(known_.size()); }
  /// Chance for programs.
  Random& random() noexcept { return program_random_; }
  SimThread& spawn(Rank rank, std::function<void()> body) { return add(rank, false, std::move(body)); }
  SimThread& spawn_agent(Rank rank, std::function<void()> body) { return add(rank, true, std::move(body)); }
  /// Runs until nothing happens any more. \returns what failed: threads that have not ended, where
  /// `may_sleep` is false; empty otherwise
  std::string run(bool may_sleep = false);
  /// Ends the threads that have not ended. Where something has failed, or there are agents.
  void abandon();

  // ---- From inside threads

  SimThread& current();
  void fail(const std::string& what);
  void require(bool holds, const char* what) {
    if (!holds) fail(what);
  }
  /// Lets others run, or not. In every loop of a program.
  void maybe_switch();
  /// Computes for a while.
  void compute();
  /// Some time: what a deadline may be.
  TimeNs soon();
  void wrote() { known().add(current().rank); }
  Known& known() { return known_[current().rank]; }
  void know_at_least(const Known& least) { require(known().includes(least), "a write has not been learnt"); }

 protected:
  fabric::sim::Scheduler& scheduler() noexcept { return scheduler_; }
  Random& scheduler_random() noexcept { return random_; }
  bool is_abandoned() const noexcept { return is_abandoned_; }
  Known& known_of(Rank rank) { return known_[rank]; }
  /// As maybe_switch(), but throws nothing where the threads are being ended.
  void others_may_run();

 private:
  SimThread& add(Rank rank, bool is_agent, std::function<void()> body);
  std::string stuck() const;

  Random random_;
  Random program_random_;
  fabric::sim::Scheduler scheduler_;
  std::vector<Known> known_;
  std::vector<std::unique_ptr<SimThread>> threads_;
  std::string failure_;
  bool is_abandoned_ = false;  ///< its threads are being ended: nothing blocks
};

}  // namespace craton::test
