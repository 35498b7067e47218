/* LU factors of a dense matrix, A = L U, by blocks, with pthreads: each block belongs to a thread, by rows
 * and columns in turn, and lies in one piece of memory of 32 KiB, as in LU of SPLASH-2 (Woo et al., ISCA
 * 1995, section 3). Without pivoting, which the matrix does not need: its diagonal is large.
 *
 *   gcc -O2 -pthread factor.c -o factor -lm
 *   ./factor [threads [rows]]        2 threads, 1024 rows
 *
 * Three barriers a step: the diagonal block is factored, then its row and its column, then what is right of
 * and below them. Checked by L (U x) against A x. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { side = 64, block_values = side * side, most_threads = 256, most_rows = 16384 };

static int threads = 2;
static int blocks;  /* in a row */
static int columns; /* of the grid of threads */
static double* matrix;
static pthread_barrier_t meeting;

static double* block(int i, int j) {
  return matrix + ((size_t)i * (size_t)blocks + (size_t)j) * block_values;
}

static int owner(int i, int j) {
  return i % (threads / columns) * columns + j % columns;
}

static double entry(int i, int j) {
  const unsigned mixed = ((unsigned)i * 2654435761u) ^ ((unsigned)j * 2246822519u);
  return (double)((mixed ^ mixed >> 15) % 2001u) / 1000.0 - 1.0 + (i == j ? 2.0 * side * blocks : 0.0);
}

/* a = l u, in place. */
static void factor_diagonal(double* a) {
  for (int k = 0; k < side; ++k) {
    for (int i = k + 1; i < side; ++i) {
      a[i * side + k] /= a[k * side + k];
      for (int j = k + 1; j < side; ++j) a[i * side + j] -= a[i * side + k] * a[k * side + j];
    }
  }
}

/* What is right of the diagonal block: l^-1 a. */
static void solve_row(const double* diagonal, double* a) {
  for (int k = 0; k < side; ++k)
    for (int i = k + 1; i < side; ++i)
      for (int j = 0; j < side; ++j) a[i * side + j] -= diagonal[i * side + k] * a[k * side + j];
}

/* What is below it: a u^-1. */
static void solve_column(const double* diagonal, double* a) {
  for (int i = 0; i < side; ++i) {
    for (int k = 0; k < side; ++k) {
      a[i * side + k] /= diagonal[k * side + k];
      for (int j = k + 1; j < side; ++j) a[i * side + j] -= a[i * side + k] * diagonal[k * side + j];
    }
  }
}

static void subtract_product(const double* left, const double* right, double* a) {
  for (int i = 0; i < side; ++i)
    for (int k = 0; k < side; ++k)
      for (int j = 0; j < side; ++j) a[i * side + j] -= left[i * side + k] * right[k * side + j];
}

static void fill(int self) {
  for (int i = 0; i < blocks; ++i) {
    for (int j = 0; j < blocks; ++j) {
      if (owner(i, j) != self) continue;
      double* const a = block(i, j);
      for (int r = 0; r < side; ++r)
        for (int c = 0; c < side; ++c) a[r * side + c] = entry(i * side + r, j * side + c);
    }
  }
}

static void factor(int self) {
  for (int k = 0; k < blocks; ++k) {
    if (owner(k, k) == self) factor_diagonal(block(k, k));
    pthread_barrier_wait(&meeting);
    for (int i = k + 1; i < blocks; ++i) {
      if (owner(k, i) == self) solve_row(block(k, k), block(k, i));
      if (owner(i, k) == self) solve_column(block(k, k), block(i, k));
    }
    pthread_barrier_wait(&meeting);
    for (int i = k + 1; i < blocks; ++i)
      for (int j = k + 1; j < blocks; ++j)
        if (owner(i, j) == self) subtract_product(block(i, k), block(k, j), block(i, j));
    pthread_barrier_wait(&meeting);
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double begin;

static void* work(void* number) {
  const int self = (int)(size_t)number;
  fill(self);
  const int result = pthread_barrier_wait(&meeting);
  if (result == PTHREAD_BARRIER_SERIAL_THREAD) begin = seconds();
  pthread_barrier_wait(&meeting);
  factor(self);
  return NULL;
}

/* The largest difference of L (U x) and A x, to the largest of A x. */
static double error_of_factors(void) {
  const int rows = blocks * side;
  double* const x = malloc((size_t)rows * 3 * sizeof *x);
  if (x == NULL) return HUGE_VAL;
  double* const ux = x + rows;
  double* const ax = ux + rows;
  for (int i = 0; i < rows; ++i) x[i] = 1.0 + i % 7;
  for (int i = 0; i < rows; ++i) {
    ux[i] = ax[i] = 0;
    for (int j = 0; j < rows; ++j) {
      ax[i] += entry(i, j) * x[j];
      if (j >= i) ux[i] += block(i / side, j / side)[i % side * side + j % side] * x[j];
    }
  }
  double error = 0;
  double largest = 0;
  for (int i = 0; i < rows; ++i) {
    double product = ux[i];
    for (int j = 0; j < i; ++j) product += block(i / side, j / side)[i % side * side + j % side] * ux[j];
    error = fmax(error, fabs(product - ax[i]));
    largest = fmax(largest, fabs(ax[i]));
  }
  free(x);
  return error / largest;
}

static int number_of(const char* text, int most) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(text, &end, 10);
  return end == text || *end != '\0' || errno != 0 || number < 1 || number > most ? 0 : (int)number;
}

int main(int count, char** arguments) {
  int rows = 1024;
  if (count > 1) threads = number_of(arguments[1], most_threads);
  if (count > 2) rows = number_of(arguments[2], most_rows);
  if (count > 3 || threads == 0 || rows == 0) {
    fprintf(stderr, "%s [threads [rows]]: at most %d and %d\n", arguments[0], most_threads, most_rows);
    return 2;
  }
  blocks = (rows + side - 1) / side;
  rows = blocks * side;
  columns = (int)sqrt(threads);
  while (threads % columns != 0) --columns;
  matrix = aligned_alloc(4096, (size_t)rows * (size_t)rows * sizeof *matrix);
  pthread_t* const started = malloc((size_t)threads * sizeof *started);
  if (matrix == NULL || started == NULL) {
    fputs("cannot allocate the matrix\n", stderr);
    return 1;
  }
  pthread_barrier_init(&meeting, NULL, (unsigned)threads);
  for (int i = 0; i < threads; ++i) {
    const int error = pthread_create(&started[i], NULL, &work, (void*)(size_t)i);
    if (error == 0) continue;
    errno = error;
    perror("pthread_create");
    return 1;
  }
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  const double time = seconds() - begin;
  const double error = error_of_factors();
  printf("LU of %d rows: %d threads, %.3f s, %.2f Gflop/s, error %.1e\n", rows, threads, time,
         2.0 / 3.0 * rows * rows * (double)rows / time * 1e-9, error);
  puts(error < 1e-12 ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  pthread_barrier_destroy(&meeting);
  free(started);
  free(matrix);
  return error < 1e-12 ? 0 : 1;
}
