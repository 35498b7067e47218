/// \file
/// A simulated job whose ranks have a team each, and threads that run regions as a program's do
/// (omp/runtime.cpp). Messages of one rank to another keep their order. A rank's handlers run one at a time,
/// in its agent or in a thread of its that waits in the fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/function_ref.hpp"
#include "omp/locks.hpp"
#include "omp/message.hpp"
#include "omp/regions.hpp"
#include "omp/remote_unlocks.hpp"
#include "omp/task.hpp"
#include "omp/team.hpp"
#include "omp/team_host.hpp"
#include "omp/thread.hpp"
#include "omp/updates.hpp"
#include "omp/words.hpp"
#include "sim_threads.hpp"

namespace craton::omp::test {

using craton::test::Known;
using craton::test::Random;
using craton::test::Rank;
using craton::test::SimThread;
using craton::test::SimThreads;

/// What a thread does in a region of that number, from 1.
using Part = std::function<void(std::size_t region)>;

/// So many threads of so many ranks.
struct RegionSize {
  Rank ranks;
  std::uint32_t threads;
};

class SimTeam : public SimThreads {
 public:
  struct Shape {
    Rank ranks;
    std::uint32_t threads_a_rank;
    bool may_cancel = false;
    /// All ranks' hearts beat, so that threads may put off.
    bool beats = false;
    bool has_locks = false;
    /// Called with what ends with a task: its block.
    std::function<void(void*)> given = {};
  };
  SimTeam(std::uint64_t seed, Shape shape);
  ~SimTeam();
  SimTeam(const SimTeam&) = delete;
  SimTeam& operator=(const SimTeam&) = delete;

  /// Has all threads run a region after the other. \param serial what rank 0 does before each of them
  void spawn_threads(const std::vector<RegionSize>& regions, const Part& part, const Part& serial = {});
  std::uint32_t threads_a_rank() const noexcept { return shape_.threads_a_rank; }

  // ---- From inside threads

  Team& team() { return *rank_of_current().team; }
  TaskPool& pool() { return team().tasks(); }
  Thread& thread() { return *threads_[current().number]; }
  Locks& locks() { return *rank_of_current().locks; }
  RemoteUnlocks& remote_unlocks() { return *rank_of_current().remote_unlocks; }
  /// As Runtime::unlock_publishes().
  bool unlock_publishes() { return current().rank != 0 || is_in_region_; }
  /// The event of a task of that rank.
  void fulfil(Rank rank, Task& task);
  /// That ranks add to.
  struct Variable {
    std::uint64_t value = 0;
    Known known{};  ///< of rank 0, when it has applied
    fabric::sim::Fiber* holder = nullptr;
    std::vector<fabric::sim::Fiber*> waiting{};
  };
  Variable& add_variable();
  /// As an atomic instruction at the end of a reduction does. \returns whether it was put off
  bool add(Variable& variable, const Arithmetic& arithmetic, std::uint64_t part, Updates::Meeting meeting);
  /// Memory that the team has and has not given back.
  std::size_t allocations() const noexcept { return memory_.size(); }
  /// Sleeps until wake_all().
  void sleep_among(std::vector<fabric::sim::Fiber*>& sleepers, const char* doing);
  void wake_all(std::vector<fabric::sim::Fiber*>& sleepers);

 private:
  class Host;
  class PutOffHost;
  class MutexHost;
  struct Letter {
    Rank source;
    Message message;
  };
  /// What rank 0 tells.
  struct Told {
    space::BarrierNote note;
    Known known;
  };
  /// As craton::WakeUps.
  struct WakeUps {
    std::uint32_t woken = 0;
    std::vector<fabric::sim::Fiber*> sleepers;
  };
  struct RankState {
    std::unique_ptr<Host> host;
    std::unique_ptr<Team> team;
    std::unique_ptr<Regions> regions;
    Known published;
    std::vector<TimeNs> last_due_ns;  ///< of what was sent to each other rank
    std::deque<Letter> letters;       ///< that have come
    fabric::sim::Fiber* handler = nullptr;
    std::vector<fabric::sim::Fiber*> in_fabric, at_gate, agents, idle;
    std::deque<Told> told;  ///< and not heard yet
    TimeNs last_told_ns = 0;
    std::size_t region = 0;              ///< that it is in or was in last
    std::size_t meetings = 0, left = 0;  ///< of the region, that it has come to, and left
    std::vector<fabric::sim::Fiber*> behind;
    std::vector<std::uint32_t> orders;  ///< by thread: regions that it is to run a part of
    bool is_over = false;
    void* partial = nullptr;
    PutOff put_off{};
    std::unique_ptr<PutOffHost> put_off_host;
    std::unique_ptr<Updates> updates;
    WakeUps late;  ///< of the thread for what is late
    std::unique_ptr<MutexHost> mutex_host;
    std::unique_ptr<Locks> locks;
    std::unique_ptr<RemoteUnlocks> remote_unlocks;
    WakeUps unlocks;  ///< of the thread that unlocks for others
  };
  /// Of the space.
  struct Mutex {
    std::optional<Rank> holder;
    Known known;  ///< what its last holder had published
    std::vector<fabric::sim::Fiber*> waiting;
  };
  struct Meeting {
    Rank arrived = 0;
    std::uint32_t site = 0;
    Known known;
    space::BarrierNote note;
    std::vector<bool> heard;
  };
  struct Gathering {
    Rank ranks = 0;
    Rank arrived = 0;
    bool is_marked = false;
  };
  /// What a region's function gets.
  struct RegionData {
    SimTeam* job;
    std::size_t number;
  };

  /// Of a message.
  TimeNs delay_ns();
  void visit(Rank rank, std::size_t places, FunctionRef<void(std::size_t place)> body);
  RankState& rank_of_current() { return ranks_[current().rank]; }
  void handle(Rank rank);
  void deliver(RankState& here, const Letter& letter);
  void wait_helping(RankState& here, const space::Meanwhile* meanwhile, FunctionRef<bool()> condition);
  static void run_region(void* data);
  void run_first(Rank rank);
  void start_region(std::size_t region);
  void start_parts(RankState& here, const Team::Beginning& beginning);
  void run_other(Rank rank, std::uint32_t local);
  void serve(Rank rank);
  void beat(Rank rank);
  void wake(WakeUps& wake_ups);
  void serve_wake_ups(WakeUps& wake_ups, const char* doing, FunctionRef<void()> body);

  const Shape shape_;
  const TimeNs latency_ns_;
  const bool is_slow_now_and_then_;  ///< some messages come late, and all after them of the same two ranks
  const bool threads_hear_;  ///< after the end of a region they help until the rank has heard of the next one
  const std::uint32_t first_number_;  ///< of the regions, less 1
  Part part_, serial_;
  bool is_in_region_ = false;
  std::deque<RegionData> regions_;
  std::vector<RegionSize> sizes_;
  std::vector<RankState> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, Meeting> meetings_;  ///< by region and number in it
  std::map<std::size_t, Gathering> gatherings_;                      ///< by region
  std::vector<std::uint64_t> words_;                                 ///< of rank 0
  std::map<space::MutexId, Mutex> mutexes_;
  std::vector<std::unique_ptr<char[]>> memory_;
  std::deque<Variable> variables_;
  std::deque<std::unique_ptr<Thread>> threads_;  ///< by number
};

}  // namespace craton::omp::test
