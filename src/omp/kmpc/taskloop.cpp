/// \file
/// Loops whose iterations are cut into tasks. The compiler makes one task, of which the others are copies.
#include <algorithm>
#include <cstring>

#include "omp/kmpc/task.hpp"

namespace craton::omp::kmpc {

namespace {

enum Cut : std::int32_t { as_it_comes, by_grain, by_number };

/// Makes the variables of a copy from those of the first one. \param is_last whether it has the last
/// iteration
using CopyVariables = void (*)(KmpTask* copy, KmpTask* first, std::int32_t is_last);

struct Loop {
  KmpTask* first_task;
  std::size_t first_at;  ///< where a task has its bounds, both included
  std::size_t last_at;
  std::uint64_t begin;
  std::int64_t step;
  std::uint64_t count;
  bool is_deferred;
  CopyVariables copy;
};

void set_bound(KmpTask* task, std::size_t at, std::uint64_t value) {
  std::memcpy(reinterpret_cast<std::byte*>(task) + at, &value, sizeof value);
}

void make_task(const Loop& loop, std::uint64_t from, std::uint64_t to) {
  const Head& head = Head::of(loop.first_task);
  KmpTask* const task =
      allocate_task(head.flags, head.task_bytes, head.shares_bytes, loop.first_task->routine);
  void* const shares = task->shares;
  std::memcpy(static_cast<void*>(task), loop.first_task, head.task_bytes);
  task->shares = shares;
  if (head.shares_bytes != 0) std::memcpy(shares, loop.first_task->shares, head.shares_bytes);
  const auto step = static_cast<std::uint64_t>(loop.step);
  set_bound(task, loop.first_at, loop.begin + from * step);
  set_bound(task, loop.last_at, loop.begin + (to - 1) * step);
  if (loop.copy != nullptr) loop.copy(task, loop.first_task, to == loop.count ? 1 : 0);
  submit(task, nullptr, loop.is_deferred);
}

void make_tasks(const Loop& loop, std::int32_t cut, std::uint64_t number, bool is_strict) {
  if (loop.count == 0) return;
  std::uint64_t tasks = number;
  if (cut == by_grain) {
    const std::uint64_t grain = std::max<std::uint64_t>(number, 1);
    if (is_strict) {
      for (std::uint64_t done = 0; done < loop.count;) {
        const std::uint64_t to = done + std::min(grain, loop.count - done);
        make_task(loop, done, to);
        done = to;
      }
      return;
    }
    tasks = loop.count / grain;
  } else if (cut == as_it_comes) {
    tasks = team_size();
  }
  tasks = std::clamp<std::uint64_t>(tasks, 1, loop.count);
  const std::uint64_t each = loop.count / tasks;
  const std::uint64_t longer = loop.count % tasks;
  std::uint64_t done = 0;
  for (std::uint64_t task = 0; task < tasks; ++task) {
    const std::uint64_t to = done + each + (task < longer ? 1 : 0);
    make_task(loop, done, to);
    done = to;
  }
}

}  // namespace

/// \param first, last the bounds, in the task \param does_it what the `if` clause says
CRATON_KMPC void __kmpc_taskloop_5(Location* /*at*/, std::int32_t /*thread*/, KmpTask* task,
                                   std::int32_t does_it, std::uint64_t* first, std::uint64_t* last,
                                   std::int64_t step, std::int32_t no_group, std::int32_t cut,
                                   std::uint64_t number, std::int32_t is_strict, CopyVariables copy) {
  const auto place_of = [task](const std::uint64_t* bound) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(bound) -
                                    reinterpret_cast<const std::byte*>(task));
  };
  const auto from = static_cast<std::int64_t>(*first);
  const auto to = static_cast<std::int64_t>(*last);
  // Bounds of unsigned variables are below 2^63, for clang makes the loop's variable a 64-bit one from 0.
  std::uint64_t count = 0;
  if (step > 0 && to >= from) count = (*last - *first) / static_cast<std::uint64_t>(step) + 1;
  if (step < 0 && to <= from)
    count = (*first - *last) / (std::uint64_t{0} - static_cast<std::uint64_t>(step)) + 1;
  const Loop loop{.first_task = task,
                  .first_at = place_of(first),
                  .last_at = place_of(last),
                  .begin = *first,
                  .step = step,
                  .count = count,
                  .is_deferred = does_it != 0,
                  .copy = copy};
  if (no_group == 0) begin_group();
  make_tasks(loop, cut, number, is_strict != 0);
  destroy_variables(task);
  release_task(task);
  if (no_group == 0) end_group();
}
CRATON_KMPC void __kmpc_taskloop(Location* at, std::int32_t thread, KmpTask* task, std::int32_t does_it,
                                 std::uint64_t* first, std::uint64_t* last, std::int64_t step,
                                 std::int32_t no_group, std::int32_t cut, std::uint64_t number,
                                 CopyVariables copy) {
  __kmpc_taskloop_5(at, thread, task, does_it, first, last, step, no_group, cut, number, 0, copy);
}

}  // namespace craton::omp::kmpc
