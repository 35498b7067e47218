#include "omp/tasks.hpp"

#include <cstring>
#include <memory>

#include "omp/team.hpp"
#include "omp/thread.hpp"

namespace craton::omp {

namespace {

void run_now(const TaskSpec& spec, void* block) {
  Thread& thread = self();
  Task task{
      .icvs = thread.task->icvs, .parent = thread.task, .is_final = thread.task->is_final || spec.is_final};
  thread.task = &task;
  spec.function(block);
  thread.task = task.parent;
}

}  // namespace

void run_task(const TaskSpec& spec) {
  if (spec.copy == nullptr) {
    if (spec.has_range) std::memcpy(spec.data, spec.range.data(), sizeof spec.range);
    return run_now(spec, spec.data);
  }
  const auto memory = std::make_unique<std::byte[]>(spec.bytes + spec.alignment);
  const auto first = reinterpret_cast<std::uintptr_t>(memory.get());
  void* const block = reinterpret_cast<void*>((first + spec.alignment - 1) / spec.alignment * spec.alignment);
  spec.copy(block, spec.data);
  if (spec.has_range) std::memcpy(block, spec.range.data(), sizeof spec.range);
  run_now(spec, block);
}

void wait_for_children() {}
void wait_for_dependences(void** /*depend*/) {}
void begin_group() {}
void end_group() {}

std::uint32_t team_size() {
  const Team* const team = self().state.team;
  return team != nullptr ? team->size() : 1;
}

}  // namespace craton::omp
