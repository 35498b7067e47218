/* Sorts keys as NAS IS does: every rank counts its keys by bucket, all learn where each one's part of a
 * bucket begins, put their keys there, and each rank sorts the buckets that are its own. */
#include <stdlib.h>
#include <string.h>

#include "space/kernels/kernels.h"

enum { keys = 131072, key_bits = 16, buckets = 256, key_shift = key_bits - 8 };

static uint32_t key_of(uint32_t index, uint32_t iteration) {
  uint32_t number = index * 2654435761U ^ iteration * 0x9e3779b9U;
  number ^= number >> 15;
  number *= 2246822519U;
  number ^= number >> 13;
  return number & ((1U << key_bits) - 1);
}

static int bucket_of_rank(int rank, int size) {
  return buckets * rank / size;
}

void bucket_sort(const craton_segment_options* options, int iterations, const struct kernel_marks* marks,
                 struct kernel_report* report) {
  const int rank = craton_rank();
  const int size = craton_size();
  const size_t apart = (buckets * sizeof(uint32_t) + options->block_bytes - 1) / options->block_bytes *
                       options->block_bytes / sizeof(uint32_t);
  uint32_t* const sorted = kernel_segment(options, (keys + (size_t)size * apart) * sizeof(uint32_t));
  uint32_t* const counts = sorted + keys; /* of each rank, in blocks of its own */
  const uint32_t first = (uint32_t)((int64_t)keys * rank / size);
  const uint32_t last = (uint32_t)((int64_t)keys * (rank + 1) / size);
  uint32_t* const own = malloc((last - first) * sizeof(uint32_t));
  uint32_t* const of_value = malloc(sizeof(uint32_t) << key_bits);
  uint32_t begin[buckets + 1];
  report->correct = 1;
  for (int iteration = 0; iteration < kernel_warm_iterations + iterations; ++iteration) {
    if (iteration == kernel_warm_iterations) marks->begin(marks->context);
    uint32_t local[buckets] = {0};
    for (uint32_t i = first; i < last; ++i) {
      own[i - first] = key_of(i, (uint32_t)iteration);
      ++local[own[i - first] >> key_shift];
    }
    memcpy(counts + (size_t)rank * apart, local, sizeof local);
    kernel_barrier(1);
    uint32_t next[buckets];
    uint32_t sum = 0;
    for (int bucket = 0; bucket < buckets; ++bucket) {
      begin[bucket] = sum;
      for (int each = 0; each < size; ++each) {
        if (each == rank) next[bucket] = sum;
        sum += counts[(size_t)each * apart + (size_t)bucket];
      }
    }
    begin[buckets] = sum;
    for (uint32_t i = 0; i < last - first; ++i) sorted[next[own[i] >> key_shift]++] = own[i];
    kernel_barrier(2);
    const uint32_t low = begin[bucket_of_rank(rank, size)];
    const uint32_t high = begin[bucket_of_rank(rank + 1, size)];
    memset(of_value, 0, sizeof(uint32_t) << key_bits);
    for (uint32_t i = low; i < high; ++i) ++of_value[sorted[i]];
    uint32_t at = low;
    for (uint32_t value = 0; value < 1U << key_bits; ++value) {
      for (uint32_t left = of_value[value]; left > 0; --left) sorted[at++] = value;
    }
    kernel_barrier(3);
  }
  marks->end(marks->context);

  uint64_t expected = 0;
  uint64_t found = 0;
  for (uint32_t i = 0; i < keys; ++i) {
    const uint32_t key = key_of(i, (uint32_t)(kernel_warm_iterations + iterations - 1));
    expected += (uint64_t)key * key;
    found += (uint64_t)sorted[i] * sorted[i];
    if (i > 0 && sorted[i - 1] > sorted[i]) report->correct = 0;
  }
  if (expected != found) report->correct = 0;
  /* Keys that are not in their rank's buckets, and the counts. */
  report->exchanged_bytes = (double)keys * sizeof(uint32_t) * (size - 1) / size +
                            (double)size * (size - 1) * buckets * sizeof(uint32_t);
  kernel_barrier(4);
  free(own);
  free(of_value);
}
