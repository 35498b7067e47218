/// \file
/// Reductions over tasks: of groups, of taskloops, of regions and of work shares.
#include "check.h"

static long long total = 0;

static void spread(int first, int last) {
  if (last - first > 4) {
    const int middle = (first + last) / 2;
#pragma omp task in_reduction(+ : total)
    spread(first, middle);
#pragma omp task in_reduction(+ : total)
    spread(middle, last);
#pragma omp taskwait
    return;
  }
#pragma omp task in_reduction(+ : total)
  for (int i = first; i < last; ++i) total += i;
#pragma omp taskwait
}

static void group(void) {
#pragma omp parallel
  {
    meet();
#pragma omp single
#pragma omp taskgroup task_reduction(+ : total)
    spread(0, 400);
  }
  check_int("group", total);
}

static void taskloop(void) {
  // clang 14 does not give tasks parts of their own of a global array.
  long long cells[4] = {1, 2, 3, 4};
  long long largest = 0;
#pragma omp parallel
  {
    meet();
#pragma omp single
#pragma omp taskloop reduction(+ : cells [0:4]) reduction(max : largest) num_tasks(40)
    for (int i = 0; i < 400; ++i) {
      cells[i % 4] += i;
      if (i * 7 % 400 > largest) largest = i * 7 % 400;
    }
  }
  check_int("taskloop cells", cells[0] + 3 * cells[1] + 5 * cells[2] + 7 * cells[3]);
  check_int("taskloop largest", largest);
}

static void region(void) {
  long long sum = 5;
#pragma omp parallel reduction(task, + : sum)
  {
    meet();
    sum += 1000;
    for (int i = 0; i < 20; ++i) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
      sum += i;
    }
  }
  check_int("region", (sum - 5) / omp_get_max_threads());
}

static void loop(void) {
  long long sum = 7;
#pragma omp parallel
  {
    meet();
#pragma omp for reduction(task, + : sum)
    for (int i = 0; i < 64; ++i) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
      sum += 3 * i;
      ++sum;
    }
  }
  check_int("loop", sum);
}

static void sections(void) {
  long long sum = 0;
#pragma omp parallel
  {
    meet();
#pragma omp sections reduction(task, + : sum)
    {
#pragma omp section
      {
#pragma omp task in_reduction(+ : sum)
        sum += 1;
      }
#pragma omp section
      {
#pragma omp task in_reduction(+ : sum)
        sum += 10;
      }
#pragma omp section
      sum += 100;
    }
  }
  check_int("sections", sum);
}

int main(void) {
  group();
  taskloop();
  region();
  loop();
  sections();
  return finish();
}
