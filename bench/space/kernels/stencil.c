/* The mean of a point and its six neighbours, from one grid into another and back, which is an iteration;
 * each rank has a slab of planes and reads one plane of each neighbour's. */
#include <stdlib.h>
#include <string.h>

#include "space/kernels/kernels.h"

enum { side = 64, plane = side * side };

static double initial(int point) {
  return (double)((unsigned)point * 2654435761U >> 16);
}

static void sweep(const double* from, double* to, int first_plane, int last_plane) {
  for (int z = first_plane; z < last_plane; ++z) {
    for (int y = 1; y < side - 1; ++y) {
      const double* const row = from + z * plane + y * side;
      double* const out = to + z * plane + y * side;
      for (int x = 1; x < side - 1; ++x) {
        out[x] = (row[x] + row[x - 1] + row[x + 1] + row[x - side] + row[x + side] + row[x - plane] +
                  row[x + plane]) /
                 7;
      }
    }
  }
}

/** The same on one processor. */
static int agrees(const double* result, int sweeps) {
  double* const grids = malloc(2 * sizeof(double) * side * plane);
  double* from = grids;
  double* to = grids + side * plane;
  for (int point = 0; point < side * plane; ++point) from[point] = to[point] = initial(point);
  for (int i = 0; i < sweeps; ++i) {
    sweep(from, to, 1, side - 1);
    double* const newest = to;
    to = from;
    from = newest;
  }
  const int same = memcmp(from, result, sizeof(double) * side * plane) == 0;
  free(grids);
  return same;
}

void stencil(const craton_segment_options* options, int iterations, const struct kernel_marks* marks,
             struct kernel_report* report) {
  const int rank = craton_rank();
  const int size = craton_size();
  double* from = kernel_segment(options, 2 * sizeof(double) * side * plane);
  double* to = from + side * plane;
  const int first = side * rank / size;
  const int last = side * (rank + 1) / size;
  for (int point = first * plane; point < last * plane; ++point) from[point] = to[point] = initial(point);
  kernel_barrier(1);
  const int sweeps = 2 * (kernel_warm_iterations + iterations);
  for (int i = 0; i < sweeps; ++i) {
    if (i == 2 * kernel_warm_iterations) marks->begin(marks->context);
    sweep(from, to, first == 0 ? 1 : first, last == side ? side - 1 : last);
    kernel_barrier(2 + (uint32_t)i % 2);
    double* const newest = to;
    to = from;
    from = newest;
  }
  marks->end(marks->context);
  report->correct = rank != 0 || agrees(from, sweeps);
  report->exchanged_bytes = 2 * 2.0 * (size - 1) * plane * sizeof(double);
  kernel_barrier(4);
}
