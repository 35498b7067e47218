/// \file
/// Tasks that end when their events are fulfilled, by whatever thread.
#include "check.h"

static long long value = 0;

/// What depends on a detached task waits for its event, which another task fulfils.
static void dependence(void) {
  omp_event_handle_t event;
#pragma omp parallel
  {
    meet();
#pragma omp single
    {
#pragma omp task detach(event) depend(out : value)
      value = 1;
#pragma omp task firstprivate(event)
      omp_fulfill_event(event);
#pragma omp task depend(in : value)
      value = value % 10 == 1 ? value + 100 : -1000;
    }
  }
  check_int("dependence", value);
}

/// One thread makes the tasks, each of the others fulfils the event of one.
static void by_others(void) {
  static omp_event_handle_t events[most_threads];
  int is_made = 0;
  long long count = 0;
#pragma omp parallel
  {
    meet();
#pragma omp single nowait
    {
      for (int i = 0; i < omp_get_num_threads(); ++i) {
        omp_event_handle_t event;
#pragma omp task detach(event) shared(count)
        {
#pragma omp atomic
          ++count;
        }
        events[i] = event;
      }
#pragma omp flush
#pragma omp atomic write
      is_made = 1;
#pragma omp flush
    }
    for (int seen = 0; seen == 0;) {  // not a barrier: it would wait for the events
#pragma omp flush
#pragma omp atomic read
      seen = is_made;
    }
#pragma omp flush
    omp_fulfill_event(events[omp_get_thread_num()]);
#pragma omp barrier
#pragma omp atomic
    count += 100;
  }
  check_int("by others", count / omp_get_max_threads());
}

int main(void) {
  dependence();
  by_others();
  return finish();
}
