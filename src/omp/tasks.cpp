#include "omp/tasks.hpp"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

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
  task.loan = parent.loan;
}

/// With a block of its own where the program's is not to be changed.
void run_function(Thread& thread, Task& task, const TaskSpec& spec) {
  std::unique_ptr<std::byte[]> memory;
  void* block = spec.data;
  Task* const before = std::exchange(thread.task, &task);
  if (spec.copy != nullptr) {
    memory = std::make_unique<std::byte[]>(spec.bytes + spec.alignment);
    const auto first = reinterpret_cast<std::uintptr_t>(memory.get());
    block = reinterpret_cast<void*>((first + spec.alignment - 1) / spec.alignment * spec.alignment);
  }
  fill_block(spec, block);
  spec.function(block);
  thread.task = before;
}

/// Where no other thread of the team is to run anything, all that a task makes has ended when it ends.
void run_alone(Thread& thread, const TaskSpec& spec) {
  Task task;
  inherit(task, *thread.task, spec.is_final);
  run_function(thread, task, spec);
}

}  // namespace

void run_task(const TaskSpec& spec) {
  Thread& thread = self();
  Team* const team = thread.state.team;
  if (team == nullptr || team->size() == 1) return run_alone(thread, spec);
  TaskPool& pool = team->tasks();
  std::vector<Dependence> items;
  if (spec.depend != nullptr) items = dependences_of(spec.depend);
  auto task = std::make_unique<Task>();
  inherit(*task, *thread.task, spec.is_final);
  if (!spec.is_deferred || thread.task->is_final || pool.is_full()) {
    pool.wait_for_dependences(thread, items);
    run_function(thread, *task, spec);
    return pool.end_undeferred(std::move(task));
  }
  task->function = spec.function;
  task->block_bytes = spec.bytes + (spec.alignment > Runtime::block_alignment ? spec.alignment : 0);
  task->allocation = runtime()->take_block(task->block_bytes);
  const auto first = reinterpret_cast<std::uintptr_t>(task->allocation);
  const std::uintptr_t alignment = spec.alignment == 0 ? 1 : spec.alignment;
  task->block = reinterpret_cast<void*>((first + alignment - 1) / alignment * alignment);
  const int most = runtime()->settings().max_task_priority;
  task->priority = spec.priority < most ? spec.priority : most;
  // Constructors of the program's run as part of the task.
  Task* const before = std::exchange(thread.task, task.get());
  fill_block(spec, task->block);
  thread.task = before;
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

void begin_group() {
  Task& task = *self().task;
  task.group = new TaskGroup{.outer = task.group};
}

void end_group() {
  Thread& thread = self();
  const std::unique_ptr<TaskGroup> group(thread.task->group);
  if (group == nullptr) return;
  if (thread.state.team != nullptr) thread.state.team->tasks().wait_for_group(thread, *group);
  thread.task->group = group->outer;
}

std::uint32_t team_size() {
  const Team* const team = self().state.team;
  return team != nullptr ? team->size() : 1;
}

}  // namespace craton::omp
