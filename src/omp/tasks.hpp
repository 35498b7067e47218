/// \file
/// Explicit tasks, as constructs: for the calling thread, whatever team it is in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace craton::omp {

struct Task;

/// A task as a program makes it.
struct TaskSpec {
  void (*function)(void*);
  void* data;                  ///< what `function` gets, if the task is run at once
  void (*copy)(void*, void*);  ///< fills a block from `data`; null: it is copied as it is
  std::size_t bytes;           ///< of the block
  std::size_t alignment;
  bool is_deferred;  ///< may be run later, by another thread
  bool is_final;
  void** depend;  ///< see Depends; null: none
  int priority;
  bool has_range = false;  ///< the block begins with two words of its own
  std::array<std::uint64_t, 2> range{};
  std::uintptr_t* event = nullptr;  ///< gets the event on which its end waits too; null: there is none
  /// `data` is the block itself, from take_block(), which goes with the task.
  bool has_block = false;
  bool may_be_dropped = true;  ///< where it is cancelled before it has begun; with has_block
  Task* waiting = nullptr;     ///< made before by make_waiting_task(), to be used up; null: none
};

/// Makes a task, and runs it now or leaves it to whoever has time.
void run_task(const TaskSpec& spec);
/// A task whose event is there before the task is made. \param event gets it
Task* make_waiting_task(std::uintptr_t* event);
/// Between them the caller runs a task's code itself, at once. \param waiting see TaskSpec
void begin_task_here(bool is_final, Task* waiting);
void end_task_here();
/// Blocks until the caller's tasks have ended that it has made itself.
void wait_for_children();
/// Blocks until those have ended that a task with these dependences would wait for.
void wait_for_dependences(void** depend);
/// Fulfils the event of a task of whatever rank. Any thread.
void fulfil(std::uintptr_t event);
/// Between them are tasks that the end waits for, with all that they make.
void begin_group();
void end_group();

// ---- Cancellation: nothing, where OMP_CANCELLATION is not true

/// Whether cancelling is allowed at all.
bool may_cancel() noexcept;
/// Of the caller's region, the work share that it is in, or the group that its task is in.
void cancel_region();
void cancel_share();
void cancel_group();
bool is_region_cancelled() noexcept;
bool is_share_cancelled() noexcept;
bool is_group_cancelled() noexcept;
/// The caller's innermost group is that of a work share: see TaskGroup.
void mark_share_group() noexcept;

/// What reductions the caller's innermost group has, with those outside of it, in memory that all ranks
/// share; null: none.
void* reductions() noexcept;
/// By who has begun that group, before it makes tasks in it.
void set_reductions(void* registered) noexcept;

/// Memory that code of the program may hand to regions of all ranks, for what is run at once.
void* take_block(std::size_t bytes);
void give_block(void* block, std::size_t bytes);

/// Threads of the caller's team.
std::uint32_t team_size();

}  // namespace craton::omp
