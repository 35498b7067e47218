/* Threads write different values to the same variable between the same two barriers. */
#include <omp.h>
#include <stdio.h>

static long last_writer;
static long results[8192];

int main(void) {
  for (int round = 0; round < 20; ++round) {
#pragma omp parallel
    {
      results[omp_get_thread_num() * 4096] += round;
      last_writer = 100 * round + omp_get_thread_num() + 1;
    }
  }
  printf("%ld %ld\n", last_writer != 0 ? 1L : 0L, results[0]);
  return 0;
}
