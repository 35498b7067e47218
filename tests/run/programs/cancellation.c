/// \file
/// Cancellation of regions, loops, sections and groups; run with OMP_CANCELLATION true, and without.
#include "check.h"

/// One thread cancels, the others wait for it at a barrier, which they leave for the region's end.
static void region(void) {
  long long after = 0;
  for (int round = 0; round < 3; ++round) {
#pragma omp parallel
    {
      meet();
      if (omp_get_thread_num() == round % omp_get_num_threads()) {
#pragma omp cancel parallel
      }
#pragma omp barrier
#pragma omp atomic
      ++after;
    }
  }
  check_int("region", omp_get_cancellation() ? after : after / omp_get_max_threads() - 3);
}

/// The loops after a region whose threads have not met the same number of them.
static void loops_after(void) {
  long long sum = 0;
  for (int round = 0; round < 4; ++round) {
#pragma omp parallel
    {
      meet();
      if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
      }
#pragma omp for schedule(dynamic) nowait
      for (int i = 0; i < 10; ++i) take_part();
#pragma omp for schedule(dynamic)
      for (int i = 0; i < 10; ++i) take_part();
    }
#pragma omp parallel
    {
      meet();
#pragma omp for schedule(dynamic) reduction(+ : sum)
      for (int i = 0; i < 100; ++i) sum += i;
    }
  }
  check_int("loops after", sum);
}

/// Each thread's first iteration cancels; the next loop is a new one.
static void loop(void) {
  long long done = 0;
#pragma omp parallel
  {
    meet();
#pragma omp for
    for (int i = 0; i < 60; ++i) {
#pragma omp cancel for
#pragma omp atomic
      done += omp_get_cancellation() ? 1 : 0;
    }
#pragma omp for
    for (int i = 0; i < 60; ++i) {
#pragma omp cancel for if (i < 0)
#pragma omp atomic
      done += 1;
    }
#pragma omp for schedule(dynamic, 2)
    for (int i = 0; i < 60; ++i) {
#pragma omp cancel for
#pragma omp atomic
      done += omp_get_cancellation() ? 1 : 0;
    }
  }
  check_int("loop", done);
}

static void sections(void) {
  long long done = 0;
#pragma omp parallel
  {
    meet();
#pragma omp sections
    {
#pragma omp section
      {
#pragma omp cancel sections
#pragma omp atomic
        done += omp_get_cancellation() ? 1 : 0;
      }
    }
  }
  check_int("sections", done);
}

/// A task cancels the group before the others are made.
static void group(void) {
  long long done = 0;
#pragma omp parallel
  {
    meet();
#pragma omp single
#pragma omp taskgroup
    {
#pragma omp task if (0)
      {
#pragma omp cancel taskgroup
      }
      for (int i = 0; i < 50; ++i) {
#pragma omp task shared(done)
        {
#pragma omp atomic
          ++done;
        }
      }
    }
  }
  check_int("group", done);
}

/// A task that runs when its region is cancelled ends at a cancellation point of its group.
static void group_of_region(void) {
  int has_begun = 0;
  int is_in_time = 0;
#pragma omp parallel
  {
    meet();
    const int last = omp_get_num_threads() - 1;
    if (omp_get_thread_num() == 0) {
#pragma omp taskgroup
#pragma omp task if (0) shared(has_begun, is_in_time)
      {
        is_in_time = 1;
#pragma omp atomic write
        has_begun = 1;
#pragma omp flush
        const double end = omp_get_wtime() + 20;
        while (last > 0 && omp_get_cancellation() && omp_get_wtime() < end) {
#pragma omp cancellation point taskgroup
          usleep(100);
        }
        is_in_time = last == 0 || !omp_get_cancellation();
      }
    } else if (omp_get_thread_num() == last) {
      for (int seen = 0; seen == 0;) {
#pragma omp flush
#pragma omp atomic read
        seen = has_begun;
      }
#pragma omp cancel parallel
    }
  }
  check_int("group of a cancelled region", is_in_time);
}

int main(void) {
  check_int("allowed", omp_get_cancellation());
  region();
  loops_after();
  loop();
  sections();
  group();
  group_of_region();
  return finish();
}
