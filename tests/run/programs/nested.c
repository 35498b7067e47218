/// \file
/// Regions in regions, with as many threads as they ask for, at the same time.
#include "check.h"

static int gate[most_threads];

/// Ends only if as many threads as that run at the same time.
static void meet_inside(int place, int threads) {
#pragma omp atomic
  ++gate[place];
  for (int seen = 0; seen < threads;) {
#pragma omp flush
#pragma omp atomic read
    seen = gate[place];
  }
}

static void merge_sort(int* values, int* space, int count) {
  if (count < 2) return;
  const int half = count / 2;
  if (count > 250) {
#pragma omp parallel sections num_threads(2)
    {
#pragma omp section
      merge_sort(values, space, half);
#pragma omp section
      merge_sort(values + half, space + half, count - half);
    }
  } else {
    merge_sort(values, space, half);
    merge_sort(values + half, space + half, count - half);
  }
  int left = 0;
  int right = half;
  for (int i = 0; i < count; ++i)
    space[i] =
        right == count || (left < half && values[left] <= values[right]) ? values[left++] : values[right++];
  for (int i = 0; i < count; ++i) values[i] = space[i];
}

static void run_inner_threads(void) {
  int inner = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic
      inner += omp_get_num_threads();
    }
  }
  check_int("inner regions by default", inner);
  omp_set_max_active_levels(3);
  inner = 0;
#pragma omp parallel
  {
    take_part();
    const int outer = omp_get_thread_num();
#pragma omp parallel num_threads(3)
    {
      meet_inside(outer, 3);
#pragma omp atomic
      inner += 1 + omp_get_thread_num() + 100 * omp_get_level() + 10000 * omp_get_active_level();
    }
  }
  check_int("inner threads run at the same time", inner);
  int together = 0;
#pragma omp parallel
  {
    take_part();
    const int process = getpid();
#pragma omp parallel num_threads(4)
    {
      const int is_here = getpid() == process;
#pragma omp atomic
      together += is_here;
    }
  }
  check_int("inner threads are of the same process", together);
  long long numbers = 0;
#pragma omp parallel num_threads(2)
  {
#pragma omp parallel num_threads(2)
    {
#pragma omp parallel num_threads(2)
      {
        if (omp_get_max_threads() > 0 && omp_get_team_size(1) == 2) {
#pragma omp atomic
          numbers += 1 + omp_get_ancestor_thread_num(1) * 10 + omp_get_ancestor_thread_num(2) * 100 +
                     omp_get_ancestor_thread_num(3) * 1000 + omp_get_team_size(2) * 10000;
        }
      }
    }
  }
  check_int("three levels", numbers);
}

static void use_constructs_inside(void) {
  int private_sums = 0;
#pragma omp parallel
  {
    take_part();
    int mine = 0;
    int loop_sum = 0;
#pragma omp parallel num_threads(2) shared(mine)
    {
#pragma omp for schedule(dynamic, 3) reduction(+ : loop_sum)
      for (int i = 0; i < 30; ++i) loop_sum += i;
#pragma omp single
      ++mine;
#pragma omp critical
      mine += 10;
#pragma omp barrier
#pragma omp sections
      {
#pragma omp section
#pragma omp atomic
        mine += 100;
#pragma omp section
#pragma omp atomic
        mine += 200;
      }
#pragma omp master
#pragma omp atomic
      mine += 1000;
    }
#pragma omp atomic
    private_sums += mine + loop_sum;
  }
  check_int("constructs in inner regions", private_sums);
  int tasks = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp parallel num_threads(2)
    {
#pragma omp single
      for (int i = 0; i < 10; ++i) {
#pragma omp task
        {
#pragma omp atomic
          tasks += i;
        }
      }
    }
  }
  check_int("tasks in inner regions", tasks);
  static int values[1000];
  static int space[1000];
  for (int i = 0; i < 1000; ++i) values[i] = (i * 617) % 1009;
  merge_sort(values, space, 1000);
  int in_order = 0;
  for (int i = 1; i < 1000; ++i) in_order += values[i - 1] < values[i];
  check_int("a sort of regions in regions", in_order);
}

/// Each `single` is run by a thread that comes to it, though another one waits for what it does. Gives up
/// after half a minute.
static void wait_for_singles(void) {
  enum { singles = 20 };
  int in_time = 0;
  int given = 0;
#pragma omp parallel reduction(+ : in_time, given)
  {
    take_part();
    int done = 0;
#pragma omp parallel num_threads(3) shared(done) reduction(+ : given)
    {
#pragma omp master
      {
        const double end = omp_get_wtime() + 30;
        int seen = 0;
        while (seen < singles && omp_get_wtime() < end) {
#pragma omp atomic read
          seen = done;
        }
        in_time += seen == singles;
      }
      for (int i = 0; i < singles; ++i) {
#pragma omp single nowait
        {
#pragma omp atomic
          ++done;
        }
      }
      int number = -1;
#pragma omp barrier
#pragma omp single copyprivate(number)
      number = done;
      given += number;
    }
  }
  check_int("singles that are waited for", in_time);
  check_int("what the last of them gives", given);
}

static void limit_levels(void) {
  omp_set_max_active_levels(1);
  int inner = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp parallel num_threads(4)
    {
#pragma omp atomic
      inner += omp_get_num_threads() * 10 + omp_get_active_level();
    }
  }
  check_int("one active level", inner);
}

int main(void) {
  run_inner_threads();
  use_constructs_inside();
  wait_for_singles();
  limit_levels();
  return finish();
}
