/* All threads of all ranks are busy with coherent memory (mutexes, atomics, false sharing, faults) when rank
 * 2 kills itself: `craton run -n 4 -- space_death MILLISECONDS`. Never ends by itself. */
#define _DEFAULT_SOURCE
#include <craton/space.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "rank.h"

enum { threads = 2, words = 8192, mutexes = 4 };

static uint64_t* shared;
static craton_mutex locks[mutexes];

static void* work(void* argument) {
  const unsigned self = (unsigned)craton_rank() * threads + *(const unsigned*)argument;
  unsigned state = self + 1;
  must(craton_thread_enter(), "craton_thread_enter");
  for (;;) {
    state = state * 1103515245U + 12345U;
    const unsigned lock = state >> 16U & (mutexes - 1);
    if ((state >> 20U & 7U) == 0) {
      must(craton_atomic_fetch_add64(&shared[lock], 1, NULL), "craton_atomic_fetch_add64");
    } else {
      must(craton_mutex_lock(locks[lock]), "craton_mutex_lock");
      /* Of the words that belong to a mutex, all over the blocks. */
      for (unsigned i = 0; i < 64; ++i) shared[64 + (state + i * 97U) % (words / 8) * 4 + lock] += 1;
      must(craton_mutex_unlock(locks[lock]), "craton_mutex_unlock");
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  craton_space_options space = CRATON_SPACE_OPTIONS_INIT;
  craton_segment_options segment = CRATON_SEGMENT_OPTIONS_INIT;
  void* data = NULL;
  static unsigned numbers[threads];
  if (argc != 2) return 2;
  must(craton_init(), "craton_init");
  must(craton_space_open(&space), "craton_space_open");
  segment.bytes = words * sizeof *shared;
  must(craton_segment_create(&segment, &data), "craton_segment_create");
  shared = data;
  for (unsigned i = 0; i < mutexes; ++i)
    must(craton_mutex_create_together(&locks[i]), "craton_mutex_create_together");
  must(craton_space_barrier(0), "craton_space_barrier");
  for (unsigned i = 0; i < threads; ++i) {
    pthread_t thread;
    numbers[i] = i;
    if (pthread_create(&thread, NULL, &work, &numbers[i]) != 0) return 1;
  }
  if (craton_rank() == 2) {
    usleep((useconds_t)atoi(argv[1]) * 1000);
    kill(getpid(), SIGKILL);
  }
  for (;;) pause();
}
