/// \file
/// Places: each thread may use the processors of its place and no others. Run with and without variables that
/// bind threads; how many places there are, and who has which, is the machine's and not said.
#define _GNU_SOURCE
#include "check.h"

#include <sched.h>

static int is_in(const int* numbers, int count, int number) {
  for (int i = 0; i < count; ++i) {
    if (numbers[i] == number) return 1;
  }
  return 0;
}

/// 0 if all that the calling thread is told of its place agrees.
static int is_misplaced(void) {
  const int place = omp_get_place_num();
  const int partition = omp_get_partition_num_places();
  if (omp_get_num_places() == 0) return place != -1 || partition != 0 || omp_get_place_num_procs(0) != 0;
  if (place < 0 || place >= omp_get_num_places() || partition < 1) return 1;
  int* const places = malloc((size_t)partition * sizeof(int));
  omp_get_partition_place_nums(places);
  int wrong = !is_in(places, partition, place);
  free(places);
  const int count = omp_get_place_num_procs(place);
  int* const processors = malloc((size_t)count * sizeof(int));
  omp_get_place_proc_ids(place, processors);
  cpu_set_t set;
  wrong |= sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != count;
  for (int i = 0; i < count; ++i) wrong |= !CPU_ISSET((size_t)processors[i], &set);
  free(processors);
  return wrong;
}

int main(void) {
  check_int("binding", omp_get_proc_bind());
  check_int("main", is_misplaced());
  check_int("a place that is not there", omp_get_place_num_procs(-1) + omp_get_place_num_procs(1000000));
  int wrong = 0;
  int bindings = 0;
#pragma omp parallel reduction(+ : wrong, bindings)
  {
    take_part();
    wrong += is_misplaced();
    bindings += (int)omp_get_proc_bind();
  }
  check_int("a region", wrong * 1000 + bindings);
  wrong = 0;
#pragma omp parallel proc_bind(close) reduction(+ : wrong)
  {
    take_part();
    wrong += is_misplaced();
  }
  check_int("close", wrong);
  wrong = 0;
#pragma omp parallel proc_bind(spread) reduction(+ : wrong)
  {
    take_part();
    const int outer = omp_get_partition_num_places();
    wrong += is_misplaced();
#pragma omp parallel num_threads(3) proc_bind(close) reduction(+ : wrong)
    wrong += is_misplaced() + (omp_get_partition_num_places() != outer);
    wrong += is_misplaced();
  }
  check_int("spread, close inside", wrong);
  wrong = 0;
  int elsewhere = 0;
#pragma omp parallel reduction(+ : wrong, elsewhere)
  {
    take_part();
    const int place = omp_get_place_num();
#pragma omp parallel num_threads(2) proc_bind(master) reduction(+ : wrong, elsewhere)
    {
      wrong += is_misplaced();
      elsewhere += omp_get_place_num() != place;
    }
  }
  check_int("primary", wrong * 1000 + (omp_get_num_places() != 0 ? elsewhere : 0));
  check_int("main, at the end", is_misplaced());
  return finish();
}
