/// \file
/// The OpenMP runtime of a rank: starts regions, and has the threads for them.
///
/// Only the program's main thread starts regions of several ranks, and only where it is in no active one.
/// Regions inside of regions, and those of other threads of the program, have threads of their own rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "fiber/fiber.hpp"
#include "omp/gate.hpp"
#include "omp/locks.hpp"
#include "omp/message.hpp"
#include "omp/platform.hpp"
#include "omp/rank_locks.hpp"
#include "omp/rank_team.hpp"
#include "omp/rank_updates.hpp"
#include "omp/regions.hpp"
#include "omp/remote_unlocks.hpp"
#include "omp/settings.hpp"
#include "omp/team.hpp"
#include "omp/thread.hpp"
#include "omp/words.hpp"
#include "omp/worker.hpp"

namespace craton::omp {

class Runtime {
 public:
  /// Collective: registers its region. \throws Error
  Runtime(Platform& platform, const Settings& settings);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime();

  Platform& platform() noexcept { return platform_; }
  const Settings& settings() const noexcept { return settings_; }
  fabric::Rank rank() const noexcept { return rank_; }
  fabric::Rank ranks() const noexcept { return ranks_; }
  std::uint32_t default_threads() const noexcept { return ranks_ * settings_.threads_a_rank; }
  const Icvs& initial_icvs() const noexcept { return initial_icvs_; }
  Spin spin() const noexcept { return spin_; }
  /// The threads of this node's ranks are more than its processors.
  bool is_crowded() const noexcept { return is_crowded_; }
  /// Where a thread in such a state sits; a count of 0: threads are not bound.
  Seat seat_of(const TeamState& state) const noexcept { return state.seat.count != 0 ? state.seat : seat_; }
  /// The calling thread may use the processors of its seat.
  void bind(Thread& thread) const noexcept;
  /// The same for a rank's first thread; where threads are not bound, it begins on a processor of its own.
  /// Ranks that begin on one may stay there for milliseconds: a guest's kernel takes a processor that halts
  /// for one that its host has taken away, and wakes nobody there.
  void settle(Thread& thread) const noexcept;
  /// Where a word lies: of rank 0's, if not said otherwise.
  fabric::RemoteAddress word_at(std::size_t offset, fabric::Rank rank = 0) const noexcept {
    return {.rank = rank, .region = platform_.first_region(), .offset = offset};
  }
  /// Reads and writes those words, from any rank.
  void read_words(void* into, std::size_t offset, std::size_t bytes) noexcept;
  void write_words(std::size_t offset, const void* from, std::size_t bytes) noexcept;
  Locks& locks() noexcept { return locks_; }
  RemoteUnlocks& remote_unlocks() noexcept { return remote_unlocks_; }
  /// Where this rank's part of a reduction is, for rank 0 to find after the next meeting.
  void show_partial(void* partial) noexcept;
  /// What another rank has shown.
  void* partial_of(fabric::Rank rank);
  Updates& updates() noexcept { return updates_; }
  /// Whether another rank may take a lock that is unlocked here before this rank's next release.
  bool unlock_publishes() const noexcept {
    if (ranks_ == 1) return false;
    return rank_ != 0 || is_in_outer_region() || platform_.others_may_run();
  }
  /// At rank 0: a region of several ranks is under way.
  bool is_in_outer_region() const noexcept { return in_outer_region_.load(std::memory_order_relaxed); }

  /// Starts a region: the caller is its thread 0 from now on, until end_region. \param threads asked for; 0:
  /// as the control variables say
  void begin_region(const Region& region, std::uint32_t threads);
  void end_region();
  /// A rank other than 0: runs its part of all regions, until stop().
  void work() { regions_.work(); }
  void stop() {
    if (ranks_ > 1) regions_.stop();
  }

  /// To the dead: who waits will notice.
  void send(fabric::Rank to, const Message& message);
  /// Ends the process if another rank has died.
  void end_if_lost() noexcept;

  /// Memory for blocks of tasks, which other ranks can read where there are any.
  static constexpr std::size_t block_alignment = 16;
  void* take_block(std::size_t bytes);
  void give_block(void* block, std::size_t bytes);
  /// What a thread has kept of them, when it ends.
  void give_back(BlockCache& cache);

  /// Whether the region at a place in the program is one whose threads make tasks. \param makes_now whether
  /// they do in this one
  bool makes_tasks(std::uint32_t site, bool makes_now) noexcept;

  /// Runs what may meet the end of another rank or of some resource, which ends the job.
  template <typename Body>
  auto guard(const Body& body) noexcept {
    try {
      return body();
    } catch (const Error& error) {
      fail(error);
    }
  }
  [[noreturn]] void fail(const Error& error) noexcept;

 private:
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void run_worker(void* argument);
  std::uint32_t resolve(const Thread& thread, std::uint32_t asked);
  void start(Team& team, const Team::Beginning& beginning, std::vector<Worker*>& workers);
  Team& take_idle_team();
  void put_idle_team(Team& team);
  Worker& take_idle_worker();
  unsigned patience_with_ranks(bool are_near) const noexcept;

  Platform& platform_;
  const Settings settings_;
  const fabric::Rank rank_;
  const fabric::Rank ranks_;
  const fabric::HandlerId message_handler_;
  Icvs initial_icvs_;
  Seat seat_;  ///< of this rank
  bool is_crowded_ = false;
  std::uint32_t number_here_ = 0;  ///< of this rank, among those that share its processors
  Spin spin_;
  fabric::RegionMemory memory_;
  RankTeam outer_;
  Team& outer_team_ = outer_.team;
  Regions regions_;
  RankLockHost lock_host_;
  Locks locks_;
  RemoteUnlocks remote_unlocks_;
  RankUpdatesHost updates_host_;
  Updates updates_;
  std::array<std::atomic<bool>, 256> task_sites_{};  ///< by site, modulo their number
  std::atomic<bool> in_outer_region_{false};
  std::vector<Worker*> outer_workers_;  ///< the rank's threads 1, 2, ... of regions of several ranks
  fiber::Mutex idle_lock_;
  std::vector<Worker*> idle_workers_;
  Team* idle_teams_ = nullptr;
  /// Threads in regions, where there is a limit: those of this rank may be so many more until it is reached.
  std::atomic<std::uint32_t> busy_{1};
};

/// The rank's runtime; null before start().
Runtime* runtime() noexcept;

}  // namespace craton::omp
