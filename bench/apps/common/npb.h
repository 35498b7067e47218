/* What the NAS programs share: the class argument, NPB's random numbers, the comparison with reference values
 * and the result line. For C11 and C++; each program includes it and links nothing but libgomp and libm.
 *
 * Numbers: x' = 5^13 x mod 2^46, as in section 2.3 of "The NAS Parallel Benchmarks", RNR-94-007. */
#ifndef CRATON_BENCH_APPS_NPB_H
#define CRATON_BENCH_APPS_NPB_H

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t npb_multiplier = 1220703125; /* 5^13 */
static const uint64_t npb_seed = 314159265;

static inline uint64_t npb_product(uint64_t left, uint64_t right) {
  return (left * right) & ((UINT64_C(1) << 46) - 1); /* 2^46 divides 2^64: what overflows is not missed */
}

/* The next number, in (0, 1). */
static inline double npb_random(uint64_t* seed) {
  *seed = npb_product(*seed, npb_multiplier);
  return (double)*seed * 0x1p-46;
}

/* The seed after `count` more numbers. */
static inline uint64_t npb_random_skip(uint64_t seed, uint64_t count) {
  uint64_t power = npb_multiplier;
  for (; count != 0; count >>= 1) {
    if ((count & 1) != 0) seed = npb_product(seed, power);
    power = npb_product(power, power);
  }
  return seed;
}

/* The index of the class, 0 to 3 for S, W, A, B; S without an argument. Ends the program with 2 for any
 * other. */
static inline int npb_class(int argc, char** argv) {
  if (argc < 2) return 0;
  const char* const classes = "SWAB";
  const char* const found = argc == 2 && strlen(argv[1]) == 1 ? strchr(classes, argv[1][0]) : NULL;
  if (found == NULL) {
    fprintf(stderr, "%s: '%s' is no class; the one argument is S, W, A or B\n", argv[0], argv[1]);
    exit(2);
  }
  return (int)(found - classes);
}

/* Ends the program where there is no memory. */
static inline void* npb_allocate(size_t count, size_t bytes) {
  void* const memory = malloc(count * bytes);
  if (memory == NULL) {
    fprintf(stderr, "cannot allocate %zu times %zu bytes\n", count, bytes);
    exit(1);
  }
  return memory;
}

/* Prints both values; false where they differ by more, or are not numbers. */
static inline bool npb_matches(const char* what, double found, double expected, double tolerance) {
  const double difference = fabs((found - expected) / expected);
  const bool matches = difference <= tolerance;
  printf("  %-22s %21.14e, expected %21.14e, relative difference %.1e%s\n", what, found, expected, difference,
         matches ? "" : " TOO MUCH");
  return matches;
}

/* Prints the last two lines; returns the exit status. */
static inline int npb_report(const char* name, int class_index, int iterations, double seconds,
                             double million_operations, bool verified) {
  printf("%s class %c: %d iterations, %d threads, %.3f s, %.2f Mop/s\n", name, "SWAB"[class_index],
         iterations, omp_get_max_threads(), seconds, million_operations / seconds);
  puts(verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  return verified ? 0 : 1;
}

#endif
