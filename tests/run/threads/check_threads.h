/// \file
/// What the programs share: a line for each result, and on how many processes threads took part.
///
/// Threads call meet(); main calls check_int() after each step and finish() at the end. The results must
/// be the same in one process and in many.
#pragma once

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { most_processes = 64 };

static pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_met = PTHREAD_COND_INITIALIZER;
static int met = 0;
static int processes[most_processes];
static int process_count = 0;
static int fewest_processes = most_processes + 1;
static const char* name_of_fewest = "";

/// Notes the process of this thread, and waits until so many threads of the step have done so: who ends early
/// leaves its rank to the next.
static inline void meet(int threads) {
  const int self = getpid();
  pthread_mutex_lock(&check_lock);
  int at = 0;
  while (at < process_count && processes[at] != self) ++at;
  if (at == process_count && process_count < most_processes) processes[process_count++] = self;
  if (++met == threads) pthread_cond_broadcast(&all_met);
  while (met < threads) pthread_cond_wait(&all_met, &check_lock);
  pthread_mutex_unlock(&check_lock);
}

static inline void count_processes(const char* name) {
  pthread_mutex_lock(&check_lock);
  const int count = process_count;
  process_count = 0;
  met = 0;
  pthread_mutex_unlock(&check_lock);
  if (count == 0 || count >= fewest_processes) return;
  fewest_processes = count;
  name_of_fewest = name;
}

static inline void check_int(const char* name, long long value) {
  printf("check %s: %lld\n", name, value);
  count_processes(name);
}

/// How many threads the programs start in each step.
static inline int thread_count(void) {
  const char* const asked = getenv("CHECK_THREADS");
  return asked == NULL ? 8 : atoi(asked);
}

/// Says on how many processes threads of each step ran at least. \returns the exit code
static inline int finish(void) {
  fprintf(stderr, "processes: %d, as in %s\n", fewest_processes, name_of_fewest);
  return 0;
}
