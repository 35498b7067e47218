/// \file
/// Sections, single with and without copyprivate, master and masked.
#include "check.h"

static int runs_of[32];

static void run(int section) {
#pragma omp atomic
  runs_of[section]++;
}

static void check_runs(const char* name) {
  long long all = 0;
  for (int i = 0; i < 16; ++i) {
    all = all * 3 + runs_of[i];
    runs_of[i] = 0;
  }
  check_int(name, all);
}

struct Pair {
  int first;
  double second;
};

static int threadprivate_word;
#pragma omp threadprivate(threadprivate_word)

static void run_sections(void) {
#pragma omp parallel sections
  {
    run(0);
#pragma omp section
    run(1);
#pragma omp section
    run(2);
#pragma omp section
    run(3);
#pragma omp section
    run(4);
  }
  check_runs("parallel sections");
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 3; ++turn) {
#pragma omp sections nowait
      {
#pragma omp section
        run(turn);
#pragma omp section
        run(turn + 3);
      }
    }
#pragma omp sections
    { run(9); }
  }
  check_runs("sections in turn, nowait");
  int last = 0;
  int first = 40;
  int sum = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp sections firstprivate(first) lastprivate(last) reduction(+ : sum)
    {
#pragma omp section
      {
        sum += first;
        last = 1;
      }
#pragma omp section
      {
        sum += first;
        last = 2;
      }
#pragma omp section
      {
        sum += 1;
        last = 3;
      }
    }
  }
  check_int("firstprivate, lastprivate and reduction", last * 1000 + sum);
}

static void spread_sections(void) {
  const int team = omp_get_max_threads();
  // As many sections as the largest team has threads, each taken by another thread.
  int threads = 0;
#pragma omp parallel num_threads(team < 8 ? team : 8)
  {
#pragma omp sections
    {
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
#pragma omp section
      meet();
    }
#pragma omp atomic
    ++threads;
  }
  check_int("a section for each thread", threads);
}

static void run_single(void) {
  int singles = 0;
  int seen = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 30; ++turn) {
#pragma omp single
      ++singles;
      if (turn == 29) {
#pragma omp atomic
        seen += singles;
      }
    }
  }
  check_int("single", singles * 1000 + seen);
  singles = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 30; ++turn) {
#pragma omp single nowait
      {
#pragma omp atomic
        ++singles;
      }
    }
  }
  check_int("single nowait", singles);
}

static void copy_private(void) {
  int value;
  struct Pair pair;
  double vector[50];
  long long total = 0;
#pragma omp parallel private(value, pair, vector) reduction(+ : total)
  {
    take_part();
    for (int turn = 0; turn < 10; ++turn) {
#pragma omp single copyprivate(value, pair, vector)
      {
        value = 7 + turn;
        pair.first = 3 * turn;
        pair.second = 0.5 * turn;
        for (int i = 0; i < 50; ++i) vector[i] = i * turn;
      }
      total += value + pair.first + (int)(2 * pair.second) + (int)vector[49];
    }
  }
  check_int("copyprivate", total);
  total = 0;
#pragma omp parallel reduction(+ : total)
  {
    take_part();
#pragma omp single copyprivate(threadprivate_word)
    threadprivate_word = 77;
    total += threadprivate_word;
  }
  check_int("copyprivate of threadprivate", total);
}

static void run_masked(void) {
  const int team = omp_get_max_threads();
  int masters = 0;
  int by = -1;
#pragma omp parallel
  {
    take_part();
#pragma omp master
    {
      ++masters;
      by = omp_get_thread_num();
    }
#pragma omp barrier
#pragma omp masked
    ++masters;
  }
  check_int("master and masked", masters * 10 + by);
  int filtered = -1;
#pragma omp parallel
  {
    take_part();
#pragma omp masked filter(team - 1)
    filtered = omp_get_thread_num();
  }
  check_int("masked with a filter", filtered);
#ifndef __clang__  // which has no scope before version 17
  long long total = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp scope reduction(+ : total)
    total += omp_get_thread_num() + 1;
  }
  check_int("scope", total);
#endif
}

int main(void) {
  run_sections();
  spread_sections();
  run_single();
  copy_private();
  run_masked();
  return finish();
}
