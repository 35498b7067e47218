/* What the programs that are not NPB's share: the size argument and the last lines. For C11 and C++. */
#ifndef CRATON_BENCH_APPS_PROGRAM_H
#define CRATON_BENCH_APPS_PROGRAM_H

#include <errno.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The one argument, or what is usual without it. Ends the program with 2 where it is no number from least to
 * most. */
static inline long program_size(int argc, char** argv, long usual, long least, long most) {
  if (argc < 2) return usual;
  char* end = NULL;
  errno = 0;
  const long size = strtol(argv[1], &end, 10);
  if (argc > 2 || end == argv[1] || *end != '\0' || errno != 0 || size < least || size > most) {
    fprintf(stderr, "%s: '%s' is no size; the one argument is a number from %ld to %ld, without it %ld\n",
            argv[0], argv[1], least, most, usual);
    exit(2);
  }
  return size;
}

/* Ends the program where there is no memory. */
static inline void* program_allocate(size_t count, size_t bytes) {
  void* const memory = malloc(count * bytes);
  if (memory == NULL) {
    fprintf(stderr, "cannot allocate %zu times %zu bytes\n", count, bytes);
    exit(1);
  }
  return memory;
}

/* Prints the last two lines; returns the exit status. */
static inline int program_report(const char* name, long size, double seconds, double rate, const char* unit,
                                 bool verified) {
  printf("%s size %ld: %d threads, %.3f s, %.2f %s\n", name, size, omp_get_max_threads(), seconds, rate,
         unit);
  puts(verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  return verified ? 0 : 1;
}

/* A well-mixed number for each number: the finalizer of splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t program_mix(uint64_t number) {
  number += UINT64_C(0x9e3779b97f4a7c15);
  number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
  return number ^ (number >> 31);
}

/* From [0, 1). */
static inline double program_fraction(uint64_t number) {
  return (double)(number >> 11) * 0x1p-53;
}

#endif
