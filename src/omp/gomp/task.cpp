/// \file
/// Tasks.
#include "omp/gomp/abi.hpp"
#include "omp/gomp/reductions.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::gomp {

namespace {

// Marks of a task, as the compiler gives them.
constexpr unsigned final_mark = 1U << 1U;
constexpr unsigned depend_mark = 1U << 3U;
constexpr unsigned priority_mark = 1U << 4U;
constexpr unsigned up_mark = 1U << 8U;
constexpr unsigned grain_mark = 1U << 9U;
constexpr unsigned if_mark = 1U << 10U;
constexpr unsigned no_group_mark = 1U << 11U;
constexpr unsigned reduction_mark = 1U << 12U;
constexpr unsigned detach_mark = 1U << 13U;
constexpr unsigned strict_mark = 1U << 14U;

}  // namespace

/// \param copy fills the task's block of `bytes` bytes from `data`; null: it is copied as it is \param event
/// where the flags say that there is one: see TaskSpec
CRATON_GOMP void GOMP_task(Function function, void* data, void (*copy)(void*, void*), long bytes,
                           long alignment, bool deferred, unsigned flags, void** depend, int priority,
                           std::uintptr_t* event) {
  run_task({.function = function,
            .data = data,
            .copy = copy,
            .bytes = static_cast<std::size_t>(bytes),
            .alignment = static_cast<std::size_t>(alignment),
            .is_deferred = deferred,
            .is_final = (flags & final_mark) != 0,
            .depend = (flags & depend_mark) != 0 ? depend : nullptr,
            .priority = (flags & priority_mark) != 0 ? priority : 0,
            .event = (flags & detach_mark) != 0 ? event : nullptr});
}
CRATON_GOMP void GOMP_taskwait() {
  wait_for_children();
}
CRATON_GOMP void GOMP_taskwait_depend(void** depend) {
  wait_for_dependences(depend);
}
/// Nothing: a thread that spawns runs tasks where it has to wait.
CRATON_GOMP void GOMP_taskyield() {}
CRATON_GOMP void GOMP_taskgroup_start() {
  begin_group();
}
CRATON_GOMP void GOMP_taskgroup_end() {
  end_group();
}

namespace {

/// How the iterations of a taskloop are cut: `longer` tasks of `each + 1`, the others of `each`, of which the
/// last one may have less.
struct Cut {
  std::uint64_t tasks;
  std::uint64_t each;
  std::uint64_t longer;
};

Cut cut(std::uint64_t count, unsigned flags, std::uint64_t number) {
  std::uint64_t tasks = number;
  if ((flags & grain_mark) != 0) {
    const std::uint64_t grain = number == 0 ? 1 : number;
    if ((flags & strict_mark) != 0) return {count / grain + (count % grain != 0 ? 1 : 0), grain, 0};
    tasks = count / grain == 0 ? 1 : count / grain;
  } else if (tasks == 0) {
    tasks = team_size();
  }
  if (tasks > count) tasks = count;
  return {tasks, count / tasks, count % tasks};
}

/// Behind the two words that a taskloop's block begins with.
Reductions* reductions_of_block(void* block) noexcept {
  return static_cast<Reductions**>(block)[2];
}

/// A task's block begins with two values of the loop variable: where its part starts and ends.
void run_taskloop(TaskSpec spec, unsigned flags, std::uint64_t number, const Iterations& iterations) {
  const bool has_group = (flags & no_group_mark) == 0;
  Reductions* const reductions =
      has_group && (flags & reduction_mark) != 0 ? reductions_of_block(spec.data) : nullptr;
  if (iterations.count == 0) {
    if (reductions != nullptr) reductions->memory = 0;  // tells the caller that there was nothing to reduce
    return;
  }
  const Cut pieces = cut(iterations.count, flags, number);
  if (has_group) begin_group();
  if (reductions != nullptr) {
    register_reductions(reductions, static_cast<Reductions*>(omp::reductions()), nullptr, team_size());
    set_reductions(reductions);
  }
  std::uint64_t done = 0;
  for (std::uint64_t task = 0; task < pieces.tasks; ++task) {
    const std::uint64_t share = pieces.each + (task < pieces.longer ? 1 : 0);
    const std::uint64_t last = share > iterations.count - done ? iterations.count : done + share;
    spec.range = {iterations.value(done), iterations.value_at_end(last)};
    spec.has_range = true;
    run_task(spec);
    done = last;
  }
  if (has_group) end_group();
}

TaskSpec spec_of(Function function, void* data, void (*copy)(void*, void*), long bytes, long alignment,
                 unsigned flags, int priority) {
  return {.function = function,
          .data = data,
          .copy = copy,
          .bytes = static_cast<std::size_t>(bytes),
          .alignment = static_cast<std::size_t>(alignment),
          .is_deferred = (flags & if_mark) != 0,
          .is_final = (flags & final_mark) != 0,
          .depend = nullptr,
          .priority = (flags & priority_mark) != 0 ? priority : 0};
}

}  // namespace

/// \param number of tasks, or of iterations in one, as the flags say
CRATON_GOMP void GOMP_taskloop(Function function, void* data, void (*copy)(void*, void*), long bytes,
                               long alignment, unsigned flags, unsigned long number, int priority, long start,
                               long end, long step) {
  run_taskloop(spec_of(function, data, copy, bytes, alignment, flags, priority), flags, number,
               Iterations::of(start, end, step));
}
CRATON_GOMP void GOMP_taskloop_ull(Function function, void* data, void (*copy)(void*, void*), long bytes,
                                   long alignment, unsigned flags, unsigned long number, int priority,
                                   unsigned long long start, unsigned long long end,
                                   unsigned long long step) {
  run_taskloop(spec_of(function, data, copy, bytes, alignment, flags, priority), flags, number,
               Iterations::of((flags & up_mark) != 0, start, end, step));
}

}  // namespace craton::omp::gomp
