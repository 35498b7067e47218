/// Threads look at a flag, with a flush each time, that one sets after half a second of sleep. Prints how
/// often one of them has looked at most. For polling_test.cpp.
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static volatile int flag;

int main(void) {
  long most = 0;
#pragma omp parallel
  {
    long looks = 0;
#pragma omp barrier
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
    if (looks > most) most = looks;
  }
  printf("%ld\n", most);
  return 0;
}
