/// \file
/// Loops over `long`, and over `unsigned long long` (ull), whose direction is an argument. A start meets the
/// loop and takes the first chunk.
#include "omp/gomp/loop_start.hpp"
#include "omp/gomp/reductions.hpp"

namespace craton::omp::gomp {

namespace {

bool start_loop(Schedule schedule, bool ordered, long start, long end, long step, long chunk, long* first,
                long* last) {
  begin_share(loop_of(schedule, chunk < 0 ? 0 : static_cast<std::uint64_t>(chunk),
                      Iterations::of(start, end, step), ordered));
  return next(first, last);
}

bool start_loop(Schedule schedule, bool ordered, bool up, Ull start, Ull end, Ull step, Ull chunk, Ull* first,
                Ull* last) {
  begin_share(loop_of(schedule, chunk, Iterations::of(up, start, end, step), ordered));
  return next(first, last);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
/// The two functions of each type that go on with a loop.
#define CRATON_LOOP_NEXT(name)                                          \
  CRATON_GOMP bool GOMP_loop_##name##_next(long* first, long* last) {   \
    return next(first, last);                                           \
  }                                                                     \
  CRATON_GOMP bool GOMP_loop_ull_##name##_next(Ull* first, Ull* last) { \
    return next(first, last);                                           \
  }

/// All functions of a loop whose schedule the program names.
#define CRATON_LOOP(name, schedule, ordered)                                                          \
  CRATON_GOMP bool GOMP_loop_##name##_start(long start, long end, long step, long chunk, long* first, \
                                            long* last) {                                             \
    return start_loop(schedule, ordered, start, end, step, chunk, first, last);                       \
  }                                                                                                   \
  CRATON_GOMP bool GOMP_loop_ull_##name##_start(bool up, Ull start, Ull end, Ull step, Ull chunk,     \
                                                Ull* first, Ull* last) {                              \
    return start_loop(schedule, ordered, up, start, end, step, chunk, first, last);                   \
  }                                                                                                   \
  CRATON_LOOP_NEXT(name)

/// All functions of a loop whose schedule, with its chunk, OMP_SCHEDULE or omp_set_schedule names.
#define CRATON_RUNTIME_LOOP(name, ordered)                                                              \
  CRATON_GOMP bool GOMP_loop_##name##_start(long start, long end, long step, long* first, long* last) { \
    return start_loop(Schedule::runtime, ordered, start, end, step, 0, first, last);                    \
  }                                                                                                     \
  CRATON_GOMP bool GOMP_loop_ull_##name##_start(bool up, Ull start, Ull end, Ull step, Ull* first,      \
                                                Ull* last) {                                            \
    return start_loop(Schedule::runtime, ordered, up, start, end, step, 0, first, last);                \
  }                                                                                                     \
  CRATON_LOOP_NEXT(name)
// NOLINTEND(bugprone-macro-parentheses)

CRATON_LOOP(static, Schedule::fixed, false)
CRATON_LOOP(dynamic, Schedule::dynamic, false)
CRATON_LOOP(guided, Schedule::guided, false)
CRATON_RUNTIME_LOOP(runtime, false)
CRATON_LOOP(nonmonotonic_dynamic, Schedule::dynamic, false)
CRATON_LOOP(nonmonotonic_guided, Schedule::guided, false)
CRATON_RUNTIME_LOOP(nonmonotonic_runtime, false)
CRATON_RUNTIME_LOOP(maybe_nonmonotonic_runtime, false)
CRATON_LOOP(ordered_static, Schedule::fixed, true)
CRATON_LOOP(ordered_dynamic, Schedule::dynamic, true)
CRATON_LOOP(ordered_guided, Schedule::guided, true)
CRATON_RUNTIME_LOOP(ordered_runtime, true)

// ---- Any of them, maybe with reductions over tasks or memory for scans

// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
#define CRATON_ANY_LOOP(name, ordered)                                                                       \
  CRATON_GOMP bool GOMP_loop_##name(long start, long end, long step, long schedule, long chunk, long* first, \
                                    long* last, std::uintptr_t* reductions, void** memory) {                 \
    begin_share_reductions(reductions);                                                                      \
    give_memory(memory);                                                                                     \
    if (first == nullptr) return true;                                                                       \
    return start_loop(schedule_of(schedule), ordered, start, end, step, chunk, first, last);                 \
  }                                                                                                          \
  CRATON_GOMP bool GOMP_loop_ull_##name(bool up, Ull start, Ull end, Ull step, long schedule, Ull chunk,     \
                                        Ull* first, Ull* last, std::uintptr_t* reductions, void** memory) {  \
    begin_share_reductions(reductions);                                                                      \
    give_memory(memory);                                                                                     \
    if (first == nullptr) return true;                                                                       \
    return start_loop(schedule_of(schedule), ordered, up, start, end, step, chunk, first, last);             \
  }
// NOLINTEND(bugprone-macro-parentheses)

CRATON_ANY_LOOP(start, false)
CRATON_ANY_LOOP(ordered_start, true)

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
  return cancellable_barrier(site_of(__builtin_return_address(0)));
}

}  // namespace craton::omp::gomp
