/// \file
/// A library whose threads watch each other without synchronising, as those of OpenBLAS do: see
/// plain_watchers.c.
#include <omp.h>
#include <sched.h>
#include <unistd.h>

enum { words = 4000, rounds = 30 };
static double data[2][words];
static struct { _Alignas(64) volatile int round; } filled[2], seen[2];

/// \returns how many numbers were not those that the other thread had put there; -1: there were not two
long watch(int* processes) {
  long wrong = 0;
  int process[2] = {0, 0};
#pragma omp parallel num_threads(2) reduction(+ : wrong)
  {
    const int self = omp_get_thread_num();
    process[self] = getpid();
    if (omp_get_num_threads() != 2) wrong = -1;
    for (int round = 1; wrong >= 0 && round <= rounds; ++round) {
      while (seen[1 - self].round != round - 1) sched_yield();
      for (int i = 0; i < words; ++i) data[self][i] = round + self;
      filled[self].round = round;
      while (filled[1 - self].round != round) sched_yield();
      for (int i = 0; i < words; ++i) wrong += data[1 - self][i] != round + 1 - self;
      seen[self].round = round;
    }
  }
  *processes = process[0] == process[1] ? 1 : 2;
  return wrong;
}
