/// \file
/// Explicit tasks, as constructs: for the calling thread, whatever team it is in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace craton::omp {

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
};

/// Makes a task, and runs it now or leaves it to whoever has time.
void run_task(const TaskSpec& spec);
/// Blocks until the caller's tasks have ended that it has made itself.
void wait_for_children();
/// Blocks until those have ended that a task with these dependences would wait for.
void wait_for_dependences(void** depend);
/// Between them are tasks that the end waits for, with all that they make.
void begin_group();
void end_group();

/// Threads of the caller's team.
std::uint32_t team_size();

}  // namespace craton::omp
