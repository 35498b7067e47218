/// \file
/// What the entry points of loops share: the compiler's numbers of schedules, and loops by inclusive bounds.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "omp/loops.hpp"

namespace craton::omp::kmpc {

namespace schedule {

enum Number : std::uint32_t {
  static_chunked = 33,
  static_equal = 34,
  dynamic_chunked = 35,
  guided_chunked = 36,
  chosen_at_run_time = 37,
  automatic = 38,
  trapezoidal = 39,
  static_greedy = 40,
  guided_iterative = 42,
  guided_analytical = 43,
  static_steal = 44,
  static_balanced_chunked = 45,
  guided_simd = 46,
  run_time_simd = 47,
  ordered_static_chunked = 65,
  ordered_automatic = 70,
  distribute_static_chunked = 91,
  nomerge_first = 160,
};
/// An ordered schedule is the plain one and this; so is one that is not to be merged, and more.
constexpr std::uint32_t ordered_offset = ordered_static_chunked - static_chunked;
constexpr std::uint32_t nomerge_offset = 128;
/// Modifiers: monotonic, nonmonotonic.
constexpr std::uint32_t modifiers = 3U << 29U;

}  // namespace schedule

template <typename Value>
using Step = std::make_signed_t<Value>;

/// Iterations from `first` to `last`, both included.
template <typename Value>
std::uint64_t trips(Value first, Value last, Step<Value> step) noexcept {
  using Unsigned = std::make_unsigned_t<Value>;
  if (step > 0 ? last < first : first < last) return 0;
  const auto way =
      static_cast<Unsigned>(step > 0 ? static_cast<Unsigned>(last) - static_cast<Unsigned>(first)
                                     : static_cast<Unsigned>(first) - static_cast<Unsigned>(last));
  const auto each = static_cast<Unsigned>(step > 0 ? static_cast<Unsigned>(step)
                                                   : Unsigned{0} - static_cast<Unsigned>(step));
  return std::uint64_t{static_cast<Unsigned>(way / each)} + 1;
}

template <typename Value>
Iterations iterations_of(Value first, Value last, Step<Value> step) noexcept {
  const std::uint64_t count = trips(first, last, step);
  const auto start = static_cast<std::uint64_t>(first);
  const auto each = static_cast<std::uint64_t>(static_cast<std::int64_t>(step));
  return {.start = start, .step = each, .end = start + count * each, .count = count};
}

/// Meets a doacross loop that the caller has announced (doacross.cpp), now that its schedule and its number
/// of iterations are known. \returns false if it has announced none
bool meet_announced(const Loop& loop);

}  // namespace craton::omp::kmpc
