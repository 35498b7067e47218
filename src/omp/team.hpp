/// \file
/// A team: the threads of a region, of this rank and of others. Numbers are rank-major:
///
///     rank 0: 0 1 2 │ rank 1: 3 4 5 │ rank 2: 6 7         (8 threads of 3 ranks)
///
/// Each rank has an object of its own for a team. Its threads meet in memory; the last one to come speaks for
/// the rank with the others (space::Barrier). A team of one rank uses no fabric.
///
/// Teams are used again and again, and never destroyed: a thread that leaves late finds one that is still
/// there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/types.hpp"
#include "omp/cancellation.hpp"
#include "omp/doacross.hpp"
#include "omp/loops.hpp"
#include "omp/task_pool.hpp"
#include "omp/team_host.hpp"
#include "omp/thread.hpp"
#include "omp/turns.hpp"
#include "space/barrier.hpp"

namespace craton::omp {

struct Worker;

/// What the threads of a region run.
struct Region {
  void (*function)(void*) = nullptr;
  void* data = nullptr;
  const void* code = nullptr;    ///< the program's function, where `function` calls that; null: they are one
  Loop loop;                     ///< that all meet at once, if it is one
  Binding bind = Binding::none;  ///< the clause proc_bind; none: there is none
  bool reduces = false;          ///< reductions over its tasks are what `data` points to, once prepared
  /// Called before any thread runs it, with how many there are; null: nothing.
  void (*prepare)(void* data, std::uint32_t size) = nullptr;
  std::uint32_t site = 0;           ///< where in the program it is
  std::uint32_t float_control = 0;  ///< of its threads, and of who starts it afterwards; 0: each one's own
};

class Team {
 public:
  using Shape = Loops::Shape;

  /// Threads of the ranks before `rank`, in a team of so many threads of so many ranks.
  static std::uint32_t first_of(fabric::Rank rank, std::uint32_t size, fabric::Rank ranks) noexcept {
    const std::uint32_t more = size % ranks;
    return rank * (size / ranks) + (rank < more ? rank : more);
  }

  /// \param host must outlive it
  explicit Team(TeamHost& host);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  struct Beginning {
    Shape shape;
    TeamState outer;  ///< what the thread that starts the region was in
    Task* parent;     ///< its task, if it is of this rank
    Region region;
    fabric::Rank reach;            ///< ranks that the start was told
    std::uint64_t shares;          ///< the number of the last work share before it
    std::uint32_t number;          ///< of the region, among those of several ranks, modulo 2^16
    Icvs icvs;                     ///< of its tasks
    Binding bind = Binding::none;  ///< of its threads
  };
  /// By the rank's first thread, before any enters. Waits for threads that have not left the last region.
  void begin(const Beginning& beginning);

  std::uint32_t size() const noexcept { return shape_.size; }
  std::uint32_t local() const noexcept { return shape_.local; }
  fabric::Rank ranks() const noexcept { return shape_.ranks; }
  const TeamState& outer() const noexcept { return outer_; }
  const Region& region() const noexcept { return region_; }
  Binding bind() const noexcept { return bind_; }
  TaskPool& tasks() noexcept { return tasks_; }
  Turns& turns() noexcept { return turns_; }
  Doacross& doacross() noexcept { return doacross_; }
  Cancellation& cancellation() noexcept { return cancellation_; }
  /// Of the last region, for the next one.
  std::uint64_t shares() const noexcept { return shares_; }

  Task* parent() const noexcept { return parent_; }
  std::vector<Worker*>& workers() noexcept { return workers_; }

  /// Makes a thread of this rank one of the team, the `local`th.
  void enter(Thread& thread, std::uint32_t local) noexcept;

  /// The next chunk of the loop that a thread is in. \returns false if there is none
  bool next_chunk(TeamState& state);
  /// A thread leaves the loop.
  void end_share(const LoopPosition& position);

  /// Blocks until all threads of the team are here, or the region is cancelled. \param site where in the
  /// program it is
  void meet(std::uint32_t site);
  /// The same, but not where the region is cancelled already. \returns whether it is, so that the caller goes
  /// to its end
  bool meet_or_end(std::uint32_t site);
  /// Of the region's `single`s, from 1, as each thread of a team of one rank meets them. \returns true to one
  bool is_first_to_come(std::uint64_t single) noexcept {
    std::uint64_t before = single - 1;
    return singles_.load(std::memory_order_relaxed) == before &&
           singles_.compare_exchange_strong(before, single, std::memory_order_relaxed);
  }
  /// As meet(), and gives all what one of them gives, over ranks thread 0: a pointer.
  void* meet_with(void* pointer, std::uint32_t site);
  /// Adds to what thread 0 has what all other threads have: first in each rank, then rank by rank. Meets.
  /// Until the next meeting the others' parts stay where they are. \returns whether the caller has it all
  using Combine = void (*)(void* into, void* part);
  bool reduce(void* part, Combine combine, std::uint32_t site);
  /// Memory of zero bytes for all threads of the team, until the next call but one, or the end of the region.
  /// Meets. \param is_first whether thread 0 calls
  void* shared_memory(std::size_t bytes, bool is_first);
  /// Blocks until all threads of this rank have ended the region; at rank 0, all of the team. At other ranks,
  /// where there are tasks, until rank 0 tells the next thing: threads help till then.
  void end(std::uint32_t site);
  /// What rank 0 told next, to this rank, if that is known already: see end(). Blocks otherwise, and runs
  /// tasks of the last region meanwhile.
  space::BarrierNote hear();

  /// All that a thread does in a region, but the rank's first one.
  void run_part(Thread& thread, std::uint32_t local);

  Team* next_idle = nullptr;

 private:
  enum class Meeting : std::uint8_t { barrier, end };
  void meet_all(Meeting kind, std::uint32_t site);
  void meet_ranks(Meeting kind, std::uint32_t site);
  void meet_ranks_at_barrier(std::uint32_t site, const space::Meanwhile& meanwhile);
  void apply_updates(std::uint32_t site);
  void come(bool is_at_end, std::uint32_t site);

  TeamHost& host_;
  Shape shape_;
  TeamState outer_;
  Binding bind_ = Binding::none;
  Task* parent_ = nullptr;
  Region region_;
  fabric::Rank reach_ = 1;
  std::uint64_t shares_ = 0;
  std::uint32_t first_ = 0;  ///< number of the rank's first thread
  std::unique_ptr<Task[]> implicit_;
  std::uint32_t implicit_count_ = 0;
  std::vector<Worker*> workers_;  ///< its threads but the rank's first one
  Loops loops_;
  void* memory_ = nullptr;                 ///< the last shared one
  std::atomic<std::uint64_t> singles_{0};  ///< that a thread has come to
  /// By one thread, for all, by the number of the meeting: one may give again while others leave the last
  /// meeting.
  std::array<void*, 2> given_{};
  std::unique_ptr<void*[]> parts_;  ///< of a reduction, by thread of this rank
  std::atomic<std::uint32_t> parts_given_{0};
  TaskPool tasks_;
  Turns turns_;
  Doacross doacross_;
  Cancellation cancellation_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> meetings_{0};
  std::optional<space::BarrierNote> heard_;
  std::atomic<std::uint32_t> inside_{0};  ///< threads that have not left
};

}  // namespace craton::omp
