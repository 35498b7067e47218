/// \file
/// Loops over `long`. A start meets the loop and takes the first chunk.
#include "omp/gomp/abi.hpp"

namespace craton::omp::gomp {

namespace {

bool next(long* first, long* last) {
  LoopPosition* position = nullptr;
  if (!next_chunk(position)) return false;
  const Iterations& iterations = position->loop.iterations;
  *first = static_cast<long>(iterations.value(position->first));
  *last = static_cast<long>(iterations.value_at_end(position->last));
  return true;
}

bool start_loop(Schedule schedule, bool ordered, long start, long end, long step, long chunk, long* first,
                long* last) {
  begin_share(loop_of(schedule, chunk < 0 ? 0 : static_cast<std::uint64_t>(chunk),
                      Iterations::of(start, end, step), ordered));
  return next(first, last);
}

}  // namespace

// ---- Without ordered parts

CRATON_GOMP bool GOMP_loop_static_start(long start, long end, long step, long chunk, long* first,
                                        long* last) {
  return start_loop(Schedule::fixed, false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_static_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_dynamic_start(long start, long end, long step, long chunk, long* first,
                                         long* last) {
  return start_loop(Schedule::dynamic, false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_dynamic_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_guided_start(long start, long end, long step, long chunk, long* first,
                                        long* last) {
  return start_loop(Schedule::guided, false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_guided_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_runtime_start(long start, long end, long step, long* first, long* last) {
  return start_loop(Schedule::runtime, false, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_runtime_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk,
                                                      long* first, long* last) {
  return start_loop(Schedule::dynamic, false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_dynamic_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_guided_start(long start, long end, long step, long chunk, long* first,
                                                     long* last) {
  return start_loop(Schedule::guided, false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_guided_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_runtime_start(long start, long end, long step, long* first,
                                                      long* last) {
  return start_loop(Schedule::runtime, false, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_nonmonotonic_runtime_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_maybe_nonmonotonic_runtime_start(long start, long end, long step, long* first,
                                                            long* last) {
  return start_loop(Schedule::runtime, false, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_maybe_nonmonotonic_runtime_next(long* first, long* last) {
  return next(first, last);
}

// ---- With ordered parts

CRATON_GOMP bool GOMP_loop_ordered_static_start(long start, long end, long step, long chunk, long* first,
                                                long* last) {
  return start_loop(Schedule::fixed, true, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_static_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_dynamic_start(long start, long end, long step, long chunk, long* first,
                                                 long* last) {
  return start_loop(Schedule::dynamic, true, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_dynamic_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_guided_start(long start, long end, long step, long chunk, long* first,
                                                long* last) {
  return start_loop(Schedule::guided, true, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_guided_next(long* first, long* last) {
  return next(first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_runtime_start(long start, long end, long step, long* first, long* last) {
  return start_loop(Schedule::runtime, true, start, end, step, 0, first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_runtime_next(long* first, long* last) {
  return next(first, last);
}

// ---- Any of them, maybe with reductions over tasks or memory for scans

CRATON_GOMP bool GOMP_loop_start(long start, long end, long step, long schedule, long chunk, long* first,
                                 long* last, std::uintptr_t* reductions, void** memory) {
  if (reductions != nullptr) refuse("GOMP_loop_start with task reductions");
  give_memory(memory);
  if (first == nullptr) return true;
  return start_loop(schedule_of(schedule), false, start, end, step, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ordered_start(long start, long end, long step, long schedule, long chunk,
                                         long* first, long* last, std::uintptr_t* reductions, void** memory) {
  if (reductions != nullptr) refuse("GOMP_loop_ordered_start with task reductions");
  give_memory(memory);
  if (first == nullptr) return true;
  return start_loop(schedule_of(schedule), true, start, end, step, chunk, first, last);
}

// ---- The end of a loop of either kind

CRATON_GOMP void GOMP_loop_end() {
  end_share();
  barrier(site_of(__builtin_return_address(0)));
}
CRATON_GOMP void GOMP_loop_end_nowait() {
  end_share();
}
CRATON_GOMP bool GOMP_loop_end_cancel() {
  end_share();
  barrier(site_of(__builtin_return_address(0)));
  return false;
}

}  // namespace craton::omp::gomp
