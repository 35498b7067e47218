/* Memory bandwidth by the four loops of STREAM (McCalpin, 1995): copy, scale, add, triad.
 *
 * Argument: elements of each of the three arrays, which are allocated and first touched by the threads that
 * use them. */
#include <math.h>

#include "common/program.h"

enum { rounds = 10, loops = 4 };

static const double factor = 3;

int main(int argc, char** argv) {
  const long size = program_size(argc, argv, 16 << 20, 1, 1L << 32);
  double* const a = program_allocate((size_t)size, sizeof *a);
  double* const b = program_allocate((size_t)size, sizeof *b);
  double* const c = program_allocate((size_t)size, sizeof *c);
  double times[rounds][loops + 1];

  const double start = omp_get_wtime();
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (long i = 0; i < size; ++i) {
      a[i] = 1;
      b[i] = 2;
      c[i] = 0;
    }
    for (int round = 0; round < rounds; ++round) {
#pragma omp master
      times[round][0] = omp_get_wtime();
#pragma omp barrier
#pragma omp for schedule(static)
      for (long i = 0; i < size; ++i) c[i] = a[i];
#pragma omp master
      times[round][1] = omp_get_wtime();
#pragma omp for schedule(static)
      for (long i = 0; i < size; ++i) b[i] = factor * c[i];
#pragma omp master
      times[round][2] = omp_get_wtime();
#pragma omp for schedule(static)
      for (long i = 0; i < size; ++i) c[i] = a[i] + b[i];
#pragma omp master
      times[round][3] = omp_get_wtime();
#pragma omp for schedule(static)
      for (long i = 0; i < size; ++i) a[i] = b[i] + factor * c[i];
#pragma omp master
      times[round][4] = omp_get_wtime();
    }
  }
  const double seconds = omp_get_wtime() - start;

  const char* const names[loops] = {"copy", "scale", "add", "triad"};
  const double element_bytes[loops] = {16, 16, 24, 24};
  double triad = 0;
  for (int loop = 0; loop < loops; ++loop) {
    double best = INFINITY;
    for (int round = 1; round < rounds; ++round)
      best = fmin(best, times[round][loop + 1] - times[round][loop]);
    triad = element_bytes[loop] * (double)size / best * 1e-9;
    printf("  %-5s %8.2f GB/s\n", names[loop], triad);
  }

  double expected_a = 1;
  double expected_b = 2;
  double expected_c = 0;
  for (int round = 0; round < rounds; ++round) {
    expected_c = expected_a;
    expected_b = factor * expected_c;
    expected_c = expected_a + expected_b;
    expected_a = expected_b + factor * expected_c;
  }
  long wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
  for (long i = 0; i < size; ++i) { /* all values are whole numbers, below 2^53 */
    if (a[i] != expected_a || b[i] != expected_b || c[i] != expected_c) ++wrong;
  }
  printf("  %ld of %ld elements are wrong\n", wrong, size);
  free(a);
  free(b);
  free(c);
  return program_report("stream", size, seconds, triad, "GB/s (triad)", wrong == 0);
}
