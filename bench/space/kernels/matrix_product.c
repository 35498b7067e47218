/* C = A B by rows. Every rank has some rows of all three; of B it changes its rows before each product, and
 * reads all of it. */
#include <math.h>

#include "space/kernels/kernels.h"

enum { side = 256 };

void matrix_product(const craton_segment_options* options, int iterations, const struct kernel_marks* marks,
                    struct kernel_report* report) {
  const int rank = craton_rank();
  const int size = craton_size();
  double* const a = kernel_segment(options, 3 * sizeof(double) * side * side);
  double* const b = a + side * side;
  double* const c = b + side * side;
  const int first = side * rank / size;
  const int last = side * (rank + 1) / size;
  for (int i = first * side; i < last * side; ++i) a[i] = i % 11 - 5;
  for (int iteration = 0; iteration < kernel_warm_iterations + iterations; ++iteration) {
    if (iteration == kernel_warm_iterations) marks->begin(marks->context);
    for (int i = first * side; i < last * side; ++i) b[i] = (i + iteration) % 13 - 6;
    kernel_barrier(1);
    for (int i = first; i < last; ++i) {
      double row[side] = {0};
      for (int k = 0; k < side; ++k) {
        for (int j = 0; j < side; ++j) row[j] += a[i * side + k] * b[k * side + j];
      }
      for (int j = 0; j < side; ++j) c[i * side + j] = row[j];
    }
    kernel_barrier(2);
  }
  marks->end(marks->context);

  /* C times a vector is A times (B times it). All are whole numbers, so it holds to the last bit. */
  report->correct = 1;
  double b_v[side];
  for (int i = 0; i < side; ++i) {
    b_v[i] = 0;
    for (int j = 0; j < side; ++j) b_v[i] += b[i * side + j] * (j % 5);
  }
  for (int i = 0; i < side; ++i) {
    double difference = 0;
    for (int j = 0; j < side; ++j) difference += a[i * side + j] * b_v[j] - c[i * side + j] * (j % 5);
    if (difference != 0) report->correct = 0;
  }
  report->exchanged_bytes = (size - 1) * (double)sizeof(double) * side * side;
  kernel_barrier(3);
}
