/// \file
/// What of a team is cancelled: its region, or a work share; of groups of tasks see TaskGroup. A rank that
/// cancels tells the others, who see it at their next cancellation point. Only where OMP_CANCELLATION is
/// true.
///
/// A thread whose region is cancelled goes to the region's end, while others may wait at a barrier or be on
/// their way to one. So such a region ends by meetings as barriers are, until one has all threads at the end;
/// who is at a barrier in a meeting that has some at the end learns so that the region is cancelled. Each
/// meeting takes two of the ranks: before the first one each adds to a word at rank 0 what its threads are
/// at, and with the second one rank 0 gives the sum.
#pragma once

#include <atomic>
#include <cstdint>

#include "fabric/types.hpp"
#include "omp/loops.hpp"
#include "omp/message.hpp"

namespace craton::omp {

class TaskPool;
class TeamHost;

class Cancellation {
 public:
  /// \param tasks of the team, which are not begun once the region is cancelled
  Cancellation(TeamHost& host, TaskPool& tasks);

  /// Whether OMP_CANCELLATION allows any.
  bool is_allowed() const noexcept { return is_allowed_; }

  /// Before a region. \param region its number, among those of several ranks; else 0
  void begin(const Loops::Shape& shape, std::uint32_t region);

  void cancel_region();
  /// Of work shares, which a barrier ends where they may be cancelled, the one before the next meeting.
  void cancel_share();
  bool is_region_cancelled() const noexcept {
    return cancelled_region_.load(std::memory_order_acquire) == region_ + 1;
  }
  bool is_share_cancelled() const noexcept {
    return cancelled_share_.load(std::memory_order_acquire) == share_id();
  }

  /// A thread comes to a meeting: at a barrier, or at the end of the region. \param share the last work share
  /// that it has met
  void come(bool is_at_end, std::uint64_t share) noexcept;
  /// By the last thread of the rank. \param meet meets the other ranks: the first time, and the second time
  /// with words that rank 0 gives and others get
  struct Words {
    std::uint64_t places = 0;
    std::uint64_t share = 0;
  };
  Words tell();
  Words collect();
  void settle(const Words& words) noexcept;
  /// After a meeting: whether some thread of the team was at a barrier.
  bool was_any_at_barrier() const noexcept { return was_any_at_barrier_; }
  /// Of the threads at the end, the last work share that any has met.
  std::uint64_t last_share() const noexcept { return last_share_; }

  /// In a handler.
  void arrived(const Message& message) noexcept;

 private:
  /// Not 0. Static loops have no number: the compiler makes them without the runtime.
  std::uint64_t share_id() const noexcept { return (region_ + std::uint64_t{1}) << 32U | (meetings_ + 1); }
  void send(std::uint64_t share);
  void note_region(std::uint32_t id) noexcept;
  void note_share(std::uint64_t share) noexcept;

  TeamHost& host_;
  TaskPool& tasks_;
  const bool is_allowed_;
  Loops::Shape shape_;
  std::atomic<std::uint32_t> region_{0};
  std::atomic<std::uint32_t> cancelled_region_{0};  ///< its number, plus 1
  std::atomic<std::uint64_t> cancelled_share_{0};   ///< its id
  // Of the threads of this rank that have come to the present meeting.
  std::atomic<bool> is_any_at_barrier_{false};
  std::atomic<bool> is_any_at_end_{false};
  std::atomic<std::uint64_t> share_{0};
  // Of the last meeting; changed only when all threads have come to the next one.
  bool was_any_at_barrier_ = false;
  std::uint32_t meetings_ = 0;  ///< of the region
  std::uint64_t last_share_ = 0;
};

}  // namespace craton::omp
