/// \file
/// A task as the compiler lays it out, in a block of shared memory that the runtime's own words begin:
///
///     Head │ KmpTask │ the task's own variables │ what it shares: pointers
///          ▲ what the compiler has
#pragma once

#include <cstddef>
#include <cstdint>

#include "omp/kmpc/abi.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

struct KmpTask;
using Routine = std::int32_t (*)(std::int32_t thread, KmpTask* task);

/// kmp_task_t.
struct KmpTask {
  void* shares;
  Routine routine;
  std::int32_t part;
  union Word {
    std::int32_t priority;
    Routine routine;
  };
  Word destructors;
  Word priority;
};
static_assert(sizeof(KmpTask) == 40);

namespace task_flag {
constexpr std::uint32_t is_final = 1U << 1U;
constexpr std::uint32_t has_destructors = 1U << 3U;
constexpr std::uint32_t has_priority = 1U << 5U;
}  // namespace task_flag

struct alignas(16) Head {
  std::size_t bytes;       ///< of the block
  std::size_t task_bytes;  ///< of the task with its variables
  std::size_t shares_bytes;
  Task* waiting;  ///< with an event
  std::uint32_t flags;
  bool is_running;
  bool goes_on;  ///< an untied task's code has ended for now, and is to be called again

  KmpTask* task() noexcept { return reinterpret_cast<KmpTask*>(this + 1); }
  static Head& of(KmpTask* task) noexcept { return *(reinterpret_cast<Head*>(task) - 1); }
};

KmpTask* allocate_task(std::uint32_t flags, std::size_t task_bytes, std::size_t shares_bytes,
                       Routine routine);
/// Destroys the variables, and no more.
void destroy_variables(KmpTask* task);
void release_task(KmpTask* task);
/// Makes it a task of the runtime's. \param depend see TaskSpec
void submit(KmpTask* task, void** depend, bool is_deferred);

}  // namespace craton::omp::kmpc
