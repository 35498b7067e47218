/// \file
/// Tasks with events that run before their construct ends: outside of regions, with if(0), in final tasks.
/// The construct does not wait for the event; who waits for the task does.
#include <pthread.h>

#include "check.h"

/// \returns how far it came: the task's code has run at once, and its end has been waited for
static int fulfilled_after(int is_undeferred) {
  omp_event_handle_t event;
  int value = 0;
#pragma omp task detach(event) if (!is_undeferred) shared(value)
  value = 1;
  const int before = value;
  omp_fulfill_event(event);
#pragma omp taskwait
  return 10 * before + value;
}

static int in_final(void) {
  int result = 0;
#pragma omp task final(1) shared(result)
  result = fulfilled_after(0);
#pragma omp taskwait
  return result;
}

/// What depends on a task with an event waits for that, and what depends on nothing does not.
static int dependences(void) {
  omp_event_handle_t event;
  int value = 0, later = 0, other = 0;
#pragma omp task detach(event) depend(out : value) shared(value)
  value = 1;
#pragma omp task depend(in : value) depend(out : later) shared(value, later)
  later = value + 1;
#pragma omp task depend(inout : later) shared(later)
  later *= 10;
#pragma omp task shared(other)
  other = 1;
  const int before = later;
  omp_fulfill_event(event);
#pragma omp taskwait depend(in : later)
  return 100 * before + later + other;
}

static int in_group(void) {
  omp_event_handle_t event;
  int value = 0;
#pragma omp taskgroup
  {
#pragma omp task detach(event) shared(value)
    value = 1;
    omp_fulfill_event(event);
  }
  return value;
}

/// The maker of a task with an event has ended long before that is fulfilled.
static int after_its_maker(void) {
  static omp_event_handle_t kept[3];
  int value = 0;
#pragma omp task shared(value)
  for (int i = 0; i < 3; ++i) {
    omp_event_handle_t event;
#pragma omp task detach(event) shared(value)
#pragma omp atomic
    ++value;
    kept[i] = event;
  }
#pragma omp taskwait
  for (int i = 0; i < 3; ++i) omp_fulfill_event(kept[i]);
  return value;
}

static int is_late = 0;

static void* fulfil_later(void* event) {
  usleep(20000);
  is_late = 1;
  omp_fulfill_event(*static_cast<omp_event_handle_t*>(event));
  return NULL;
}

/// By a thread that is none of OpenMP's, while the task's maker waits.
static int by_a_thread(void) {
  omp_event_handle_t event;
  pthread_t thread;
  is_late = 0;
#pragma omp task detach(event)
  is_late = 0;
  if (pthread_create(&thread, NULL, fulfil_later, &event) != 0) return -1;
#pragma omp taskwait
  const int result = is_late;
  pthread_join(thread, NULL);
  return result;
}

/// The events of the first thread's tasks are fulfilled by all threads of a region.
static int by_a_region(void) {
  static omp_event_handle_t events[most_threads];
  int value = 0;
  for (int i = 0; i < omp_get_max_threads(); ++i) {
    omp_event_handle_t event;
#pragma omp task detach(event) shared(value)
    ++value;
    events[i] = event;
  }
#pragma omp parallel
  {
    take_part();
    omp_fulfill_event(events[omp_get_thread_num()]);
  }
#pragma omp taskwait
  return value == omp_get_max_threads();
}

/// In a region its end waits for them as well.
static void in_a_region(void) {
  static omp_event_handle_t kept[2];
  int results[3] = {0, 0, 0};
#pragma omp parallel
  {
    meet();
#pragma omp single nowait
    {
      results[0] = fulfilled_after(1);
      results[1] = in_final();
      omp_event_handle_t event;
#pragma omp task detach(event) if (0) shared(results)
      results[2] = 1;
      kept[0] = event;
#pragma omp task
      omp_fulfill_event(kept[0]);
    }
  }
  check_int("with if(0)", results[0]);
  check_int("in a final task", results[1]);
  check_int("to the region's end", results[2]);
}

int main() {
  for (int round = 0; round < 2; ++round) {
    printf("alone %d, undeferred %d, final %d\n", fulfilled_after(0), fulfilled_after(1), in_final());
    printf("dependences %d, group %d, after its maker %d\n", dependences(), in_group(), after_its_maker());
    printf("by a thread %d\n", by_a_thread());
    check_int("by a region", by_a_region());
    in_a_region();
  }
  return finish();
}
