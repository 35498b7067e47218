/// \file
/// Target regions, on the host: what they map is the program's own memory, and regions in them have all
/// ranks.
#include "check.h"

int numbers[64];
#pragma omp declare target to(numbers)

static void regions(void) {
  int sum = 0;
  int own = 5;
#pragma omp target map(tofrom : sum) firstprivate(own)
  {
    ++own;
#pragma omp parallel reduction(+ : sum)
    {
      take_part();
      sum += own;
    }
  }
  check_int("sum", sum / omp_get_max_threads() + 100 * own);
#pragma omp target teams distribute parallel for
  for (int i = 0; i < 64; ++i) {
    take_part();
    numbers[i] = i * i;
  }
#pragma omp target update from(numbers)
  long long all = 0;
  for (int i = 0; i < 64; ++i) all += i * numbers[i];
  check_int("distributed", all);
}

static void inside(void) {
  int seen[4] = {0, 0, 0, 0};
#pragma omp parallel num_threads(4)
  {
    take_part();
#pragma omp target map(tofrom : seen)
    seen[omp_get_thread_num()] |= omp_get_num_threads() == 1 && omp_get_level() == 0;
#pragma omp barrier
#pragma omp target data map(to : seen)
    if (omp_get_thread_num() == 3) seen[3] = 7;
  }
  check_int("inside", seen[0] + 10 * seen[3]);
}

static void teams(void) {
  int count = 0;
#pragma omp target teams num_teams(3) map(tofrom : count) reduction(+ : count)
  {
    count += 10 * omp_get_num_teams() + omp_get_team_num();
#pragma omp parallel
    take_part();
  }
  check_int("teams", count);
}

static void dependences(void) {
  int value = 0;
#pragma omp parallel num_threads(4)
  {
    meet();
#pragma omp single
    {
#pragma omp task depend(out : value) shared(value)
      value = 3;
#pragma omp target nowait depend(inout : value) map(tofrom : value)
      value *= 5;
#pragma omp target enter data nowait depend(inout : value) map(to : value)
#pragma omp task depend(in : value) shared(value)
      value += 100;
    }
  }
  check_int("dependences", value);
}

int main(void) {
  check_int("devices", omp_get_num_devices());
  regions();
  inside();
  teams();
  dependences();
  return finish();
}
