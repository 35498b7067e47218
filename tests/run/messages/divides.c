/// \file
/// Divides by zero in the last thread, after main has said that this is an end.
#define _GNU_SOURCE
#include <fenv.h>
#include <omp.h>
#include <stdio.h>

int main(void) {
  volatile double zero = 0;
  if (feenableexcept(FE_DIVBYZERO) == -1) return 1;
#pragma omp parallel
  if (omp_get_thread_num() == omp_get_num_threads() - 1) printf("went on with %g\n", 1 / zero);
  return 0;
}
