/// \file
/// Reductions: every operator, scalars of all types, arrays, operators of our own.
#include "check.h"

#include <complex.h>
#include <limits.h>
#include <stdlib.h>

struct Range {
  int least;
  int most;
  long long sum;
};

static void merge(struct Range* into, const struct Range* other) {
  if (other->least < into->least) into->least = other->least;
  if (other->most > into->most) into->most = other->most;
  into->sum += other->sum;
}

#pragma omp declare reduction(merge                       \
                              : struct Range              \
                              : merge(&omp_out, &omp_in)) \
    initializer(omp_priv = (struct Range){INT_MAX, INT_MIN, 0})
#pragma omp declare reduction(longest:int : omp_out = omp_in > omp_out ? omp_in : omp_out)

#define SUM_OF(type)                                                                                   \
  do {                                                                                                 \
    type sum = 3;                                                                                      \
    _Pragma("omp parallel for reduction(+ : sum) schedule(static, 5)") for (int i = 0; i < 120; ++i) { \
      take_part();                                                                                     \
      sum += (type)(i % 5);                                                                            \
    }                                                                                                  \
    check_real("sum of " #type, (long double)sum);                                                     \
  } while (0)

static void add_types(void) {
  typedef signed char tiny;
  typedef unsigned short narrow;
  typedef unsigned long long wide;
  typedef long double longest_real;
  SUM_OF(tiny);
  SUM_OF(narrow);
  SUM_OF(int);
  SUM_OF(unsigned);
  SUM_OF(long);
  SUM_OF(wide);
  SUM_OF(float);
  SUM_OF(double);
  SUM_OF(longest_real);
  double complex turning = 0;
#pragma omp parallel for reduction(+ : turning)
  for (int i = 0; i < 100; ++i) {
    take_part();
    turning += i + 2 * i * I;
  }
  check_real("sum of complex", creal(turning) * 1000 + cimag(turning));
}

static void use_operators(void) {
  long long minus = 0;
  unsigned product = 1;
  unsigned all = ~0U;
  unsigned any = 0;
  unsigned odd = 0x55;
  int both = 1;
  int either = 0;
  double least = 1e9;
  float most = -1e9F;
#pragma omp parallel for reduction(- : minus) reduction(* : product) reduction(& : all) reduction(| : any) \
    reduction(^ : odd) reduction(&& : both) reduction(|| : either) reduction(min : least) reduction(max : most)
  for (int i = 0; i < 50; ++i) {
    take_part();
    minus -= i;
    product *= 2U * (unsigned)i + 1;
    all &= ~(1U << (i % 7));
    any |= 1U << (i % 9);
    odd ^= (unsigned)i * 77U;
    both = both && i >= 0;
    either = either || i == 31;
    least = least < (i - 20) * 1.5 ? least : (i - 20) * 1.5;
    most = most > (float)((i * 7) % 50) ? most : (float)((i * 7) % 50);
  }
  check_int("minus", minus);
  check_int("product", product);
  check_int("and", all);
  check_int("or", any);
  check_int("exclusive or", odd);
  check_int("logical and", both);
  check_int("logical or", either);
  check_real("min", least);
  check_real("max", most);
}

static void reduce_arrays(void) {
  const int team = omp_get_max_threads();
  int fixed[100] = {0};
#pragma omp parallel for reduction(+ : fixed)
  for (int i = 0; i < 1000; ++i) {
    take_part();
    fixed[i % 100] += i;
    fixed[(i * 7) % 100] += 1;
  }
  long long mixed = 0;
  for (int i = 0; i < 100; ++i) mixed += (long long)fixed[i] * i;
  check_int("array", mixed);
  double* const section = calloc(5000, sizeof *section);
#pragma omp parallel for reduction(+ : section [10:4000])
  for (int i = 0; i < 4000; ++i) {
    take_part();
    section[10 + i] += i;
    section[10 + (i * 11) % 4000] += 0.5;
  }
  double sum = 0;
  for (int i = 0; i < 5000; ++i) sum += section[i] * i;
  check_real("section of the heap", sum);
  free(section);
  const int length = 20 * team;
  int vla[length];
  for (int i = 0; i < length; ++i) vla[i] = 1;
#pragma omp parallel reduction(+ : vla[:length])
  {
    take_part();
    for (int i = 0; i < length; ++i) vla[i] += omp_get_thread_num();
  }
  mixed = 0;
  for (int i = 0; i < length; ++i) mixed += vla[i];
  check_int("variable length array", mixed);
  int maxima[8] = {0};
#pragma omp parallel for reduction(max : maxima [0:8])
  for (int i = 0; i < 500; ++i) {
    take_part();
    const int value = (i * 37) % 499;
    if (value > maxima[i % 8]) maxima[i % 8] = value;
  }
  mixed = 0;
  for (int i = 0; i < 8; ++i) mixed = mixed * 7 + maxima[i];
  check_int("maxima", mixed);
}

static void use_own_operators(void) {
  struct Range range = {INT_MAX, INT_MIN, 0};
#pragma omp parallel for reduction(merge : range) schedule(dynamic, 7)
  for (int i = 0; i < 900; ++i) {
    meet();
    const int value = (i * 77) % 901 - 450;
    const struct Range one = {value, value, value};
    merge(&range, &one);
  }
  check_int("user-defined, of a structure", range.least + 1000LL * range.most + 1000000LL * range.sum);
  int tallest = 5;
#pragma omp parallel for reduction(longest : tallest)
  for (int i = 0; i < 900; ++i) {
    take_part();
    if ((i * 31) % 899 > tallest) tallest = (i * 31) % 899;
  }
  check_int("user-defined", tallest);
  struct Range ranges[4] = {{INT_MAX, INT_MIN, 0}, {INT_MAX, INT_MIN, 0}, {INT_MAX, INT_MIN, 0}, {1, 1, 1}};
#pragma omp parallel for reduction(merge : ranges)
  for (int i = 0; i < 400; ++i) {
    take_part();
    const struct Range one = {i, i, i};
    merge(&ranges[i % 4], &one);
  }
  long long mixed = 0;
  for (int i = 0; i < 4; ++i) mixed = mixed * 3 + ranges[i].least + ranges[i].most + ranges[i].sum;
  check_int("user-defined, of an array", mixed);
}

static void reduce_in_turn(void) {
  // Reductions of work in a region, used there again.
  int partial = 0;
  long long folded = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 20; ++turn) {
#pragma omp for reduction(+ : partial)
      for (int i = 0; i < 40; ++i) partial += i + turn;
#pragma omp single
      {
        folded = folded * 3 + partial;
        partial = 0;
      }
    }
  }
  check_int("in turn", folded);
  int without_barrier = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 20; ++turn) {
#pragma omp for reduction(+ : without_barrier) nowait
      for (int i = 0; i < 40; ++i) without_barrier += i;
    }
  }
  check_int("nowait", without_barrier);
  // As in a solver: one thread clears the sum, all add to it, and nobody waits between.
  double residual = 1;
  double trail = 0;
#pragma omp parallel
  {
    take_part();
    for (int turn = 0; turn < 20; ++turn) {
#pragma omp barrier
#pragma omp single
      residual = 0;
#pragma omp for reduction(+ : residual)
      for (int i = 0; i < 64; ++i) residual += i * turn;
#pragma omp master
      trail += residual;
    }
  }
  check_real("cleared by single", trail);
}

static void scan(void) {
  long long prefix[100];
  long long running = 0;
#pragma omp parallel for reduction(inscan, + : running)
  for (int i = 0; i < 100; ++i) {
    take_part();
    running += i * i;
#pragma omp scan inclusive(running)
    prefix[i] = running;
  }
  long long mixed = 0;
  for (int i = 0; i < 100; ++i) mixed = mixed * 3 % 1000003 + prefix[i];
  check_int("scan", mixed);
}

int main(void) {
  add_types();
  use_operators();
  reduce_arrays();
  use_own_operators();
  reduce_in_turn();
  scan();
  return finish();
}
