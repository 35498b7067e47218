/// \file
/// Doacross loops: `ordered(n)`, `depend(source)` and `depend(sink)`. The iterations that are shared out are
/// numbered from 0 by the compiler.
#include <cstdarg>
#include <cstdint>
#include <vector>

#include "omp/gomp/loop_start.hpp"
#include "omp/gomp/reductions.hpp"

namespace craton::omp::gomp {

namespace {

template <typename Value>
bool start_doacross(Schedule schedule, unsigned dimensions, const Value* counts, Value chunk, Value* first,
                    Value* last) {
  const std::vector<std::uint64_t> all(counts, counts + dimensions);
  begin_doacross(loop_of(schedule, chunk < Value{0} ? 0 : static_cast<std::uint64_t>(chunk),
                         Iterations::of(true, 0, static_cast<std::uint64_t>(counts[0]), 1)),
                 all);
  return next(first, last);
}

template <typename Value>
void post_iteration(const Value* iteration) {
  const std::size_t dimensions = doacross_dimensions();
  if (dimensions != 0) post(std::vector<std::uint64_t>(iteration, iteration + dimensions));
}

/// The other numbers are arguments behind the first one.
template <typename Value>
void wait_for_iteration(Value first, std::va_list& others) {
  const std::size_t dimensions = doacross_dimensions();
  if (dimensions == 0) return;
  std::vector<std::uint64_t> iteration{static_cast<std::uint64_t>(first)};
  while (iteration.size() < dimensions)
    iteration.push_back(static_cast<std::uint64_t>(va_arg(others, Value)));
  wait_for_post(iteration);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
#define CRATON_DOACROSS(name, schedule)                                                               \
  CRATON_GOMP bool GOMP_loop_doacross_##name##_start(unsigned dimensions, long* counts, long chunk,   \
                                                     long* first, long* last) {                       \
    return start_doacross(schedule, dimensions, counts, chunk, first, last);                          \
  }                                                                                                   \
  CRATON_GOMP bool GOMP_loop_ull_doacross_##name##_start(unsigned dimensions, Ull* counts, Ull chunk, \
                                                         Ull* first, Ull* last) {                     \
    return start_doacross(schedule, dimensions, counts, chunk, first, last);                          \
  }
// NOLINTEND(bugprone-macro-parentheses)
CRATON_DOACROSS(static, Schedule::fixed)
CRATON_DOACROSS(dynamic, Schedule::dynamic)
CRATON_DOACROSS(guided, Schedule::guided)

CRATON_GOMP bool GOMP_loop_doacross_runtime_start(unsigned dimensions, long* counts, long* first,
                                                  long* last) {
  return start_doacross(Schedule::runtime, dimensions, counts, 0L, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_doacross_runtime_start(unsigned dimensions, Ull* counts, Ull* first,
                                                      Ull* last) {
  return start_doacross(Schedule::runtime, dimensions, counts, Ull{0}, first, last);
}

/// \param reductions over tasks; null: none \param memory see give_memory
CRATON_GOMP bool GOMP_loop_doacross_start(unsigned dimensions, long* counts, long schedule, long chunk,
                                          long* first, long* last, std::uintptr_t* reductions,
                                          void** memory) {
  begin_share_reductions(reductions);
  give_memory(memory);
  return start_doacross(schedule_of(schedule), dimensions, counts, chunk, first, last);
}
CRATON_GOMP bool GOMP_loop_ull_doacross_start(unsigned dimensions, Ull* counts, long schedule, Ull chunk,
                                              Ull* first, Ull* last, std::uintptr_t* reductions,
                                              void** memory) {
  begin_share_reductions(reductions);
  give_memory(memory);
  return start_doacross(schedule_of(schedule), dimensions, counts, chunk, first, last);
}

CRATON_GOMP void GOMP_doacross_post(long* iteration) {
  post_iteration(iteration);
}
CRATON_GOMP void GOMP_doacross_ull_post(Ull* iteration) {
  post_iteration(iteration);
}
CRATON_GOMP void GOMP_doacross_wait(long first, ...) {
  std::va_list others;
  va_start(others, first);
  wait_for_iteration(first, others);
  va_end(others);
}
CRATON_GOMP void GOMP_doacross_ull_wait(Ull first, ...) {
  std::va_list others;
  va_start(others, first);
  wait_for_iteration(first, others);
  va_end(others);
}

}  // namespace craton::omp::gomp
