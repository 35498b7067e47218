/// \file
/// What the OMP_ variables set. Run with some of them.
#include "check.h"

int main(void) {
  omp_sched_t kind;
  int chunk;
  omp_get_schedule(&kind, &chunk);
  check_int("OMP_SCHEDULE", (long long)(unsigned)kind * 1000 + chunk);
  check_int("OMP_DYNAMIC", omp_get_dynamic());
  check_int("OMP_MAX_ACTIVE_LEVELS", omp_get_max_active_levels());
  check_int("OMP_THREAD_LIMIT", omp_get_thread_limit());
  check_int("OMP_CANCELLATION", omp_get_cancellation());
  check_int("OMP_MAX_TASK_PRIORITY", omp_get_max_task_priority());
  check_int("OMP_PROC_BIND", omp_get_proc_bind());
  check_int("OMP_NUM_THREADS", omp_get_max_threads());
  int threads = 0;
  int inner = 0;
  int innermost = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp atomic
    ++threads;
#pragma omp parallel
    {
#pragma omp atomic
      inner += omp_get_num_threads();
#pragma omp parallel
      {
#pragma omp atomic
        innermost += omp_get_num_threads();
      }
    }
  }
  check_int("threads", threads);
  check_int("threads of inner regions", inner);
  check_int("threads of innermost regions", innermost);
  long long sum = 0;
#pragma omp parallel for schedule(runtime) reduction(+ : sum)
  for (int i = 0; i < 1000; ++i) {
    meet();
    sum += i;
  }
  check_int("runtime loop", sum);
  return finish();
}
