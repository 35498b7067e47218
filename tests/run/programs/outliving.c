/// \file
/// Threads that go on when the region in which they were started has ended, on whichever rank it was.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { rounds = 500 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counted;
static pthread_t threads[most_threads];
static struct { _Alignas(4096) atomic_int value; } sum;

static void count(void) {
  for (int i = 0; i < rounds; ++i) {
    pthread_mutex_lock(&lock);
    ++counted;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&sum.value, 1);
  }
}

static void* run(void* ignored) {
  count();
  return ignored;
}

int main(void) {
  int team = 0;
#pragma omp parallel
  {
    take_part();
    if (pthread_create(&threads[omp_get_thread_num()], NULL, &run, NULL) != 0) abort();
#pragma omp single
    team = omp_get_num_threads();
  }
  count();
#pragma omp parallel
  pthread_join(threads[omp_get_thread_num()], NULL);
  check_int("by a mutex", counted - (team + 1) * rounds);
  check_int("by an atomic", sum.value - (team + 1) * rounds);
  return finish();
}
