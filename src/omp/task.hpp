/// \file
/// A task: implicit (each thread of a team has one) or explicit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fabric/types.hpp"
#include "omp/icvs.hpp"

namespace craton::omp {

class Depends;
class TaskPool;

/// What a taskgroup waits for: all tasks made in it, and what they make, on any rank.
struct TaskGroup {
  TaskGroup* outer = nullptr;
  void* reductions = nullptr;  ///< that its tasks may take part in, as the ABI knows them
  bool is_share = false;       ///< of a work share: the program has not begun it, and does not cancel it
  std::atomic<bool> is_cancelled{false};
  std::atomic<std::uint32_t> left{0};
};

/// A task of another rank that is run here. It goes back when it, and all that it has made, has ended.
struct Loan {
  fabric::Rank owner;
  std::uint64_t id;                       ///< of its task, at the owner
  std::uint64_t number;                   ///< among all that the owner has lent
  std::uint32_t left;                     ///< of these tasks; with the pool's lock
  bool is_wanted = false;                 ///< its owner waits for its task's end; with the lock
  bool has_ended = false;                 ///< its task has, and what it wrote is published; with the lock
  std::atomic<bool> is_cancelled{false};  ///< the group of its task, by some task of the loan
};

/// Whether a rank that has lent a task wants it back. Not before the loan is on its way, which it must not
/// overtake.
enum class Recall : std::uint8_t { not_sent, none, asked, begun };

struct Task {
  Icvs icvs;
  Task* parent = nullptr;  ///< on this rank; null for implicit tasks of other ranks' regions, and for loans
  bool is_final = false;
  TaskGroup* group = nullptr;              ///< innermost
  void* reductions = nullptr;              ///< those of its group, where that is none of this rank's
  Loan* loan = nullptr;                    ///< that it belongs to
  std::atomic<std::uint32_t> children{0};  ///< that it made, and that have not ended
  std::unique_ptr<Depends> depends;        ///< of its children; with the pool's lock

  // ---- Explicit ones

  void (*function)(void*) = nullptr;
  void* block = nullptr;       ///< in memory that all ranks share
  void* allocation = nullptr;  ///< that it lies in; null for a loan
  std::size_t block_bytes = 0;
  std::int32_t priority = 0;
  TaskPool* pool = nullptr;                    ///< of a task with an event, unless it is run at once
  std::atomic<std::uint32_t> ends_to_come{1};  ///< of its code, and the fulfilment of its event if it has one
  bool may_be_dropped = false;                 ///< where it is cancelled before it has begun
  bool learns = false;                         ///< its rank has yet to see what the owner of its loan knew
  bool has_ended = false;                      ///< and stays for its children
  std::uint64_t number = 0;                    ///< in the order in which tasks became ready
  bool stays = false;                          ///< was lent, and came back before it had begun
  bool is_partly_away = false;                 ///< it has ended where it was lent, but not all that it made
  bool has_finished = false;                   ///< and all but that has been done here
  Recall recall = Recall::none;                ///< these, while it is lent
  fabric::Rank borrower = 0;
  std::uint64_t loan_number = 0;
  Task* before = nullptr;  ///< in the queue, or among those that are lent
  Task* after = nullptr;
  std::atomic<std::uint32_t> waits_for{0};  ///< tasks that must end before
  std::vector<Task*> successors;            ///< that wait for this one
  std::vector<const void*> addresses;       ///< by which others may depend on it

  Task();
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task();
};

/// What `cancel taskgroup` of a task cancels; null: none that this rank has.
inline TaskGroup* group_to_cancel(const Task& task) noexcept {
  TaskGroup* const group = task.group;
  return group != nullptr && group->is_share && group->outer != nullptr ? group->outer : group;
}

}  // namespace craton::omp
