/// Threads look at a flag, with a flush each time, that one sets after half a second of sleep. Prints how
/// often one of them has looked at most, and for how many milliseconds. For polling_test.cpp.
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static volatile int flag;

int main(void) {
  long most = 0;
  double waited = 0;
#pragma omp parallel
  {
    long looks = 0;
#pragma omp barrier
    const double start = omp_get_wtime();
    if (omp_get_thread_num() == 0) {
      usleep(500 * 1000);
      flag = 1;
#pragma omp flush
    }
    while (flag == 0) {
#pragma omp flush
      ++looks;
    }
#pragma omp critical
    if (looks > most) {
      most = looks;
      waited = omp_get_wtime() - start;
    }
  }
  printf("%ld %.0f\n", most, waited * 1e3);
  return 0;
}
