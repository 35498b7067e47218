/// \file
/// A simulated job whose ranks have a pool of tasks each, and threads that meet as those of a team do
/// (omp/team.cpp). Messages of one rank to another keep their order. A rank's handlers run one at a time, in
/// its agent or in a thread of its that waits in the fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/function_ref.hpp"
#include "omp/message.hpp"
#include "omp/task.hpp"
#include "omp/task_host.hpp"
#include "omp/task_pool.hpp"
#include "omp/thread.hpp"
#include "sim_threads.hpp"

namespace craton::omp::test {

using craton::test::Known;
using craton::test::Random;
using craton::test::Rank;
using craton::test::SimThread;
using craton::test::SimThreads;

/// What a thread does in a region of that number.
using Part = std::function<void(std::size_t region)>;

class SimTeam : public SimThreads {
 public:
  /// \param given called with what ends with a task: its block
  SimTeam(std::uint64_t seed, Rank ranks, std::uint32_t threads_a_rank, std::function<void(void*)> given);
  ~SimTeam();
  SimTeam(const SimTeam&) = delete;
  SimTeam& operator=(const SimTeam&) = delete;

  /// Has all threads run a region after the other. \param ranks of each; the others are in none
  void spawn_threads(const std::vector<Rank>& ranks, const Part& part);

  // ---- From inside threads

  TaskPool& pool() { return *rank_of_current().pool; }
  Thread& thread() { return *threads_[current().number]; }
  /// A barrier of the region. \returns when all threads of it have come, and all tasks have ended
  void meet(std::size_t region);
  /// The event of a task of that rank.
  void fulfil(Rank rank, Task& task);
  /// Sleeps until wake_all().
  void sleep_among(std::vector<fabric::sim::Fiber*>& sleepers, const char* doing);
  void wake_all(std::vector<fabric::sim::Fiber*>& sleepers);

 private:
  class Host;
  struct Letter {
    Rank source;
    Message message;
  };
  struct RankState {
    std::unique_ptr<Host> host;
    std::unique_ptr<TaskPool> pool;
    std::unique_ptr<Task[]> implicit;
    Known published;
    std::vector<TimeNs> last_due_ns;  ///< of what was sent to each other rank
    std::deque<Letter> letters;       ///< that have come
    fabric::sim::Fiber* handler = nullptr;
    std::vector<fabric::sim::Fiber*> in_fabric, at_gate, agents;
    std::uint32_t arrived = 0, meetings = 0;
    std::size_t begun = 0, heard = 0;  ///< regions, from 1
    std::uint32_t inside = 0;
    std::size_t barriers = 0, left = 0;  ///< of the region, that it has come to, and left
    std::vector<fabric::sim::Fiber*> behind;
    Known told;  ///< with the last region
  };
  struct Barrier {
    Rank arrived = 0;
    Known known;
    std::vector<bool> heard;
  };

  RankState& rank_of_current() { return ranks_[current().rank]; }
  void handle(Rank rank);
  void come(std::size_t region, bool is_end);
  void meet_ranks(RankState& here, std::size_t region, bool is_end);
  void wait_helping(RankState& here, FunctionRef<bool()> condition);
  void run_first(Rank rank, const Part& part);
  void run_other(Rank rank, std::uint32_t local, const Part& part);
  void tell(Rank to, std::size_t region);
  void begin(RankState& here, std::size_t region);
  void run_part(RankState& here, std::uint32_t local, std::size_t region, const Part& part);
  void beat(Rank rank);

  const std::uint32_t threads_a_rank_;
  const TimeNs latency_ns_;
  const bool threads_hear_;  ///< after the end of a region they help until the rank has heard of the next one
  const std::function<void(void*)> given_;
  std::vector<Rank> regions_;
  std::vector<RankState> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, Barrier> barriers_;  ///< by region and number in it
  std::deque<Rank> gathered_;                                        ///< by region
  std::deque<std::unique_ptr<Thread>> threads_;                      ///< by number
};

}  // namespace craton::omp::test
