/// \file
/// What OpenMP promises nothing to, all accesses plain, without a flush: the three idioms of docs/run.md that
/// programs use all the same. Says how often each went wrong.
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { most_threads = 64, counts = 300, laps = 10, words_a_page = 512 };

/// Each with pages of its own. The flags of all threads share one, and so come to the others by merges too.
static volatile long data[words_a_page] __attribute__((aligned(4096)));
static volatile long flags[words_a_page] __attribute__((aligned(4096)));
static volatile long bell[words_a_page] __attribute__((aligned(4096)));
static long sum __attribute__((aligned(4096)));
static int wrong __attribute__((aligned(4096)));

/// The first thread counts up data, then a flag; each other passes the flag on and then looks at the data.
static void pass_on_a_flag(void) {
  const int team = omp_get_max_threads();
  wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    const int self = omp_get_thread_num();
    if (self == 0) {
      for (long count = 1; count <= counts; ++count) {
        data[0] = count;
        flags[0] = count;
        usleep(100);
      }
    }
    for (long found = 0; self > 0 && found < counts;) {
      const long now = flags[self - 1];
      if (now == found) {
        sched_yield();
        continue;
      }
      found = now;
      wrong += data[0] < found;
      flags[self] = found;
    }
  }
  printf("data after its flag, %d threads: %d times wrong\n", team, wrong);
}

/// One thread sets what all add to, without a barrier; a plain flag says that it has.
static void set_and_reduce(void) {
  int laps_wrong = 0;
#pragma omp parallel reduction(+ : laps_wrong)
  for (long lap = 1; lap <= laps; ++lap) {
#pragma omp single nowait
    {
      sum = 0;
      bell[1] = lap;
    }
    while (bell[1] < lap) usleep(50);
#pragma omp for reduction(+ : sum) schedule(static, 1)
    for (int i = 0; i < most_threads; ++i) sum += 1;
    laps_wrong += sum != most_threads;
#pragma omp barrier
  }
  printf("a sum that one thread sets: %d times wrong\n", laps_wrong);
}

/// The last thread rings; all others wait for that.
static void wait_for_a_bell(void) {
  int heard = 0;
#pragma omp parallel reduction(+ : heard)
  {
    if (omp_get_thread_num() == omp_get_num_threads() - 1) bell[0] = 1;
    while (bell[0] == 0) usleep(50);
    heard += 1;
  }
  printf("a volatile bell: %d did not hear it\n", omp_get_max_threads() - heard);
}

int main(void) {
  pass_on_a_flag();
  set_and_reduce();
  wait_for_a_bell();
  return 0;
}
