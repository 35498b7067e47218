/// \file
/// Ordered loops: what is ordered happens in the order of the iterations, for every schedule.
#include "check.h"

enum { iterations = 61 };

static int order[iterations];
static int place;

static void note(int i) {
  order[place] = i;
  ++place;
}

static void check_order(const char* name) {
  int right = 0;
  for (int i = 0; i < iterations; ++i) right += order[i] == i;
  check_int(name, right * 1000 + place);
  place = 0;
  for (int i = 0; i < iterations; ++i) order[i] = -1;
}

#define ORDERED_LOOP(name, type, ...)                               \
  do {                                                              \
    _Pragma("omp parallel") {                                       \
      take_part();                                                  \
      _Pragma(#__VA_ARGS__) for (type i = 0; i < iterations; ++i) { \
        _Pragma("omp ordered") note((int)i);                        \
      }                                                             \
    }                                                               \
    check_order(name);                                              \
  } while (0)

int main(void) {
  ORDERED_LOOP("static", int, omp for ordered schedule(static));
  ORDERED_LOOP("static, 1", int, omp for ordered schedule(static, 1));
  ORDERED_LOOP("static, 4", int, omp for ordered schedule(static, 4));
  ORDERED_LOOP("dynamic", int, omp for ordered schedule(dynamic));
  ORDERED_LOOP("dynamic, 3", int, omp for ordered schedule(dynamic, 3));
  ORDERED_LOOP("guided", int, omp for ordered schedule(guided));
  ORDERED_LOOP("guided, 2", int, omp for ordered schedule(guided, 2));
  omp_set_schedule(omp_sched_dynamic, 2);
  ORDERED_LOOP("runtime", int, omp for ordered schedule(runtime));
  ORDERED_LOOP("unsigned long long static", unsigned long long, omp for ordered schedule(static, 2));
  ORDERED_LOOP("unsigned long long dynamic", unsigned long long, omp for ordered schedule(dynamic));
  ORDERED_LOOP("unsigned long long guided", unsigned long long, omp for ordered schedule(guided));
  ORDERED_LOOP("unsigned long long runtime", unsigned long long, omp for ordered schedule(runtime));

#pragma omp parallel for ordered schedule(dynamic)
  for (int i = 0; i < iterations; ++i) {
    meet();
#pragma omp ordered
    note(i);
  }
  check_order("all threads");
#pragma omp parallel for ordered collapse(2) schedule(dynamic)
  for (int i = 0; i < 1; ++i) {
    for (int j = 0; j < iterations; ++j) {
      meet();
#pragma omp ordered threads
      note(j);
    }
  }
  check_order("collapse");
  // Most iterations have nothing ordered in them.
  int sum = 0;
#pragma omp parallel for ordered schedule(dynamic, 2)
  for (int i = 0; i < iterations; ++i) {
    meet();
    if (i % 10 == 0) {
#pragma omp ordered
      sum = sum * 3 + i;
    }
  }
  check_int("some iterations", sum);
  double chain = 1;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 5; ++turn) {
#pragma omp for ordered schedule(static, 1)
      for (int i = 0; i < 20; ++i) {
#pragma omp ordered
        chain = chain / 2 + i;
      }
    }
  }
  check_real("a chain of values", chain);
  return finish();
}
