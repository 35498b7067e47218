/// \file
/// What one thread chooses for all, in serial code, and what each thread says by itself when it has another
/// place.
#include <omp.h>
#include <stdio.h>

int main(void) {
  omp_set_affinity_format("thread %n of %N");
  omp_set_num_teams(3);
  omp_set_teams_thread_limit(5);
  int right = 0;
  for (int region = 0; region < 2; ++region) {
#pragma omp parallel reduction(+ : right)
    right += omp_get_max_teams() == 3 && omp_get_teams_thread_limit() == 5;
  }
  printf("%d\n", right);
  return 0;
}
