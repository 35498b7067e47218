/// \file
/// What the programs share: a line for each result, and in which processes the threads of each region ran.
///
/// The thread outside all regions calls check_*() after each region and finish() at the end; threads of a
/// region call take_part() or meet(). The results must be the same in one process and in many.
#pragma once

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { most_threads = 64 };

/// By number in the outermost team; 0: has taken no part since the last check.
static int process_of[most_threads];
static int fewest_processes = most_threads + 1;
static const char* name_of_fewest = "";

/// Notes that this thread was in the region.
static inline void take_part(void) {
#pragma omp atomic write
  process_of[omp_get_ancestor_thread_num(1)] = getpid();
}

/// The same, and the first time waits until all threads of the team have, so that no thread gets all the work
/// where threads take it as it comes. Ends the program after a minute. With CHECK_NO_MEETING in the
/// environment it does not wait.
static inline void meet(void) {
  const int self = omp_get_ancestor_thread_num(1);
  int process;
#pragma omp atomic read
  process = process_of[self];
  if (process != 0) return;
  take_part();
  if (getenv("CHECK_NO_MEETING") != NULL) return;
  const double end = omp_get_wtime() + 60;
  for (int other = 0; other < omp_get_team_size(1);) {
#pragma omp flush
#pragma omp atomic read
    process = process_of[other];
    if (omp_get_wtime() > end) {
      fprintf(stderr, "thread %d has waited a minute for thread %d\n", self, other);
      abort();
    }
    if (process != 0)
      ++other;
    else
      usleep(50);  // the machine may have fewer processors than the team has threads
  }
}

/// Counts the processes that have taken part since the last check.
static inline void count_processes(const char* name) {
  int processes = 0;
  for (int i = 0; i < most_threads; ++i) {
    int is_new = process_of[i] != 0;
    for (int j = 0; j < i; ++j) is_new &= process_of[j] != process_of[i];
    processes += is_new;
  }
  for (int i = 0; i < most_threads; ++i) process_of[i] = 0;
  if (processes == 0 || processes >= fewest_processes) return;
  fewest_processes = processes;
  name_of_fewest = name;
}

static inline void check_int(const char* name, long long value) {
  printf("check %s: %lld\n", name, value);
  count_processes(name);
}
/// Exact: sums must not depend on their order.
static inline void check_real(const char* name, long double value) {
  printf("check %s: %.21Lg\n", name, value);
  count_processes(name);
}
static inline void check_text(const char* name, const char* value) {
  printf("check %s: %s\n", name, value);
  count_processes(name);
}

/// Says how many processes took part in each region at least. \returns the exit code
static inline int finish(void) {
  fprintf(stderr, "processes: %d, as in %s\n", fewest_processes, name_of_fewest);
  return 0;
}
