#include <stdio.h>
#include <stdlib.h>

#include "space/kernels/kernels.h"

static void check(craton_status status) {
  if (status == CRATON_OK) return;
  fprintf(stderr, "space kernel: %s\n", craton_last_error());
  exit(1);
}

void* kernel_segment(const craton_segment_options* options, size_t bytes) {
  craton_segment_options own = *options;
  own.bytes = bytes;
  void* data = NULL;
  check(craton_segment_create(&own, &data));
  return data;
}

void kernel_barrier(uint32_t site) {
  check(craton_space_barrier(site));
}
