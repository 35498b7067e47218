/// \file
/// Static arrays of more than 1 MiB among small variables: their ends, and what lies beside them.
#include <omp.h>
#include <stdio.h>

enum { first_count = 300001, second_count = 700003, third_count = 5 };

static int before = 1;
static int first[first_count] = {1};  // with a value, in .data
static int between = 2;
static long second[second_count];
static int after[third_count];

int main(void) {
#pragma omp parallel
  {
    const int team = omp_get_num_threads();
    const int self = omp_get_thread_num();
    for (int round = 0; round < 3; ++round) {
      // Neighbouring elements by different threads, at the ends of the arrays and across all of their blocks.
      for (int i = self; i < first_count; i += team) first[i] += i % 7;
      for (int i = self; i < second_count; i += team) second[i] += i % 5;
      for (int i = self; i < third_count; i += team) ++after[i];
#pragma omp barrier
#pragma omp single
      {
        ++before;
        between += before;
      }
    }
  }
  long sums[3] = {0};
  for (int i = 0; i < first_count; ++i) sums[0] += first[i] * (i % 11L);
  for (int i = 0; i < second_count; ++i) sums[1] += second[i] * (i % 13L);
  for (int i = 0; i < third_count; ++i) sums[2] += after[i];
  printf("%d %d, %ld %ld %ld, %d %d\n", before, between, sums[0], sums[1], sums[2], first[0], first[1]);
}
