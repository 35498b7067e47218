/// \file
/// The library's routines: what they answer in and out of regions.
#include "check.h"

#include <stdlib.h>
#include <string.h>

static void ask_outside(void) {
  check_int("threads outside", omp_get_num_threads() * 100 + omp_get_thread_num());
  check_int("in parallel outside", omp_in_parallel());
  check_int("levels outside", omp_get_level() * 10 + omp_get_active_level());
  check_int("ancestors outside", omp_get_ancestor_thread_num(0) * 100 + omp_get_team_size(0));
  check_int("ancestors out of range", omp_get_ancestor_thread_num(1) * 10 + omp_get_team_size(-1));
  check_int("dynamic", omp_get_dynamic());
  omp_set_dynamic(1);
  check_int("dynamic, set", omp_get_dynamic());
  omp_set_dynamic(0);
  check_int("active levels", omp_get_max_active_levels());
  check_int("supported active levels", omp_get_supported_active_levels() > 100);
  check_int("thread limit", omp_get_thread_limit());
  check_int("cancellation", omp_get_cancellation());
  check_int("final", omp_in_final());
  check_int("devices", omp_get_num_devices() * 10 + omp_is_initial_device());
  check_int("device numbers", omp_get_initial_device() * 10 + omp_get_default_device());
  check_int("teams", omp_get_num_teams() * 10 + omp_get_team_num());
  check_int("task priority", omp_get_max_task_priority());
  check_int("clock", omp_get_wtime() > 0 && omp_get_wtick() > 0 && omp_get_wtick() < 1);
}

static void set_schedule(void) {
  omp_sched_t kind;
  int chunk;
  omp_get_schedule(&kind, &chunk);
  check_int("schedule", (long long)(unsigned)kind * 100 + chunk);
  omp_set_schedule(omp_sched_guided, 17);
  omp_get_schedule(&kind, &chunk);
  check_int("schedule, set", (long long)(unsigned)kind * 100 + chunk);
  long long in_regions = 0;
#pragma omp parallel private(kind, chunk)
  {
    take_part();
    omp_get_schedule(&kind, &chunk);
#pragma omp atomic
    in_regions += (long long)(unsigned)kind * 100 + chunk;
  }
  check_int("schedule in a region", in_regions);
}

static void ask_in_regions(void) {
  const int team = omp_get_max_threads();
  long long numbers = 0;
#pragma omp parallel reduction(+ : numbers)
  {
    take_part();
    numbers += omp_in_parallel() + 10 * omp_get_level() + 100 * omp_get_active_level();
    numbers += 1000 * (omp_get_ancestor_thread_num(1) == omp_get_thread_num());
    numbers += 10000 * (omp_get_team_size(1) == team && omp_get_num_threads() == team);
    numbers += 100000 * (omp_get_max_threads() == team);
  }
  check_int("answers in a region", numbers);
  // What a thread of a region sets is its own.
  numbers = 0;
#pragma omp parallel reduction(+ : numbers)
  {
    take_part();
    omp_set_num_threads(1 + omp_get_thread_num());
    omp_set_dynamic(omp_get_thread_num() % 2);
    numbers += omp_get_max_threads() * 10 + omp_get_dynamic();
  }
  check_int("settings in a region", numbers);
  check_int("settings after it", omp_get_max_threads() * 10 + omp_get_dynamic());
  numbers = 0;
#pragma omp parallel num_threads(1)
  numbers = omp_in_parallel() + 10 * omp_get_level() + 100 * omp_get_active_level();
  check_int("a team of one", numbers);
}

static void read_clocks(void) {
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    const double before = omp_get_wtime();
    double after = before;
    while (after == before) after = omp_get_wtime();
    right += after > before;
  }
  check_int("clocks advance", right);
  // Clocks of all processes are one clock, but for what lies between two looks at it.
  double times[most_threads];
  right = 0;
#pragma omp parallel
  {
    take_part();
    times[omp_get_thread_num()] = omp_get_wtime();
#pragma omp barrier
    const double now = omp_get_wtime();
    int is_right = 1;
    for (int i = 0; i < omp_get_num_threads(); ++i) is_right &= times[i] <= now && now - times[i] < 100;
#pragma omp atomic
    right += is_right;
  }
  check_int("clocks agree", right);
}

static void allocate(void) {
  char* const allocated = omp_alloc(1000, omp_default_mem_alloc);
  memset(allocated, 'a', 999);
  allocated[999] = '\0';
  int lengths = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp atomic
    lengths += (int)strlen(allocated);
  }
  check_int("omp_alloc", lengths);
  char* const larger = omp_realloc(allocated, 5000, omp_null_allocator, omp_null_allocator);
  check_int("omp_realloc", (long long)strlen(larger));
  int* const cleared = omp_calloc(100, sizeof *cleared, omp_default_mem_alloc);
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    cleared[self] += self + 1;
  }
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += cleared[i];
  check_int("omp_calloc", sum);
  omp_free(larger, omp_null_allocator);
  omp_free(cleared, omp_default_mem_alloc);
}

static void go_on_after_pause(void) {
  omp_set_max_active_levels(5);
  check_int("active levels, set", omp_get_max_active_levels());
  omp_pause_resource_all(omp_pause_soft);
  long long numbers = 0;
#pragma omp parallel reduction(+ : numbers)
  {
    take_part();
    numbers += 1 + omp_get_thread_num();
  }
  check_int("a region after a pause", numbers);
}

int main(void) {
  ask_outside();
  set_schedule();
  ask_in_regions();
  read_clocks();
  allocate();
  go_on_after_pause();
  return finish();
}
