/// \file
/// Doacross loops: an iteration sees what those it waits for wrote, whatever thread had them.
#include "check.h"

// Few: with more threads than processors libgomp spins in vain at each of them.
enum { rows = 7, columns = 3 };

static long long grid[rows][columns];

static long long sum_of_grid(void) {
  long long sum = 0;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) sum += (i + 1) * (j + 2) * (grid[i][j] % 1000003);
  return sum;
}

#define FILL(i, j)                                                                                           \
  grid[i][j] = 1 + (i > 0 ? 3 * grid[i - 1][j] : 0) % 1000003 + (j > 0 ? 5 * grid[i][j - 1] : 0) % 1000003 + \
               7 * i + j

/// Each cell of what is above and left.
#define WAVE(name, schedule)                                                               \
  static void name(void) {                                                                 \
    for (int i = 0; i < rows; ++i)                                                         \
      for (int j = 0; j < columns; ++j) grid[i][j] = 0;                                    \
    _Pragma("omp parallel") {                                                              \
      take_part();                                                                         \
      _Pragma(schedule) for (int i = 0; i < rows; ++i) for (int j = 0; j < columns; ++j) { \
        _Pragma("omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)") FILL(i, j); \
        _Pragma("omp ordered depend(source)")                                              \
      }                                                                                    \
    }                                                                                      \
    check_int(#name, sum_of_grid());                                                       \
  }
WAVE(of_threads, "omp for ordered(2) schedule(static)")
WAVE(of_chunks, "omp for ordered(2) schedule(static, 2)")
WAVE(dynamic, "omp for ordered(2) schedule(dynamic)")
WAVE(dynamic_chunks, "omp for ordered(2) schedule(dynamic, 3)")
WAVE(guided, "omp for ordered(2) schedule(guided)")
WAVE(runtime, "omp for ordered(2) schedule(runtime)")

/// A chain over all iterations, of which others come in between.
static void chain(void) {
  static long long values[12];
  for (int i = 0; i < 12; ++i) values[i] = i;
#pragma omp parallel
  {
    take_part();
#pragma omp for ordered(1) nowait
    for (long i = 0; i < 12; ++i) {
#pragma omp ordered depend(sink : i - 3)
      if (i >= 3) values[i] += 2 * values[i - 3] % 1009;
#pragma omp ordered depend(source)
    }
#pragma omp for
    for (int i = 0; i < 12; ++i) values[i] += 0;
  }
  long long sum = 0;
  for (int i = 0; i < 12; ++i) sum += i * values[i];
  check_int("chain", sum);
}

int main(void) {
  of_threads();
  of_chunks();
  dynamic();
  dynamic_chunks();
  guided();
  runtime();
  chain();
  return finish();
}
