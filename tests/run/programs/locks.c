/// \file
/// Locks of both kinds, on all kinds of memory.
#include "check.h"

#include <stdlib.h>

static omp_lock_t global_lock;
static omp_nest_lock_t global_nest;
static long long count;

static void descend(omp_nest_lock_t* nest, int depth) {
  omp_set_nest_lock(nest);
  ++count;
  if (depth > 0) descend(nest, depth - 1);
  omp_unset_nest_lock(nest);
}

static void count_under_locks(void) {
  omp_init_lock(&global_lock);
  omp_init_nest_lock(&global_nest);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 100; ++i) {
      omp_set_lock(&global_lock);
      ++count;
      omp_unset_lock(&global_lock);
    }
  }
  check_int("lock", count);
  count = 0;
  omp_lock_t stack_lock;
  omp_init_lock(&stack_lock);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50;) {
      if (!omp_test_lock(&stack_lock)) continue;
      ++count;
      ++i;
      omp_unset_lock(&stack_lock);
    }
  }
  omp_destroy_lock(&stack_lock);
  check_int("test lock, on the stack", count);
}

static void count_under_nest_locks(void) {
  count = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 30; ++i) descend(&global_nest, 3);
  }
  check_int("nest lock", count);
  count = 0;
  int depths = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 30;) {
      const int depth = omp_test_nest_lock(&global_nest);
      if (depth == 0) continue;
      depths += depth + omp_test_nest_lock(&global_nest);
      omp_unset_nest_lock(&global_nest);
      omp_unset_nest_lock(&global_nest);
      ++i;
    }
  }
  check_int("test nest lock", depths);
}

static void use_many_locks(void) {
  // Many locks on the heap, each made by one thread, used by all and destroyed by another.
  enum { locks = 300 };
  omp_lock_t* const heap_locks = malloc(locks * sizeof *heap_locks);
  static int guarded[locks];
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(static, 1)
    for (int i = 0; i < locks; ++i) omp_init_lock(&heap_locks[i]);
    for (int step = 0; step < locks; ++step) {
      const int i = (step * 7 + omp_get_thread_num()) % locks;
      omp_set_lock(&heap_locks[i]);
      guarded[i] += 1;
      omp_unset_lock(&heap_locks[i]);
    }
#pragma omp barrier
#pragma omp for schedule(static, 7)
    for (int i = 0; i < locks; ++i) omp_destroy_lock(&heap_locks[i]);
  }
  long long sum = 0;
  for (int i = 0; i < locks; ++i) sum += (long long)guarded[i] * (i + 1);
  check_int("many locks", sum);
  free(heap_locks);
}

static void use_lock_again(void) {
  // A lock that another thread sets, and a destroyed one made anew.
  int handed = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 5; ++turn) {
#pragma omp master
      {
        omp_destroy_lock(&global_lock);
        omp_init_lock(&global_lock);
        omp_set_lock(&global_lock);
        handed += 3;
        omp_unset_lock(&global_lock);
      }
#pragma omp barrier
      omp_set_lock(&global_lock);
      ++handed;
      omp_unset_lock(&global_lock);
#pragma omp barrier
    }
  }
  check_int("a lock made anew", handed);
  int tested = -1;
#pragma omp parallel
  {
    take_part();
#pragma omp master
    omp_set_lock(&global_lock);
#pragma omp barrier
    if (omp_get_thread_num() == omp_get_num_threads() - 1 && omp_get_num_threads() > 1)
      tested = omp_test_lock(&global_lock);
#pragma omp barrier
#pragma omp master
    omp_unset_lock(&global_lock);
  }
  check_int("test of a lock that is set", omp_get_max_threads() > 1 ? tested : 0);
  omp_destroy_lock(&global_lock);
  omp_destroy_nest_lock(&global_nest);
}

#ifndef __clang__
static omp_lock_t zero_lock;

/// As libgomp's may be used, whose value is 0 while they are unlocked.
static void use_locks_that_are_zero(void) {
  enum { locks = 40 };
  omp_lock_t* const zeros = calloc(locks, sizeof *zeros);
  omp_nest_lock_t* const nests = calloc(locks, sizeof *nests);
  static int guarded[locks];
  static int depths[locks];
  for (int time = 0; time < 2; ++time) {
#pragma omp parallel
    {
      take_part();
      for (int i = 0; i < locks; ++i) {
        omp_lock_t* const lock = i == 0 ? &zero_lock : &zeros[i];
        while (i % 3 == 0 && !omp_test_lock(lock))
          ;
        if (i % 3 != 0) omp_set_lock(lock);
        ++guarded[i];
        omp_unset_lock(lock);
        while (i % 3 == 0 && omp_test_nest_lock(&nests[i]) == 0)
          ;
        if (i % 3 != 0) omp_set_nest_lock(&nests[i]);
        depths[i] += omp_test_nest_lock(&nests[i]);
        omp_unset_nest_lock(&nests[i]);
        omp_unset_nest_lock(&nests[i]);
      }
    }
    // Twice, of which the second time destroys nothing that another lock has got meanwhile.
    for (int i = 0; i < 2 * locks; ++i) {
      omp_destroy_lock(&zeros[i % locks]);
      omp_destroy_nest_lock(&nests[i % locks]);
    }
    omp_destroy_lock(&zero_lock);
    omp_unset_lock(&zero_lock);
  }
  long long sum = 0;
  for (int i = 0; i < locks; ++i) sum += (guarded[i] + 100LL * depths[i]) * (i + 1);
  check_int("locks that are zero", sum);
  free(zeros);
  free(nests);
}
#endif

int main(void) {
  count_under_locks();
  count_under_nest_locks();
  use_many_locks();
  use_lock_again();
#ifndef __clang__
  use_locks_that_are_zero();
#endif
  return finish();
}
