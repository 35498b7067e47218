/* The programs in kernels/ by themselves, against the library that is installed: `craton run -n 2
 * space_kernels`. Prints the time, the faults and the bytes of an iteration of each on rank 0; fails where a
 * result is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "space/kernels/kernels.h"

struct meter {
  double seconds;
  uint64_t faults;
  uint64_t bytes;
};

static uint64_t count(const char* counter) {
  uint64_t value = 0;
  if (craton_space_count(counter, &value) != CRATON_OK) {
    fprintf(stderr, "space_kernels: %s\n", craton_last_error());
    exit(1);
  }
  return value;
}

static struct meter now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const struct meter meter = {.seconds = (double)time.tv_sec + (double)time.tv_nsec / 1e9,
                              .faults = count("read_faults") + count("write_faults"),
                              .bytes = count("fetched_bytes") + count("put_bytes")};
  return meter;
}

static void begin(void* context) {
  *(struct meter*)context = now();
}

static void end(void* context) {
  struct meter* const meter = context;
  const struct meter after = now();
  meter->seconds = after.seconds - meter->seconds;
  meter->faults = after.faults - meter->faults;
  meter->bytes = after.bytes - meter->bytes;
}

int main(void) {
  static const struct {
    const char* name;
    kernel* run;
  } programs[] = {{"conjugate gradient", &conjugate_gradient},
                  {"stencil", &stencil},
                  {"matrix product", &matrix_product},
                  {"bucket sort", &bucket_sort}};
  enum { iterations = 25 };
  if (craton_init() != CRATON_OK || craton_space_open(NULL) != CRATON_OK) {
    fprintf(stderr, "space_kernels: %s\n", craton_last_error());
    return 1;
  }
  int correct = 1;
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; ++i) {
    const craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
    struct meter meter = {0};
    struct kernel_marks marks = {.context = &meter, .begin = &begin, .end = &end};
    struct kernel_report report = {0};
    programs[i].run(&options, iterations, &marks, &report);
    if (!report.correct) fprintf(stderr, "space_kernels: %s: the result is wrong\n", programs[i].name);
    correct = correct && report.correct;
    if (craton_rank() == 0) {
      printf("%-18s %8.0f us, %6.2f faults, %9.0f bytes of rank 0 an iteration\n", programs[i].name,
             meter.seconds * 1e6 / iterations, (double)meter.faults / iterations,
             (double)meter.bytes / iterations);
    }
  }
  return craton_finalize() == CRATON_OK && correct ? 0 : 1;
}
