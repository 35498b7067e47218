/* Solves A x = b for a random sparse symmetric matrix, as NAS CG does inside: each rank has some rows, and
 * the vector that they are multiplied by is needed everywhere. The matrix is private; all vectors are shared.
 */
#include <math.h>
#include <stdlib.h>

#include "space/kernels/kernels.h"

enum { unknowns = 14336, pairs_a_row = 7 };

struct rows {
  int first, last;
  int* begin; /* of the row's elements, and one more */
  int* column;
  double* value;
};

static uint64_t random_of(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

/** Every rank makes all pairs of elements and keeps what is in its rows. */
static void make_rows(struct rows* rows) {
  const int count = rows->last - rows->first;
  rows->begin = calloc((size_t)count + 2, sizeof(int));
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < unknowns; ++i) {
      for (int pair = 0; pair < pairs_a_row; ++pair) {
        const uint64_t random = random_of((uint64_t)i * pairs_a_row + (uint64_t)pair + 1);
        const int ends[2] = {i, (int)(random % unknowns)};
        const double value = -(double)(random >> 40) / (1 << 24);
        if (ends[0] == ends[1]) continue;
        for (int end = 0; end < 2; ++end) {
          const int row = ends[end] - rows->first;
          if (row < 0 || row >= count) continue;
          if (pass == 0) {
            ++rows->begin[row + 2];
          } else {
            rows->column[rows->begin[row + 1]] = ends[1 - end];
            rows->value[rows->begin[row + 1]++] = value;
          }
        }
      }
    }
    if (pass == 1) break;
    for (int row = 0; row < count; ++row) rows->begin[row + 2] += rows->begin[row + 1];
    rows->column = malloc(sizeof(int) * (size_t)rows->begin[count + 1]);
    rows->value = malloc(sizeof(double) * (size_t)rows->begin[count + 1]);
  }
}

/** Row times vector; the diagonal is one more than what makes the row's sum 0, so A times ones is ones. */
static double times(const struct rows* rows, int row, const double* vector) {
  double sum = vector[row];
  for (int i = rows->begin[row - rows->first]; i < rows->begin[row - rows->first + 1]; ++i)
    sum += rows->value[i] * (vector[rows->column[i]] - vector[row]);
  return sum;
}

/** The sum over all ranks. Each puts its part into a block of its own. */
static double sum_of_all(double part, double* parts, size_t apart, int which, uint32_t site) {
  const int size = craton_size();
  parts[(size_t)craton_rank() * apart + (size_t)which] = part;
  kernel_barrier(site);
  double sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += parts[(size_t)rank * apart + (size_t)which];
  return sum;
}

void conjugate_gradient(const craton_segment_options* options, int iterations,
                        const struct kernel_marks* marks, struct kernel_report* report) {
  const int rank = craton_rank();
  const int size = craton_size();
  struct rows rows = {.first = (int)((int64_t)unknowns * rank / size),
                      .last = (int)((int64_t)unknowns * (rank + 1) / size)};
  make_rows(&rows);
  const size_t apart = options->block_bytes / sizeof(double);
  const size_t vector = (unknowns + apart - 1) / apart * apart;
  double* const x = kernel_segment(options, (4 * vector + (size_t)size * apart) * sizeof(double));
  double* const p = x + vector;
  double* const q = p + vector;
  double* const r = q + vector;
  double* const parts = r + vector;

  double part = 0;
  for (int i = rows.first; i < rows.last; ++i) {
    r[i] = p[i] = 1 + (i % 7) * 0.125; /* b */
    part += r[i] * r[i];
  }
  double rho = sum_of_all(part, parts, apart, 0, 1);
  const double rho_at_first = rho;
  for (int iteration = 0; iteration < kernel_warm_iterations + iterations; ++iteration) {
    if (iteration == kernel_warm_iterations) marks->begin(marks->context);
    part = 0;
    for (int i = rows.first; i < rows.last; ++i) {
      q[i] = times(&rows, i, p);
      part += p[i] * q[i];
    }
    const double alpha = rho / sum_of_all(part, parts, apart, 1, 2);
    part = 0;
    for (int i = rows.first; i < rows.last; ++i) {
      x[i] += alpha * p[i];
      r[i] -= alpha * q[i];
      part += r[i] * r[i];
    }
    const double rho_before = rho;
    rho = sum_of_all(part, parts, apart, 0, 3);
    for (int i = rows.first; i < rows.last; ++i) p[i] = r[i] + rho / rho_before * p[i];
    kernel_barrier(4);
  }
  marks->end(marks->context);

  double wrong = 0; /* what is left, computed anew from the x of all ranks */
  for (int i = rows.first; i < rows.last; ++i) {
    const double left = 1 + (i % 7) * 0.125 - times(&rows, i, x) - r[i];
    wrong += left * left;
  }
  report->correct = rho < 1e-4 * rho_at_first && wrong < 1e-16 * rho_at_first;
  report->exchanged_bytes = (size - 1) * (unknowns * (double)sizeof(double) + 2.0 * size * sizeof(double));
  kernel_barrier(5);
  free(rows.begin);
  free(rows.column);
  free(rows.value);
}
