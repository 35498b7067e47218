/// \file
/// Loops that threads, or teams, share out by their numbers alone.
#include <algorithm>

#include "omp/kmpc/abi.hpp"
#include "omp/kmpc/loops.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::kmpc {

namespace {

/// Of whom, and how many there are.
struct Part {
  std::uint64_t number;
  std::uint64_t of;
};

/// A loop's bounds, both included, as the compiler has them: changed to those of the caller's part.
template <typename Value>
struct Bounds {
  Value* first;
  Value* last;
  Step<Value> step;

  std::uint64_t count() const noexcept { return trips(*first, *last, step); }
  Value at(std::uint64_t iteration) const noexcept {
    return static_cast<Value>(static_cast<std::uint64_t>(*first) +
                              iteration * static_cast<std::uint64_t>(static_cast<std::int64_t>(step)));
  }
  /// Iterations [from, to) of them; none if they are equal.
  void narrow(std::uint64_t from, std::uint64_t to) noexcept {
    if (from >= to) {
      *first = static_cast<Value>(*last + static_cast<Value>(step));
      return;
    }
    *last = at(to - 1);
    *first = at(from);
  }
};

/// Equal parts, the first ones with one iteration more. \returns whether the last iteration is in it
template <typename Value>
bool take_equal(Bounds<Value> bounds, std::uint64_t count, Part part) noexcept {
  const std::uint64_t each = count / part.of;
  const std::uint64_t more = count % part.of;
  const std::uint64_t from = part.number * each + std::min(part.number, more);
  const std::uint64_t to = from + each + (part.number < more ? 1 : 0);
  bounds.narrow(from, to);
  return from < to && to == count;
}

/// The first of its chunks; the next one is a stride further, and the compiler looks at the loop's end.
template <typename Value>
bool take_chunk(Bounds<Value> bounds, Step<Value>* stride, std::uint64_t count, std::uint64_t chunk,
                Part part) noexcept {
  const auto step = static_cast<std::uint64_t>(static_cast<std::int64_t>(bounds.step));
  chunk = std::min(chunk, count);
  *stride = static_cast<Step<Value>>(step * chunk * part.of);
  if (part.number > (count - 1) / chunk) {
    bounds.narrow(count, count);
    return false;
  }
  const Value begin = bounds.at(part.number * chunk);
  *bounds.last = bounds.at(part.number * chunk + chunk - 1);
  *bounds.first = begin;
  return part.number == (count - 1) / chunk % part.of;
}

template <typename Value>
std::uint64_t chunk_of(Step<Value> asked) noexcept {
  return asked < 1 ? 1 : static_cast<std::uint64_t>(asked);
}

Part thread_part() {
  return {.number = self().state.number, .of = team_size()};
}
Part team_part() {
  const League& league = self().state.league;
  return {.number = league.number, .of = league.count};
}

template <typename Value>
void start(std::uint32_t asked, std::int32_t* is_last, Bounds<Value> bounds, Step<Value>* stride,
           Step<Value> chunk) {
  std::uint32_t kind = asked & ~schedule::modifiers;
  const bool is_distribute =
      kind == schedule::distribute_static_chunked || kind == schedule::distribute_static_chunked + 1;
  if (is_distribute) kind -= schedule::distribute_static_chunked - schedule::static_chunked;
  if (kind >= schedule::nomerge_first) kind -= schedule::nomerge_offset;
  const Part part = is_distribute ? team_part() : thread_part();
  const std::uint64_t count = bounds.count();
  const bool is_chunked = kind == schedule::static_chunked || kind == schedule::static_balanced_chunked;
  const std::uint64_t each = is_chunked ? chunk_of<Value>(chunk) : 0;
  if (!is_distribute) {
    meet_announced({.kind = WorkKind::fixed,
                    .chunk = each,
                    .iterations = iterations_of<Value>(*bounds.first, *bounds.last, bounds.step)});
  }
  bool has_last = false;
  if (count == 0) {
    *stride = bounds.step;
  } else if (is_chunked) {
    has_last = take_chunk(bounds, stride, count, each, part);
  } else {
    // More than any part has, so that the compiler's loop over chunks ends with the first.
    *stride =
        static_cast<Step<Value>>(count * static_cast<std::uint64_t>(static_cast<std::int64_t>(bounds.step)));
    has_last = take_equal(bounds, count, part);
  }
  if (is_last != nullptr) *is_last = has_last ? 1 : 0;
}

/// Between teams and between the threads of each at once. \param team_last gets the end of the team's part
template <typename Value>
void start_distributed(std::uint32_t asked, std::int32_t* is_last, Bounds<Value> bounds, Value* team_last,
                       Step<Value>* stride, Step<Value> chunk) {
  bool has_last = false;
  const std::uint64_t count = bounds.count();
  if (count != 0) has_last = take_equal(bounds, count, team_part());
  *team_last = *bounds.last;
  std::int32_t is_threads_last = 0;
  start<Value>(asked, &is_threads_last, bounds, stride, chunk);
  if (is_last != nullptr) *is_last = has_last && is_threads_last != 0 ? 1 : 0;
}

/// Chunks between teams. The end is the loop's where it comes first.
template <typename Value>
void start_chunks_of_teams(std::int32_t* is_last, Bounds<Value> bounds, Step<Value>* stride,
                           Step<Value> chunk) {
  const std::uint64_t count = bounds.count();
  if (is_last != nullptr) *is_last = 0;
  *stride = bounds.step;
  if (count == 0) return;
  const std::uint64_t each = chunk_of<Value>(chunk);
  const Part part = team_part();
  const Value end = *bounds.last;
  const bool is_short = part.number * each < count && count - part.number * each < each;
  const bool has_last = take_chunk(bounds, stride, count, each, part);
  if (is_short) *bounds.last = end;
  if (is_last != nullptr) *is_last = has_last ? 1 : 0;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): parts of names
#define CRATON_STATIC(name, Value)                                                                       \
  CRATON_KMPC void __kmpc_for_static_init_##name(                                                        \
      Location* /*at*/, std::int32_t /*thread*/, std::int32_t kind, std::int32_t* is_last, Value* first, \
      Value* last, Step<Value>* stride, Step<Value> step, Step<Value> chunk) {                           \
    start<Value>(static_cast<std::uint32_t>(kind), is_last, {first, last, step}, stride, chunk);         \
  }                                                                                                      \
  CRATON_KMPC void __kmpc_dist_for_static_init_##name(                                                   \
      Location* /*at*/, std::int32_t /*thread*/, std::int32_t kind, std::int32_t* is_last, Value* first, \
      Value* last, Value* team_last, Step<Value>* stride, Step<Value> step, Step<Value> chunk) {         \
    start_distributed<Value>(static_cast<std::uint32_t>(kind), is_last, {first, last, step}, team_last,  \
                             stride, chunk);                                                             \
  }                                                                                                      \
  CRATON_KMPC void __kmpc_team_static_init_##name(                                                       \
      Location* /*at*/, std::int32_t /*thread*/, std::int32_t* is_last, Value* first, Value* last,       \
      Step<Value>* stride, Step<Value> step, Step<Value> chunk) {                                        \
    start_chunks_of_teams<Value>(is_last, {first, last, step}, stride, chunk);                           \
  }
// NOLINTEND(bugprone-macro-parentheses)
CRATON_STATIC(4, std::int32_t)
CRATON_STATIC(4u, std::uint32_t)
CRATON_STATIC(8, std::int64_t)
CRATON_STATIC(8u, std::uint64_t)
#undef CRATON_STATIC

CRATON_KMPC void __kmpc_for_static_fini(Location* /*at*/, std::int32_t /*thread*/) {}

}  // namespace craton::omp::kmpc
