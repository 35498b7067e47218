/// \file
/// Timing one turn of one variant. Both sides of a ratio go through the same function, so that what the
/// measuring itself costs is on both sides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"

namespace craton::bench {

/// What one turn has shown.
struct Sample {
  std::uint64_t operations = 0;
  double mean_ns =
      0;  ///< elapsed time over operations: what a program pays, waits behind other threads included
  double p50_ns = 0;
  double p99_ns = 0;
};

/// Tells the compiler that memory at `pointer` is read and written here, so that no copy is left out or
/// merged.
inline void touch_memory(const void* pointer) noexcept {
  asm volatile("" : : "r"(pointer) : "memory");
}

inline TimeNs now_ns() noexcept {
  return SteadyClock().now_ns();
}

/// Mean, median and 99th percentile of single times that were all taken within `elapsed_ns`. Reorders
/// `times_ns`.
inline Sample summarise(std::vector<double>& times_ns, std::uint64_t operations, TimeNs elapsed_ns) {
  if (times_ns.empty() || operations == 0) return {};
  const auto percentile = [&times_ns](std::size_t percent) {
    const auto at = times_ns.begin() + static_cast<std::ptrdiff_t>((times_ns.size() - 1) * percent / 100);
    std::nth_element(times_ns.begin(), at, times_ns.end());
    return *at;
  };
  return {operations, static_cast<double>(elapsed_ns) / static_cast<double>(operations), percentile(50),
          percentile(99)};
}

/// Times operations one by one for `turn_ns`, at least one, after a tenth of the turn (at least one
/// operation) to warm up. For operations of a microsecond and more: reading the clock costs some 25 ns.
template <typename Operation>
Sample time_each(TimeNs turn_ns, Operation&& operation) {
  const TimeNs warm_until = now_ns() + turn_ns / 10;
  do operation();
  while (now_ns() < warm_until);

  std::vector<double> times_ns;
  times_ns.reserve(4096);
  const TimeNs start = now_ns();
  TimeNs before = start;
  do {
    operation();
    const TimeNs after = now_ns();
    times_ns.push_back(static_cast<double>(after - before));
    before = after;
  } while (before - start < turn_ns);
  return summarise(times_ns, times_ns.size(), before - start);
}

/// Times runs of a program for `turn_ns`, and so many at least, as times of one of its `operations` each. For
/// what cannot be cut into single operations, since many threads of control do them. Does not warm up.
template <typename Run>
Sample time_runs(TimeNs turn_ns, std::uint64_t operations, Run&& run, std::uint64_t least_runs = 1) {
  std::vector<double> times_ns;
  const TimeNs start = now_ns();
  TimeNs before = start;
  do {
    run();
    const TimeNs after = now_ns();
    times_ns.push_back(static_cast<double>(after - before) / static_cast<double>(operations));
    before = after;
  } while (before - start < turn_ns || times_ns.size() < least_runs);
  return summarise(times_ns, times_ns.size() * operations, before - start);
}

/// Times batches of operations for `turn_ns`: `batch(count)` does `count` of them. The size of a batch is
/// found first, which also warms up: the smallest power of two that takes 50 us, twice. For operations of a
/// few nanoseconds.
template <typename Batch>
Sample time_batches(TimeNs turn_ns, Batch&& batch) {
  constexpr TimeNs least_batch_ns = 50'000;
  std::uint64_t count = 1;
  const auto takes_long = [&batch, &count] {
    const TimeNs start = now_ns();
    batch(count);
    return now_ns() - start >= least_batch_ns;
  };
  // Twice, since once may have been the first use of something, or another thread's turn on this CPU.
  while (!takes_long() || !takes_long()) count *= 2;

  std::vector<double> times_ns;
  times_ns.reserve(4096);
  const TimeNs start = now_ns();
  TimeNs before = start;
  std::uint64_t operations = 0;
  do {
    batch(count);
    const TimeNs after = now_ns();
    times_ns.push_back(static_cast<double>(after - before) / static_cast<double>(count));
    before = after;
    operations += count;
  } while (before - start < turn_ns);
  return summarise(times_ns, operations, before - start);
}

}  // namespace craton::bench
