#include "omp/tasks.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/events.hpp"
#include "omp/runtime.hpp"
#include "omp/task_pool.hpp"
#include "omp/team.hpp"
#include "omp/thread.hpp"

namespace craton::omp {

namespace {

void fill_block(const TaskSpec& spec, void* block) {
  if (spec.copy != nullptr) {
    spec.copy(block, spec.data);
  } else if (block != spec.data) {
    std::memcpy(block, spec.data, spec.bytes);
  }
  if (spec.has_range) std::memcpy(block, spec.range.data(), sizeof spec.range);
}

void inherit(Task& task, Task& parent, bool is_final) {
  task.icvs = parent.icvs;
  task.parent = &parent;
  task.is_final = is_final || parent.is_final;
  task.group = parent.group;
  task.reductions = parent.reductions;
  task.loan = parent.loan;
}

/// With a block of its own where the program's is not to be changed.
void run_function(Thread& thread, Task& task, const TaskSpec& spec) {
  void* allocation = nullptr;
  void* block = spec.data;
  Task* const before = std::exchange(thread.task, &task);
  if (spec.has_block) {
    spec.function(block);
    give_block(block, spec.bytes);
    thread.task = before;
    return;
  }
  if (spec.copy != nullptr) {
    allocation = take_block(spec.bytes + spec.alignment);
    const auto first = reinterpret_cast<std::uintptr_t>(allocation);
    block = reinterpret_cast<void*>((first + spec.alignment - 1) / spec.alignment * spec.alignment);
  }
  fill_block(spec, block);
  events::enter_region(spec.function);
  spec.function(block);
  events::leave_region();
  if (allocation != nullptr) give_block(allocation, spec.bytes + spec.alignment);
  thread.task = before;
}

// An event is the task that it belongs to, and above that the task's rank.
constexpr unsigned event_rank_shift = 48;
constexpr std::uintptr_t event_task_mask = (std::uintptr_t{1} << event_rank_shift) - 1;

/// Gives a task its event, if it is to have one: a variable of the program's, which its block begins with.
void make_event(Task& task, const TaskSpec& spec) {
  if (spec.event == nullptr) return;
  task.ends_to_come.store(2, std::memory_order_relaxed);
  const std::uintptr_t rank = runtime() != nullptr ? runtime()->rank() : 0;
  *spec.event = rank << event_rank_shift | reinterpret_cast<std::uintptr_t>(&task);
  if (spec.data != nullptr) std::memcpy(spec.data, spec.event, sizeof *spec.event);
}

bool is_fulfilled(const Task& task) noexcept {
  return task.ends_to_come.load(std::memory_order_acquire) == 1;
}

/// Outside of all regions.
void wait_until_fulfilled(const Task& task) {
  if (is_fulfilled(task) || runtime() == nullptr) return;
  fabric::Fabric& fabric = runtime()->platform().fabric();
  static_cast<void>(fabric.wait_until([&] { return is_fulfilled(task) || fabric.lost_ranks() != 0; }));
  runtime()->end_if_lost();
}

std::unique_ptr<Task> make_task(Thread& thread, const TaskSpec& spec) {
  std::unique_ptr<Task> task(spec.waiting != nullptr ? spec.waiting : new Task);
  inherit(*task, *thread.task, spec.is_final);
  if (spec.waiting == nullptr) make_event(*task, spec);
  return task;
}

/// Outside of all regions all that a task makes has ended when it ends.
void run_alone(Thread& thread, const TaskSpec& spec) {
  const std::unique_ptr<Task> made = make_task(thread, spec);
  run_function(thread, *made, spec);
  wait_until_fulfilled(*made);
}

/// A task that is cancelled before it is made. The one with its event stays, with no pool that has counted
/// it: the program may fulfil that at any time.
void drop(const TaskSpec& spec) {
  if (spec.waiting != nullptr) spec.waiting->pool = nullptr;
  if (!spec.has_block) return;
  if (spec.may_be_dropped) return give_block(spec.data, spec.bytes);
  TaskSpec own = spec;
  own.waiting = nullptr;
  run_alone(self(), own);
}

/// Whether a task is better run by who makes it, before it goes on.
bool is_run_at_once(const Thread& thread, const TaskSpec& spec, const Team& team, TaskPool& pool) {
  if (!spec.is_deferred || thread.task->is_final) return true;
  if (spec.event != nullptr || spec.waiting != nullptr)
    return false;  // which may be fulfilled by what comes later
  if (team.size() > 1) return pool.is_full();
  // Nobody else would run it. But what it depends on may wait for an event.
  return spec.depend == nullptr || thread.task->children.load(std::memory_order_acquire) == 0;
}

}  // namespace

bool may_cancel() noexcept {
  return runtime() != nullptr && runtime()->settings().cancellation;
}

void cancel_region() {
  if (Team* const team = self().state.team) team->cancellation().cancel_region();
}

void cancel_share() {
  if (Team* const team = self().state.team) team->cancellation().cancel_share();
}

void cancel_group() {
  const Task& task = *self().task;
  if (TaskGroup* const group = group_to_cancel(task)) {
    group->is_cancelled.store(true, std::memory_order_release);
  } else if (task.loan != nullptr && !task.loan->is_cancelled.exchange(true, std::memory_order_acq_rel)) {
    runtime()->send(task.loan->owner, TaskPool::cancelled_group(*task.loan));
  }
}

bool is_region_cancelled() noexcept {
  Team* const team = self().state.team;
  return team != nullptr && team->cancellation().is_region_cancelled();
}

bool is_share_cancelled() noexcept {
  Team* const team = self().state.team;
  return team != nullptr && team->cancellation().is_share_cancelled();
}

bool is_group_cancelled() noexcept {
  const Task& task = *self().task;
  if (const TaskGroup* const group = group_to_cancel(task))
    return group->is_cancelled.load(std::memory_order_acquire);
  return task.loan != nullptr && task.loan->is_cancelled.load(std::memory_order_acquire);
}

void mark_share_group() noexcept {
  self().task->group->is_share = true;
}

Task* make_waiting_task(std::uintptr_t* event) {
  Thread& thread = self();
  auto* const task = new Task;
  // One that its maker runs itself is waited for in the fabric, not in a pool.
  if (thread.state.team != nullptr && !thread.task->is_final) task->pool = &thread.state.team->tasks();
  make_event(*task, {.function = nullptr,
                     .data = nullptr,
                     .copy = nullptr,
                     .bytes = 0,
                     .alignment = 0,
                     .is_deferred = true,
                     .is_final = false,
                     .depend = nullptr,
                     .priority = 0,
                     .event = event});
  return task;
}

void begin_task_here(bool is_final, Task* waiting) {
  Thread& thread = self();
  Task* const task = waiting != nullptr ? waiting : new Task;
  task->pool = nullptr;
  inherit(*task, *thread.task, is_final);
  thread.task = task;
}

void end_task_here() {
  Thread& thread = self();
  std::unique_ptr<Task> task(thread.task);
  thread.task = task->parent;
  if (thread.state.team == nullptr) return wait_until_fulfilled(*task);
  TaskPool& pool = thread.state.team->tasks();
  if (!is_fulfilled(*task)) pool.wait_for_event(thread, *task);
  pool.end_undeferred(std::move(task));
}

void run_task(const TaskSpec& spec) {
  Thread& thread = self();
  Team* const team = thread.state.team;
  if (may_cancel() && (is_region_cancelled() || is_group_cancelled())) return drop(spec);
  if (team == nullptr) return run_alone(thread, spec);
  TaskPool& pool = team->tasks();
  std::vector<Dependence> items;
  if (spec.depend != nullptr) items = dependences_of(spec.depend);
  std::unique_ptr<Task> task = make_task(thread, spec);
  if (is_run_at_once(thread, spec, *team, pool)) {
    pool.wait_for_dependences(thread, items);
    pool.serve_others();
    run_function(thread, *task, spec);
    if (!is_fulfilled(*task)) pool.wait_for_event(thread, *task);
    return pool.end_undeferred(std::move(task));
  }
  if (spec.event != nullptr) task->pool = &pool;
  // What its block's constructors made its function destroys.
  task->may_be_dropped = spec.copy == nullptr && spec.event == nullptr && spec.waiting == nullptr &&
                         spec.may_be_dropped && may_cancel();
  task->function = spec.function;
  if (spec.has_block) {
    task->allocation = task->block = spec.data;
    task->block_bytes = spec.bytes;
  } else {
    task->block_bytes = spec.bytes + (spec.alignment > Runtime::block_alignment ? spec.alignment : 0);
    task->allocation = runtime()->take_block(task->block_bytes);
    const auto first = reinterpret_cast<std::uintptr_t>(task->allocation);
    const std::uintptr_t alignment = spec.alignment == 0 ? 1 : spec.alignment;
    task->block = reinterpret_cast<void*>((first + alignment - 1) / alignment * alignment);
  }
  const int most = runtime()->settings().max_task_priority;
  task->priority = spec.priority < most ? spec.priority : most;
  if (!spec.has_block) {
    // Constructors of the program's run as part of the task.
    Task* const before = std::exchange(thread.task, task.get());
    fill_block(spec, task->block);
    thread.task = before;
  }
  pool.add(std::move(task), items);
}

void wait_for_children() {
  Thread& thread = self();
  if (thread.state.team != nullptr && thread.task->children.load(std::memory_order_acquire) != 0)
    thread.state.team->tasks().wait_for_children(thread);
}

void wait_for_dependences(void** depend) {
  Thread& thread = self();
  if (thread.state.team != nullptr)
    thread.state.team->tasks().wait_for_dependences(thread, dependences_of(depend));
}

void fulfil(std::uintptr_t event) {
  auto* const task = reinterpret_cast<Task*>(event & event_task_mask);
  const auto rank = static_cast<fabric::Rank>(event >> event_rank_shift);
  Runtime* const here = runtime();
  if (here != nullptr && rank != here->rank()) {
    here->platform().flush_output();
    here->guard([&] { here->platform().space().publish(); });
    return here->send(rank, TaskPool::fulfilled(*task));
  }
  if (task->pool != nullptr) return task->pool->finish(*task);
  // Run at once, by a thread that now waits for this.
  task->ends_to_come.fetch_sub(1, std::memory_order_acq_rel);
  if (here != nullptr) here->platform().fabric().notify();
}

void begin_group() {
  Task& task = *self().task;
  task.group = new TaskGroup{.outer = task.group, .reductions = reductions()};
}

void end_group() {
  Thread& thread = self();
  const std::unique_ptr<TaskGroup> group(thread.task->group);
  if (group == nullptr) return;
  if (thread.state.team != nullptr) thread.state.team->tasks().wait_for_group(thread, *group);
  thread.task->group = group->outer;
}

void* reductions() noexcept {
  const Task& task = *self().task;
  return task.group != nullptr ? task.group->reductions : task.reductions;
}

void set_reductions(void* registered) noexcept {
  self().task->group->reductions = registered;
}

void* take_block(std::size_t bytes) {
  return runtime() != nullptr ? runtime()->take_block(bytes) : ::operator new(bytes);
}

void give_block(void* block, std::size_t bytes) {
  // The runtime starts before the program does, so it is the one that the block is from.
  runtime() != nullptr ? runtime()->give_block(block, bytes) : ::operator delete(block);
}

std::uint32_t team_size() {
  const Team* const team = self().state.team;
  return team != nullptr ? team->size() : 1;
}

}  // namespace craton::omp
