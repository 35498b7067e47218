/// \file
/// Loops: every schedule runs each iteration once.
#include "check.h"

#include <limits.h>
#include <string.h>

enum { iterations = 1003 };

static unsigned char runs_of[iterations];
static long long sum;

/// What the iterations of a loop do.
static void run(long long i, long long value) {
  ++runs_of[i];
#pragma omp atomic
  sum += value;
}

static void check_runs(const char* name) {
  int once = 0;
  for (int i = 0; i < iterations; ++i) once += runs_of[i] == 1;
  check_int(name, sum * 10000 + once);
  memset(runs_of, 0, sizeof runs_of);
  sum = 0;
}

#define LOOP(name, ...)                                                     \
  do {                                                                      \
    _Pragma("omp parallel") {                                               \
      take_part();                                                          \
      _Pragma(#__VA_ARGS__) for (int i = 0; i < iterations; ++i) run(i, i); \
    }                                                                       \
    check_runs(name);                                                       \
  } while (0)

/// The same, where no thread may take all iterations.
#define SPREAD_LOOP(name, ...)                                     \
  do {                                                             \
    _Pragma("omp parallel") {                                      \
      _Pragma(#__VA_ARGS__) for (int i = 0; i < iterations; ++i) { \
        meet();                                                    \
        run(i, i);                                                 \
      }                                                            \
    }                                                              \
    check_runs(name);                                              \
  } while (0)

static void run_by_setting(const char* name, omp_sched_t kind, int chunk) {
  omp_set_schedule(kind, chunk);
  LOOP(name, omp for schedule(runtime));
}

static void run_schedules(void) {
  LOOP("default", omp for);
  LOOP("static", omp for schedule(static));
  LOOP("static, 1", omp for schedule(static, 1));
  LOOP("static, 7", omp for schedule(static, 7));
  LOOP("static, 2000", omp for schedule(static, 2000));
  SPREAD_LOOP("dynamic", omp for schedule(dynamic));
  SPREAD_LOOP("dynamic, 5", omp for schedule(dynamic, 5));
  LOOP("dynamic, 2000", omp for schedule(dynamic, 2000));
  SPREAD_LOOP("nonmonotonic dynamic", omp for schedule(nonmonotonic : dynamic, 2));
  SPREAD_LOOP("monotonic dynamic", omp for schedule(monotonic : dynamic, 2));
  LOOP("guided", omp for schedule(guided));
  LOOP("guided, 9", omp for schedule(guided, 9));
  LOOP("nonmonotonic guided", omp for schedule(nonmonotonic : guided));
  LOOP("monotonic guided", omp for schedule(monotonic : guided, 3));
  LOOP("auto", omp for schedule(auto));
  run_by_setting("runtime static", omp_sched_static, 0);
  run_by_setting("runtime static, 4", omp_sched_static, 4);
  run_by_setting("runtime dynamic", omp_sched_dynamic, 0);
  run_by_setting("runtime dynamic, 6", omp_sched_dynamic, 6);
  run_by_setting("runtime guided", omp_sched_guided, 0);
  run_by_setting("runtime guided, 8", omp_sched_guided, 8);
  run_by_setting("runtime auto", omp_sched_auto, 0);
  omp_set_schedule(omp_sched_dynamic, 3);
  LOOP("monotonic runtime", omp for schedule(monotonic : runtime));
  LOOP("nonmonotonic runtime", omp for schedule(nonmonotonic : runtime));
#ifndef __clang__  // up to 16 it makes every thread of the team run all iterations, which is a race here
  LOOP("loop construct", omp loop bind(parallel));
#endif
  LOOP("simd", omp for simd schedule(static));
}

/// As the setting says also where the loop begins otherwise, with a reduction over tasks: who sleeps gets
/// less than its part.
static void run_by_setting_with_tasks(void) {
  enum { all = 240 };
  long long total = 0;
  int of_first = 0;
  int of_others = 0;
  omp_set_schedule(omp_sched_dynamic, 1);
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(nonmonotonic : runtime) reduction(task, + : total)
    for (int i = 0; i < all; ++i) {
      const int threads = omp_get_num_threads();
      if (omp_get_thread_num() != 0) {
#pragma omp atomic
        ++of_others;
      } else if (of_first++ == 0) {
        // Until the others have done what leaves less than its part; for 20 s at most.
        for (int look = 0, done = 0; look < 20000 && threads > 1 && done <= all - all / threads; ++look) {
          usleep(1000);
#pragma omp atomic read
          done = of_others;
        }
      }
      total += i;
    }
  }
  const int threads = omp_get_max_threads();
  check_int("runtime with tasks", total * 10 + (threads == 1 || of_first < all / threads));
}

static void run_combined(void) {
  // Loops that are regions of their own.
#pragma omp parallel for schedule(static)
  for (int i = 0; i < iterations; ++i) {
    take_part();
    run(i, 1);
  }
  check_runs("parallel for static");
#pragma omp parallel for schedule(dynamic)
  for (int i = 0; i < iterations; ++i) {
    meet();
    run(i, 2);
  }
  check_runs("parallel for dynamic");
#pragma omp parallel for schedule(nonmonotonic : dynamic, 3)
  for (int i = 0; i < iterations; ++i) {
    meet();
    run(i, 2);
  }
  check_runs("parallel for nonmonotonic dynamic");
#pragma omp parallel for schedule(guided)
  for (int i = 0; i < iterations; ++i) {
    meet();
    run(i, 3);
  }
  check_runs("parallel for guided");
#pragma omp parallel for schedule(runtime)
  for (int i = 0; i < iterations; ++i) {
    meet();
    run(i, 4);
  }
  check_runs("parallel for runtime");
}

static void run_shapes(void) {
  // Other shapes of iteration space.
#pragma omp parallel for schedule(dynamic, 3)
  for (int i = 2 * iterations - 1; i > 0; i -= 2) {
    meet();
    run(i / 2, i);
  }
  check_runs("downwards");
#pragma omp parallel for schedule(dynamic, 2)
  for (int i = -3 * iterations; i < 0; i += 3) {
    meet();
    run(-i / 3 - 1, i);
  }
  check_runs("negative");
#pragma omp parallel for collapse(2) schedule(dynamic)
  for (int i = 0; i < 17; ++i) {
    for (int j = 0; j < 59; ++j) {
      meet();
      run(i * 59 + j, i * j);
    }
  }
  check_runs("collapse(2) dynamic");
#pragma omp parallel for collapse(3)
  for (int i = 0; i < 10; ++i) {
    for (int j = 10; j > 0; --j) {
      for (long k = 0; k < 20; k += 2) {
        take_part();
        run(i * 100 + (j - 1) * 10 + k / 2, i * j * k);
      }
    }
  }
  check_runs("collapse(3) static");
#pragma omp parallel for collapse(2)
  for (int i = 0; i < 40; ++i) {
    for (int j = 0; j <= i; ++j) {
      take_part();
      run(i * (i + 1) / 2 + j, i - j);
    }
  }
  check_runs("collapse(2) of a triangle");
}

static void run_wide_counters(void) {
#pragma omp parallel for schedule(dynamic, 4)
  for (unsigned long long i = ULLONG_MAX - iterations; i < ULLONG_MAX; ++i) {
    meet();
    run((long long)(i - (ULLONG_MAX - iterations)), 1);
  }
  check_runs("unsigned long long dynamic");
#pragma omp parallel for schedule(guided, 2)
  for (unsigned long long i = ULLONG_MAX; i > ULLONG_MAX - 5 * iterations; i -= 5) {
    meet();
    run((long long)((ULLONG_MAX - i) / 5), 1);
  }
  check_runs("unsigned long long guided, downwards");
#pragma omp parallel for schedule(static, 3)
  for (unsigned long long i = 1ULL << 63; i < (1ULL << 63) + iterations; ++i) {
    take_part();
    run((long long)(i - (1ULL << 63)), 1);
  }
  check_runs("unsigned long long static");
#pragma omp parallel for schedule(runtime)
  for (unsigned long long i = 0; i < iterations; ++i) {
    meet();
    run((long long)i, (long long)i);
  }
  check_runs("unsigned long long runtime");
#pragma omp parallel for schedule(dynamic, 3)
  for (long long i = LLONG_MIN; i < LLONG_MAX - (1LL << 60); i += 1LL << 54) run((i >> 54) + 512, 1);
  check_runs("nearly all of long long");
}

static void run_odd_loops(void) {
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(dynamic)
    for (int i = 5; i < 5; ++i) run(0, 1);
#pragma omp for schedule(guided)
    for (int i = 5; i < 4; ++i) run(0, 1);
#pragma omp for
    for (unsigned i = 9; i < 3; ++i) run(0, 1);
  }
  check_runs("no iterations");
  char letters[] = "the quick brown fox";
  const char* const last_letter = letters + strlen(letters);
#pragma omp parallel for schedule(dynamic, 2)
  for (char* letter = letters; letter < last_letter; ++letter) {
    meet();
    if (*letter != ' ') *letter = (char)(*letter - 'a' + 'A');
  }
  check_text("pointers", letters);
}

static void keep_last_values(void) {
  // Clauses.
  int last = -1;
  int last_other = -1;
#pragma omp parallel for lastprivate(last) schedule(monotonic : dynamic, 3)
  for (int i = 0; i < iterations; ++i) {
    meet();
    last = i * 2;
  }
  check_int("lastprivate dynamic", last);
#pragma omp parallel
  {
    take_part();
#pragma omp for lastprivate(last, last_other) schedule(static)
    for (int i = 0; i < iterations; ++i) {
      last = i * 3;
      last_other = last + 1;
    }
  }
  check_int("lastprivate static", last + last_other);
#pragma omp parallel for lastprivate(conditional : last) schedule(static)
  for (int i = 0; i < iterations; ++i) {
    take_part();
    if (i % 100 == 50) last = i;
  }
  check_int("lastprivate conditional", last);
  int start = 10;
  int offset = 4;
#pragma omp parallel for firstprivate(start) linear(offset : 2)
  for (int i = 0; i < iterations; ++i) {
    take_part();
    run(i, start + offset - 2 * i);
  }
  check_runs("firstprivate and linear");
  check_int("linear afterwards", offset);
}

static void run_many_loops(void) {
  // One team runs many loops, with and without a barrier after each.
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 60; ++turn) {
#pragma omp for schedule(dynamic, 10) nowait
      for (int i = 0; i < 100; ++i) {
#pragma omp atomic
        sum += i;
      }
#pragma omp for schedule(guided) nowait
      for (int i = 0; i < 100; ++i) {
#pragma omp atomic
        sum += 2 * i;
      }
    }
  }
  check_int("many loops, nowait", sum);
  sum = 0;
  static int levels[iterations];
  for (int i = 0; i < iterations; ++i) levels[i] = i % 7;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 12; ++turn) {
      static int next[iterations];
#pragma omp for schedule(dynamic, 50)
      for (int i = 0; i < iterations; ++i)
        next[i] = levels[(i + 1) % iterations] + levels[(i + iterations - 1) % iterations];
#pragma omp for schedule(static, 50)
      for (int i = 0; i < iterations; ++i) levels[i] = next[i] % 1000;
    }
  }
  for (int i = 0; i < iterations; ++i) sum += (long long)levels[i] * i;
  check_int("loops that need each other", sum);
}

int main(void) {
  run_schedules();
  run_by_setting_with_tasks();
  run_combined();
  run_shapes();
  run_wide_counters();
  run_odd_loops();
  keep_last_values();
  run_many_loops();
  return finish();
}
