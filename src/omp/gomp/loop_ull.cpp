/// \file
/// Loops over `unsigned long long`. A start meets the loop and takes the first chunk.
#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

namespace {

using Value = unsigned long long;

bool next(Value* first, Value* last) {
  LoopPosition* position = nullptr;
  if (!next_chunk(position)) return false;
  const Iterations& iterations = position->loop.iterations;
  *first = static_cast<Value>(iterations.value(position->first));
  *last = static_cast<Value>(iterations.value_at_end(position->last));
  return true;
}

bool start_loop(Schedule schedule, bool ordered, bool up, Value start, Value end, Value step, Value chunk,
                Value* first, Value* last) {
  begin_share(loop_of(schedule, chunk, Iterations::of(up, start, end, step), ordered));
  return next(first, last);
}

}  // namespace

// ---- Without ordered parts

CRATON_GOMP bool GOMP_loop_ull_static_start(bool up, Value start, Value end, Value step, Value chunk,
                                            Value* first, Value* last) {
  return start_loop(Schedule::fixed, false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_static_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_dynamic_start(bool up, Value start, Value end, Value step, Value chunk,
                                             Value* first, Value* last) {
  return start_loop(Schedule::dynamic, false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_dynamic_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_guided_start(bool up, Value start, Value end, Value step, Value chunk,
                                            Value* first, Value* last) {
  return start_loop(Schedule::guided, false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_guided_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_runtime_start(bool up, Value start, Value end, Value step, Value* first,
                                             Value* last) {
  return start_loop(Schedule::runtime, false, up, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_runtime_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, Value start, Value end, Value step,
                                                          Value chunk, Value* first, Value* last) {
  return start_loop(Schedule::dynamic, false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_dynamic_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_guided_start(bool up, Value start, Value end, Value step,
                                                         Value chunk, Value* first, Value* last) {
  return start_loop(Schedule::guided, false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_guided_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_runtime_start(bool up, Value start, Value end, Value step,
                                                          Value* first, Value* last) {
  return start_loop(Schedule::runtime, false, up, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_nonmonotonic_runtime_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_maybe_nonmonotonic_runtime_start(bool up, Value start, Value end, Value step,
                                                                Value* first, Value* last) {
  return start_loop(Schedule::runtime, false, up, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_maybe_nonmonotonic_runtime_next(Value* first, Value* last) {
  return next(first, last);
}

// ---- With ordered parts

CRATON_GOMP bool GOMP_loop_ull_ordered_static_start(bool up, Value start, Value end, Value step, Value chunk,
                                                    Value* first, Value* last) {
  return start_loop(Schedule::fixed, true, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_static_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_dynamic_start(bool up, Value start, Value end, Value step, Value chunk,
                                                     Value* first, Value* last) {
  return start_loop(Schedule::dynamic, true, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_dynamic_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_guided_start(bool up, Value start, Value end, Value step, Value chunk,
                                                    Value* first, Value* last) {
  return start_loop(Schedule::guided, true, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_guided_next(Value* first, Value* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_runtime_start(bool up, Value start, Value end, Value step,
                                                     Value* first, Value* last) {
  return start_loop(Schedule::runtime, true, up, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_runtime_next(Value* first, Value* last) {
  return next(first, last);
}

// ---- Any of them, maybe with reductions over tasks or memory for scans

CRATON_GOMP bool GOMP_loop_ull_start(bool up, Value start, Value end, Value step, long schedule, Value chunk,
                                     Value* first, Value* last, std::uintptr_t* reductions, void** memory) {
  if (reductions != nullptr) refuse("GOMP_loop_ull_start with task reductions");
  give_memory(memory);
  if (first == nullptr) return true;
  return start_loop(schedule_of(schedule), false, up, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_ordered_start(bool up, Value start, Value end, Value step, long schedule,
                                             Value chunk, Value* first, Value* last,
                                             std::uintptr_t* reductions, void** memory) {
  if (reductions != nullptr) refuse("GOMP_loop_ull_ordered_start with task reductions");
  give_memory(memory);
  if (first == nullptr) return true;
  return start_loop(schedule_of(schedule), true, up, start, end, step, chunk, first, last);
}

}  // namespace craton::omp::gomp
