/// \file
/// Loops whose chunks threads take one by one, and doacross loops.
///
/// The compiler announces a doacross loop before it says how its iterations are shared out, and how many of
/// its loops are one for that. So what it announces is kept until the loop itself begins.
#include <algorithm>
#include <utility>
#include <vector>

#include "omp/kmpc/abi.hpp"
#include "omp/kmpc/loops.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

namespace {

/// kmp_dim: the values of a loop's variable, as the compiler numbers them.
struct Dimension {
  std::int64_t first;
  std::int64_t end;
  std::int64_t step;
};

/// The caller's doacross loop.
struct Announced {
  std::vector<std::uint64_t> counts;  ///< of iterations, of each loop
  std::vector<std::int64_t> firsts;
  std::vector<std::int64_t> steps;
  std::size_t collapsed = 0;  ///< so many loops are one; 0: it has not begun
};

Announced& announced() {
  thread_local Announced own;
  return own;
}

Loop loop_of_schedule(std::uint32_t asked, const Iterations& iterations, std::uint64_t chunk) {
  std::uint32_t kind = asked & ~schedule::modifiers;
  if (kind >= schedule::nomerge_first) kind -= schedule::nomerge_offset;
  const bool is_ordered = kind >= schedule::ordered_static_chunked && kind <= schedule::ordered_automatic;
  if (is_ordered) kind -= schedule::ordered_offset;
  switch (kind) {
    case schedule::dynamic_chunked:
    case schedule::static_steal:
      return loop_of(Schedule::dynamic, chunk, iterations, is_ordered);
    case schedule::guided_chunked:
    case schedule::trapezoidal:
    case schedule::guided_iterative:
    case schedule::guided_analytical:
    case schedule::guided_simd:
      return loop_of(Schedule::guided, chunk, iterations, is_ordered);
    case schedule::chosen_at_run_time:
    case schedule::run_time_simd:
      return loop_of(Schedule::runtime, 0, iterations, is_ordered);
    case schedule::automatic:
      return loop_of(Schedule::automatic, 0, iterations, is_ordered);
    case schedule::static_chunked:
    case schedule::static_balanced_chunked:
      return loop_of(Schedule::fixed, std::max<std::uint64_t>(chunk, 1), iterations, is_ordered);
    default:
      return loop_of(Schedule::fixed, 0, iterations, is_ordered);
  }
}

template <typename Value>
void init(std::int32_t kind, Value first, Value last, Step<Value> step, Step<Value> chunk) {
  const Loop loop =
      loop_of_schedule(static_cast<std::uint32_t>(kind), iterations_of<Value>(first, last, step),
                       chunk < 1 ? 0 : static_cast<std::uint64_t>(chunk));
  if (!meet_announced(loop)) begin_share(loop);
}

/// The part of the caller's team, of which its threads then take chunks.
template <typename Value>
void init_distributed(std::int32_t kind, Value first, Value last, Step<Value> step, Step<Value> chunk) {
  const std::uint64_t count = trips(first, last, step);
  const League& league = self().state.league;
  const std::uint64_t each = count / league.count;
  const std::uint64_t more = count % league.count;
  const std::uint64_t from = league.number * each + std::min<std::uint64_t>(league.number, more);
  const std::uint64_t to = from + each + (league.number < more ? 1 : 0);
  const Iterations all = iterations_of<Value>(first, last, step);
  const Iterations own{.start = all.value(from), .step = all.step, .end = all.value(to), .count = to - from};
  begin_share(loop_of_schedule(static_cast<std::uint32_t>(kind), own,
                               chunk < 1 ? 0 : static_cast<std::uint64_t>(chunk)));
}

template <typename Value>
std::int32_t next(std::int32_t* is_last, Value* first, Value* last, Step<Value>* step) {
  LoopPosition* position = nullptr;
  if (!next_chunk(position)) {
    // A doacross loop goes on until its own end.
    if (announced().collapsed == 0) end_share();
    return 0;
  }
  const Iterations& iterations = position->loop.iterations;
  *first = static_cast<Value>(iterations.value(position->first));
  *last = static_cast<Value>(iterations.value(position->last - 1));
  if (step != nullptr) *step = static_cast<Step<Value>>(iterations.step);
  if (is_last != nullptr) *is_last = position->last == iterations.count ? 1 : 0;
  return 1;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
#define CRATON_DISPATCH(name, Value)                                                                         \
  CRATON_KMPC void __kmpc_dispatch_init_##name(Location* /*at*/, std::int32_t /*thread*/, std::int32_t kind, \
                                               Value first, Value last, Step<Value> step,                    \
                                               Step<Value> chunk) {                                          \
    init<Value>(kind, first, last, step, chunk);                                                             \
  }                                                                                                          \
  CRATON_KMPC void __kmpc_dist_dispatch_init_##name(                                                         \
      Location* /*at*/, std::int32_t /*thread*/, std::int32_t kind, std::int32_t* /*is_last*/, Value first,  \
      Value last, Step<Value> step, Step<Value> chunk) {                                                     \
    init_distributed<Value>(kind, first, last, step, chunk);                                                 \
  }                                                                                                          \
  CRATON_KMPC std::int32_t __kmpc_dispatch_next_##name(Location* /*at*/, std::int32_t /*thread*/,            \
                                                       std::int32_t* is_last, Value* first, Value* last,     \
                                                       Step<Value>* step) {                                  \
    return next<Value>(is_last, first, last, step);                                                          \
  }                                                                                                          \
  /* After each iteration of an ordered loop: the turn goes on with the chunk. */                            \
  CRATON_KMPC void __kmpc_dispatch_fini_##name(Location* /*at*/, std::int32_t /*thread*/) {}
// NOLINTEND(bugprone-macro-parentheses)
CRATON_DISPATCH(4, std::int32_t)
CRATON_DISPATCH(4u, std::uint32_t)
CRATON_DISPATCH(8, std::int64_t)
CRATON_DISPATCH(8u, std::uint64_t)
#undef CRATON_DISPATCH

// ---- Doacross loops

bool meet_announced(const Loop& loop) {
  Announced& own = announced();
  if (own.counts.empty() || own.collapsed != 0) return false;
  std::uint64_t count = 1;
  std::size_t collapsed = 0;
  while (collapsed < own.counts.size() && count != loop.iterations.count) count *= own.counts[collapsed++];
  if (collapsed == 0) count = own.counts[collapsed++];
  own.collapsed = collapsed;
  std::vector<std::uint64_t> counts{count};
  counts.insert(counts.end(), own.counts.begin() + static_cast<std::ptrdiff_t>(collapsed), own.counts.end());
  begin_doacross(loop, counts);
  return true;
}

namespace {

/// An iteration as the runtime numbers it. \returns false if it is none of the loop's
bool number_of(const std::int64_t* iteration, std::vector<std::uint64_t>& numbers) {
  const Announced& own = announced();
  std::uint64_t outer = 0;
  for (std::size_t i = 0; i < own.counts.size(); ++i) {
    const auto number = static_cast<std::uint64_t>((iteration[i] - own.firsts[i]) / own.steps[i]);
    if (number >= own.counts[i]) return false;  // also what is before the first
    if (i < own.collapsed) outer = outer * own.counts[i] + number;
    if (i + 1 == own.collapsed) numbers.push_back(outer);
    if (i >= own.collapsed) numbers.push_back(number);
  }
  return true;
}

}  // namespace

CRATON_KMPC void __kmpc_doacross_init(Location* /*at*/, std::int32_t /*thread*/, std::int32_t count,
                                      const Dimension* dimensions) {
  Announced& own = announced();
  own = {};
  for (std::int32_t i = 0; i < count; ++i) {
    own.firsts.push_back(dimensions[i].first);
    own.steps.push_back(dimensions[i].step);
    // clang gives the number of iterations as the end of a loop from 0.
    own.counts.push_back(
        static_cast<std::uint64_t>((dimensions[i].end - dimensions[i].first) / dimensions[i].step));
  }
}
CRATON_KMPC void __kmpc_doacross_post(Location* /*at*/, std::int32_t /*thread*/,
                                      const std::int64_t* iteration) {
  std::vector<std::uint64_t> numbers;
  if (doacross_dimensions() != 0 && number_of(iteration, numbers)) post(numbers);
}
CRATON_KMPC void __kmpc_doacross_wait(Location* /*at*/, std::int32_t /*thread*/,
                                      const std::int64_t* iteration) {
  std::vector<std::uint64_t> numbers;
  if (doacross_dimensions() != 0 && number_of(iteration, numbers)) wait_for_post(numbers);
}
CRATON_KMPC void __kmpc_doacross_fini(Location* /*at*/, std::int32_t /*thread*/) {
  Announced& own = announced();
  if (own.collapsed != 0) end_share();
  own = {};
}

}  // namespace craton::omp::kmpc
