/// \file
/// Threads count in many libraries, each of which has its data for itself. Only some of the libraries may be
/// linked.
#include <omp.h>
#include <stdio.h>

#define ALL(each)                                                                                    \
  each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11) each(12) \
      each(13) each(14) each(15) each(16) each(17) each(18) each(19) each(20)
#define DECLARE(number) extern long count_##number(void) __attribute__((weak));
#define NAME(number) &count_##number,

ALL(DECLARE)
static long (*const counts[])(void) = {ALL(NAME)};

enum { turns = 50 };

int main(void) {
  int libraries = 0;
  int right = 0;
  for (unsigned i = 0; i < sizeof counts / sizeof *counts; ++i) {
    if (counts[i] == NULL) continue;
    ++libraries;
    int team = 0;
#pragma omp parallel
    {
#pragma omp single
      team = omp_get_num_threads();
      for (int turn = 0; turn < turns; ++turn) counts[i]();
    }
    right += counts[i]() == (long)team * turns + 1;
  }
  printf("%d libraries, %d counted right\n", libraries, right);
  return 0;
}
