/// \file
/// Tasks, groups of them, and what they depend on.
#include "omp/kmpc/task.hpp"

#include <new>
#include <vector>

namespace craton::omp::kmpc {

namespace {

/// kmp_depend_info.
struct DependItem {
  std::intptr_t address;
  std::size_t bytes;
  std::uint8_t flags;
};
constexpr std::uint8_t reads_only = 1;
constexpr std::uint8_t all_memory = 0x80;

/// As TaskSpec has them.
class DependList {
 public:
  DependList(std::int32_t count, const DependItem* items) {
    words_.resize(2);
    for (const bool writes : {true, false}) {
      for (std::int32_t i = 0; i < count; ++i) {
        is_all_ = is_all_ || (items[i].flags & all_memory) != 0;
        if ((items[i].flags != reads_only) == writes)
          words_.push_back(reinterpret_cast<void*>(items[i].address));
      }
      if (writes) words_[1] = reinterpret_cast<void*>(words_.size() - 2);
    }
    words_[0] = reinterpret_cast<void*>(words_.size() - 2);
  }
  void** words() noexcept { return words_.size() > 2 ? words_.data() : nullptr; }
  /// Of omp_all_memory.
  bool is_all() const noexcept { return is_all_; }

 private:
  std::vector<void*> words_;
  bool is_all_ = false;
};

constexpr std::size_t rounded(std::size_t bytes) noexcept {
  return (bytes + alignof(Head) - 1) / alignof(Head) * alignof(Head);
}

/// On whatever rank.
void run_block(void* block) {
  Head& head = *static_cast<Head*>(block);
  KmpTask* const task = head.task();
  if (!may_cancel() || !(is_region_cancelled() || is_group_cancelled())) {
    head.is_running = true;
    do {
      head.goes_on = false;
      task->routine(number(), task);
    } while (head.goes_on);
  }
  destroy_variables(task);
}

}  // namespace

KmpTask* allocate_task(std::uint32_t flags, std::size_t task_bytes, std::size_t shares_bytes,
                       Routine routine) {
  task_bytes = rounded(task_bytes);
  const std::size_t bytes = sizeof(Head) + task_bytes + rounded(shares_bytes);
  void* const block = take_block(bytes);
  Head& head = *new (block) Head{.bytes = bytes,
                                 .task_bytes = task_bytes,
                                 .shares_bytes = shares_bytes,
                                 .waiting = nullptr,
                                 .flags = flags,
                                 .is_running = false,
                                 .goes_on = false};
  KmpTask* const task = head.task();
  task->shares = shares_bytes != 0 ? reinterpret_cast<std::byte*>(task) + task_bytes : nullptr;
  task->routine = routine;
  task->part = 0;
  task->destructors = {};
  task->priority = {};
  return task;
}

void destroy_variables(KmpTask* task) {
  if ((Head::of(task).flags & task_flag::has_destructors) != 0 && task->destructors.routine != nullptr)
    task->destructors.routine(number(), task);
}

void release_task(KmpTask* task) {
  Head& head = Head::of(task);
  give_block(&head, head.bytes);
}

void submit(KmpTask* task, void** depend, bool is_deferred) {
  Head& head = Head::of(task);
  run_task({.function = &run_block,
            .data = &head,
            .copy = nullptr,
            .bytes = head.bytes,
            .alignment = alignof(Head),
            .is_deferred = is_deferred,
            .is_final = (head.flags & task_flag::is_final) != 0,
            .depend = depend,
            .priority = (head.flags & task_flag::has_priority) != 0 ? task->priority.priority : 0,
            .has_block = true,
            .may_be_dropped = (head.flags & task_flag::has_destructors) == 0,
            .waiting = head.waiting});
}

CRATON_KMPC KmpTask* __kmpc_omp_task_alloc(Location* /*at*/, std::int32_t /*thread*/, std::int32_t flags,
                                           std::size_t task_bytes, std::size_t shares_bytes,
                                           Routine routine) {
  return allocate_task(static_cast<std::uint32_t>(flags), task_bytes, shares_bytes, routine);
}
/// There are no devices: a task like others.
CRATON_KMPC KmpTask* __kmpc_omp_target_task_alloc(Location* at, std::int32_t thread, std::int32_t flags,
                                                  std::size_t task_bytes, std::size_t shares_bytes,
                                                  Routine routine, std::int64_t /*device*/) {
  return __kmpc_omp_task_alloc(at, thread, flags, task_bytes, shares_bytes, routine);
}
/// Also by the code of an untied task, for itself, where it may go on elsewhere: it goes on here.
CRATON_KMPC std::int32_t __kmpc_omp_task(Location* /*at*/, std::int32_t /*thread*/, KmpTask* task) {
  Head& head = Head::of(task);
  if (head.is_running) {
    head.goes_on = true;
  } else {
    submit(task, nullptr, true);
  }
  return 0;
}
CRATON_KMPC std::int32_t __kmpc_omp_task_parts(Location* at, std::int32_t thread, KmpTask* task) {
  return __kmpc_omp_task(at, thread, task);
}
CRATON_KMPC std::int32_t __kmpc_omp_task_with_deps(Location* at, std::int32_t thread, KmpTask* task,
                                                   std::int32_t count, const DependItem* items,
                                                   std::int32_t /*more*/, const DependItem* /*more_items*/) {
  if (Head::of(task).is_running) return __kmpc_omp_task(at, thread, task);
  DependList depend(count, items);
  // After all before it and before all after it.
  if (depend.is_all()) wait_for_children();
  submit(task, depend.is_all() ? nullptr : depend.words(), !depend.is_all());
  return 0;
}
CRATON_KMPC std::int32_t __kmpc_omp_reg_task_with_affinity(Location* /*at*/, std::int32_t /*thread*/,
                                                           KmpTask* /*task*/, std::int32_t /*count*/,
                                                           void* /*places*/) {
  return 0;
}

// ---- Tasks that the caller runs itself, at once

CRATON_KMPC void __kmpc_omp_task_begin_if0(Location* /*at*/, std::int32_t /*thread*/, KmpTask* task) {
  Head& head = Head::of(task);
  head.is_running = true;
  begin_task_here((head.flags & task_flag::is_final) != 0, head.waiting);
}
CRATON_KMPC void __kmpc_omp_task_complete_if0(Location* /*at*/, std::int32_t thread, KmpTask* task) {
  Head& head = Head::of(task);
  while (head.goes_on) {
    head.goes_on = false;
    task->routine(thread, task);
  }
  destroy_variables(task);
  end_task_here();
  release_task(task);
}

// ---- Waiting

CRATON_KMPC std::int32_t __kmpc_omp_taskwait(Location* /*at*/, std::int32_t /*thread*/) {
  wait_for_children();
  return 0;
}
/// Nothing: a thread that makes tasks runs tasks where it has to wait.
CRATON_KMPC std::int32_t __kmpc_omp_taskyield(Location* /*at*/, std::int32_t /*thread*/, int /*part*/) {
  return 0;
}
CRATON_KMPC void __kmpc_omp_wait_deps(Location* /*at*/, std::int32_t /*thread*/, std::int32_t count,
                                      const DependItem* items, std::int32_t /*more*/,
                                      const DependItem* /*more_items*/) {
  DependList depend(count, items);
  if (depend.is_all()) return wait_for_children();
  if (depend.words() != nullptr) wait_for_dependences(depend.words());
}
/// \param no_wait later tasks wait, the caller need not: it does
CRATON_KMPC void __kmpc_omp_taskwait_deps_51(Location* at, std::int32_t thread, std::int32_t count,
                                             const DependItem* items, std::int32_t more,
                                             const DependItem* more_items, std::int32_t /*no_wait*/) {
  __kmpc_omp_wait_deps(at, thread, count, items, more, more_items);
}

// ---- Events

CRATON_KMPC void* __kmpc_task_allow_completion_event(Location* /*at*/, std::int32_t /*thread*/,
                                                     KmpTask* task) {
  std::uintptr_t event = 0;
  Head::of(task).waiting = make_waiting_task(&event);
  return reinterpret_cast<void*>(event);
}

}  // namespace craton::omp::kmpc
