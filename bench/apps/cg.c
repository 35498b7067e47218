/* NPB CG: the smallest eigenvalue of a large sparse symmetric matrix, by inverse iteration with conjugate
 * gradients.
 *
 * RNR-94-007, section 2.2.3, with the matrix of NPB 2 and later: A = sum of w_i x_i x_i^T + (0.1 - shift) I,
 * where x_i is a sparse random vector whose element i is 0.5, and the weights w_i fall from 1 to 0.1.
 *
 * Memory: static arrays as large as class B. Parallel: one region holds all iterations; rows, and the
 * elements of all vectors, go in static blocks; sums are reductions. */
#include "common/npb.h"

enum {
  most_rows = 75000,
  most_drawn = 13, /* random elements of a vector x_i */
  most_held = most_drawn + 1,
  most_elements = most_rows * most_held * most_held,
  solver_steps = 25,
};

static const double condition = 0.1;

static const struct {
  int rows, drawn, iterations;
  double shift, zeta;
} problems[] = {
    {1400, 7, 15, 10, 8.5971775078648},
    {7000, 8, 15, 12, 10.362595087124},
    {14000, 11, 15, 20, 17.130235054029},
    {75000, 13, 75, 60, 22.712745482631},
};

/* The matrix: row j is elements[row_starts[j]] and on, in the columns beside. */
static double elements[most_elements];
static int columns[most_elements];
static int row_starts[most_rows + 1];

static double x[most_rows], z[most_rows], p[most_rows], q[most_rows], r[most_rows];
static double rho, rho_before, p_times_q, residual, x_times_z, z_times_z;

/* The vectors x_i, and for each row the vectors that hold an element in it. */
static struct {
  int held;
  int places[most_held];
  double values[most_held];
} vectors[most_rows];
static double weights[most_rows];
static int holders[most_rows * most_held];
static int holder_starts[most_rows + 1];

static int vector_find(int vector, int place) {
  int at = 0;
  while (at < vectors[vector].held && vectors[vector].places[at] != place) ++at;
  return at;
}

static void vector_set(int vector, int place, double value) {
  const int at = vector_find(vector, place);
  vectors[vector].places[at] = place;
  vectors[vector].values[at] = value;
  if (at == vectors[vector].held) ++vectors[vector].held;
}

/* One thread draws the vectors: how many numbers each takes is known only when they are drawn. */
static void draw_vectors(int rows, int drawn) {
  int places = 1;
  while (places < rows) places *= 2;
  uint64_t state = npb_random_skip(npb_seed, 1);
  const double ratio = pow(condition, 1.0 / rows);
  double weight = 1;
  for (int i = 0; i < rows; ++i) {
    vectors[i].held = 0;
    while (vectors[i].held < drawn) {
      const double value = npb_random(&state);
      const int place = (int)(places * npb_random(&state));
      if (place < rows && vector_find(i, place) == vectors[i].held) vector_set(i, place, value);
    }
    vector_set(i, i, 0.5);
    weights[i] = weight;
    weight *= ratio;
  }
}

static void find_holders(int rows) {
  for (int i = 0; i < rows; ++i) {
    for (int at = 0; at < vectors[i].held; ++at) ++holder_starts[vectors[i].places[at] + 1];
  }
  for (int row = 0; row < rows; ++row) holder_starts[row + 1] += holder_starts[row];
  int* const ends = npb_allocate((size_t)rows, sizeof *ends);
  memcpy(ends, holder_starts, (size_t)rows * sizeof *ends);
  for (int i = 0; i < rows; ++i) {
    for (int at = 0; at < vectors[i].held; ++at) holders[ends[vectors[i].places[at]]++] = i;
  }
  free(ends);
}

/* Sums a row up in `sums`, which is zero before; lists its columns and returns how many there are. */
static int sum_row(int row, double shift, double* sums, bool* seen, int* listed) {
  int count = 0;
  for (int h = holder_starts[row]; h < holder_starts[row + 1]; ++h) {
    const int i = holders[h];
    const double scale = weights[i] * vectors[i].values[vector_find(i, row)];
    for (int at = 0; at < vectors[i].held; ++at) {
      const int column = vectors[i].places[at];
      if (!seen[column]) listed[count++] = column;
      seen[column] = true;
      sums[column] += vectors[i].values[at] * scale;
    }
    if (i == row) sums[row] += condition - shift;
  }
  return count;
}

/* Each thread writes the rows that it multiplies later; the first round only counts. */
static void fill_rows(int rows, double shift) {
#pragma omp parallel
  {
    double* const sums = npb_allocate((size_t)rows, sizeof *sums);
    bool* const seen = npb_allocate((size_t)rows, sizeof *seen);
    int* const listed = npb_allocate((size_t)rows, sizeof *listed);
    memset(sums, 0, (size_t)rows * sizeof *sums);
    memset(seen, 0, (size_t)rows * sizeof *seen);
    for (int round = 0; round < 2; ++round) {
#pragma omp for schedule(static)
      for (int row = 0; row < rows; ++row) {
        const int count = sum_row(row, shift, sums, seen, listed);
        if (round == 0) row_starts[row + 1] = count;
        for (int at = 0; at < count; ++at) {
          const int column = listed[at];
          if (round == 1) {
            columns[row_starts[row] + at] = column;
            elements[row_starts[row] + at] = sums[column];
          }
          sums[column] = 0;
          seen[column] = false;
        }
      }
#pragma omp single
      for (int row = 0; round == 0 && row < rows; ++row) row_starts[row + 1] += row_starts[row];
    }
    free(sums);
    free(seen);
    free(listed);
  }
}

static void multiply(int rows, const double* from, double* to) {
#pragma omp for schedule(static)
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int at = row_starts[row]; at < row_starts[row + 1]; ++at) sum += elements[at] * from[columns[at]];
    to[row] = sum;
  }
}

/* Solves A z = x to what 25 steps give; leaves ||x - A z|| in `residual`. By all threads of a team. */
static void solve(int rows) {
#pragma omp single
  {
    rho = 0;
    residual = 0;
  }
#pragma omp for schedule(static) reduction(+ : rho)
  for (int i = 0; i < rows; ++i) {
    z[i] = 0;
    r[i] = x[i];
    p[i] = x[i];
    rho += x[i] * x[i];
  }
  for (int step = 0; step < solver_steps; ++step) {
#pragma omp single
    {
      rho_before = rho;
      rho = 0;
      p_times_q = 0;
    }
    multiply(rows, p, q);
#pragma omp for schedule(static) reduction(+ : p_times_q)
    for (int i = 0; i < rows; ++i) p_times_q += p[i] * q[i];
    const double alpha = rho_before / p_times_q;
#pragma omp for schedule(static) reduction(+ : rho)
    for (int i = 0; i < rows; ++i) {
      z[i] += alpha * p[i];
      r[i] -= alpha * q[i];
      rho += r[i] * r[i];
    }
    const double beta = rho / rho_before;
#pragma omp for schedule(static)
    for (int i = 0; i < rows; ++i) p[i] = r[i] + beta * p[i];
  }
  multiply(rows, z, r);
#pragma omp for schedule(static) reduction(+ : residual)
  for (int i = 0; i < rows; ++i) residual += (x[i] - r[i]) * (x[i] - r[i]);
}

/* x = z / ||z|| where A z = x. */
static void iterate(int rows) {
  solve(rows);
#pragma omp single
  {
    x_times_z = 0;
    z_times_z = 0;
  }
#pragma omp for schedule(static) reduction(+ : x_times_z, z_times_z)
  for (int i = 0; i < rows; ++i) {
    x_times_z += x[i] * z[i];
    z_times_z += z[i] * z[i];
  }
  const double factor = 1 / sqrt(z_times_z);
#pragma omp for schedule(static)
  for (int i = 0; i < rows; ++i) x[i] = factor * z[i];
}

static void start_from_ones(int rows) {
#pragma omp for schedule(static)
  for (int i = 0; i < rows; ++i) x[i] = 1;
}

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const int rows = problems[class_index].rows;
  const int drawn = problems[class_index].drawn;
  const int iterations = problems[class_index].iterations;
  const double shift = problems[class_index].shift;
  draw_vectors(rows, drawn);
  find_holders(rows);
  fill_rows(rows, shift);

  double start = 0;
#pragma omp parallel
  {
    start_from_ones(rows);
    iterate(rows); /* not timed: touches all pages */
    start_from_ones(rows);
#pragma omp single
    start = omp_get_wtime();
    for (int iteration = 0; iteration < iterations; ++iteration) iterate(rows);
  }
  const double seconds = omp_get_wtime() - start;

  printf("  %d rows, %d elements, last residual %.2e\n", rows, row_starts[rows], sqrt(residual));
  const bool verified = npb_matches("zeta", shift + 1 / x_times_z, problems[class_index].zeta, 1e-10);
  const double row_work = drawn * (drawn + 1);
  const double operations = 2.0 * iterations * rows * (3 + row_work + solver_steps * (5 + row_work) + 3);
  return npb_report("CG", class_index, iterations, seconds, operations * 1e-6, verified);
}
