// Threads count what they find, each in its own element of one array: correct, but elements of different
// threads lie in one block of memory, which therefore goes from rank to rank all the time (false sharing).
// The report names it:
//
//   gcc -g -O2 -fopenmp counters.c -o counters
//   craton run -n 2 --threads 1 --report sharing -- ./counters
//
// With what it advises, each thread's counter in a block of its own:
//
//   gcc -g -O2 -fopenmp -DPADDED counters.c -o counters
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { threads_most = 64, block_bytes = 4096, values = 1 << 12 };

#ifdef PADDED
struct counter {
  _Alignas(block_bytes) long found;
};
#else
struct counter {
  long found;
};
#endif

static struct counter counters[threads_most];

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
  const double start = omp_get_wtime();
  int threads = 1;
#pragma omp parallel num_threads(omp_get_max_threads() < threads_most ? omp_get_max_threads() : threads_most)
  {
    const int own = omp_get_thread_num();
    unsigned state = 12345U + (unsigned)own;
#pragma omp single
    threads = omp_get_num_threads();
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < values; ++i) {
        state = state * 1664525U + 1013904223U;
        if (state % 97 == 0) counters[own].found++;
      }
#pragma omp barrier
    }
  }
  const double seconds = omp_get_wtime() - start;
  long expected = 0;
  for (int thread = 0; thread < threads; ++thread) {
    unsigned state = 12345U + (unsigned)thread;
    for (long i = 0; i < (long)rounds * values; ++i) {
      state = state * 1664525U + 1013904223U;
      if (state % 97 == 0) ++expected;
    }
  }
  long found = 0;
  for (int thread = 0; thread < threads; ++thread) found += counters[thread].found;
  printf("counters: %ld found, %ld expected, %.3f s with %d threads\n", found, expected, seconds, threads);
  return found == expected ? 0 : 1;
}
