/* NPB BT: the flow problem of common/flow.h, with 5x5 blocks in three tridiagonal sweeps a step.
 *
 * RNR-94-007, section 3.5 ("block tridiagonal"). Memory: allocated by class. Parallel: one region holds all
 * steps; planes k go in static blocks, but lines along k are solved by blocks of j. */
#include "common/flow.h"
#include "common/npb.h"

enum { most_points = 102 };

static const struct {
  int points, iterations;
  double step;
  state residuals, errors;
} problems[] = {
    {12,
     60,
     0.010,
     {1.7034283709541311e-01, 1.2975252070034097e-02, 3.2527926989486055e-02, 2.6436421275166801e-02,
      1.9211784131744430e-01},
     {4.9976913345811579e-04, 4.5195666782961927e-05, 7.3973765172921357e-05, 7.3821238632439731e-05,
      8.9269630987491446e-04}},
    {24,
     200,
     0.0008,
     {0.1125590409344e+03, 0.1180007595731e+02, 0.2710329767846e+02, 0.2469174937669e+02,
      0.2638427874317e+03},
     {0.4419655736008e+01, 0.4638531260002e+00, 0.1011551749967e+01, 0.9235878729944e+00,
      0.1018045837718e+02}},
    {64,
     200,
     0.0008,
     {1.0806346714637264e+02, 1.1319730901220813e+01, 2.5974354511582465e+01, 2.3665622544678910e+01,
      2.5278963211748344e+02},
     {4.2348416040525025e+00, 4.4390282496995698e-01, 9.6692480136345650e-01, 8.8302063039765474e-01,
      9.7379901770829278e+00}},
    {102,
     200,
     0.0003,
     {1.4233597229287254e+03, 9.9330522590150238e+01, 3.5646025644535285e+02, 3.2485447959084092e+02,
      3.2707541254659363e+03},
     {5.2969847140936856e+01, 4.4632896115670668e+00, 1.3122573342210174e+01, 1.2006925323559144e+01,
      1.2459576151035986e+02}},
};

static int n; /* points on a side */
static double step;
static state* u;
static state* forcing; /* minus what the fluxes make of the exact solution */
static state* change;  /* right side, then what is added to u; zero on the boundary */
static primitives* prims;
static state sums;

static ptrdiff_t point(int i, int j, int k) {
  return i + (ptrdiff_t)n * (j + (ptrdiff_t)n * k);
}

static double coordinate(int i) {
  return (double)i / (n - 1);
}

static bool is_inner(int i) {
  return i > 0 && i < n - 1;
}

static void start_from(void (*state_at)(double, double, double, state)) {
#pragma omp for schedule(static)
  for (int k = 0; k < n; ++k) {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        const bool inner = is_inner(i) && is_inner(j) && is_inner(k);
        (inner ? state_at : exact_state)(coordinate(i), coordinate(j), coordinate(k), u[point(i, j, k)]);
      }
    }
  }
}

/* change = factor * (forcing + fluxes of u). */
static void compute_change(double factor) {
#pragma omp for schedule(static)
  for (int k = 0; k < n; ++k) {
    for (ptrdiff_t at = point(0, 0, k); at < point(0, 0, k + 1); ++at) prims[at] = primitives_of(u[at]);
  }
#pragma omp for schedule(static)
  for (int k = 1; k < n - 1; ++k) {
    for (int j = 1; j < n - 1; ++j) {
      for (int i = 1; i < n - 1; ++i) {
        const ptrdiff_t at = point(i, j, k);
        const ptrdiff_t strides[directions] = {1, n, (ptrdiff_t)n * n};
        const int places[directions] = {i, j, k};
        state sum;
        memcpy(sum, forcing[at], sizeof sum);
        for (int d = 0; d < directions; ++d) {
          add_fluxes(d, n - 1, u + at, prims + at, strides[d], sum);
          add_dissipation(places[d], n, u + at, strides[d], sum);
        }
        for (int m = 0; m < components; ++m) change[at][m] = factor * sum[m];
      }
    }
  }
}

/* Also the first touch of all arrays, by the threads that own the planes. */
static void prepare(void) {
#pragma omp for schedule(static)
  for (int k = 0; k < n; ++k) {
    memset(forcing[point(0, 0, k)], 0, (size_t)n * (size_t)n * sizeof *forcing);
    memset(change[point(0, 0, k)], 0, (size_t)n * (size_t)n * sizeof *change);
  }
  start_from(exact_state);
  compute_change(1);
#pragma omp for schedule(static)
  for (int k = 1; k < n - 1; ++k) {
    for (ptrdiff_t at = point(0, 0, k); at < point(0, 0, k + 1); ++at) {
      for (int m = 0; m < components; ++m) forcing[at][m] = -change[at][m];
    }
  }
  start_from(initial_state);
}

typedef double block[components][components];

/* Solves diagonal [X y] = [right vector], in place of both. */
static void solve_block(block diagonal, block right, state vector) {
  for (int pivot = 0; pivot < components; ++pivot) {
    const double inverse = 1 / diagonal[pivot][pivot];
    for (int c = pivot + 1; c < components; ++c) diagonal[pivot][c] *= inverse;
    for (int c = 0; c < components; ++c) right[pivot][c] *= inverse;
    vector[pivot] *= inverse;
    for (int m = 0; m < components; ++m) {
      if (m == pivot) continue;
      const double factor = diagonal[m][pivot];
      for (int c = pivot + 1; c < components; ++c) diagonal[m][c] -= factor * diagonal[pivot][c];
      for (int c = 0; c < components; ++c) right[m][c] -= factor * right[pivot][c];
      vector[m] -= factor * vector[pivot];
    }
  }
}

/* vector -= left * before, and diagonal -= left * before_right: eliminates the block left of the diagonal. */
static void eliminate(block left, block before_right, state before, block diagonal, state vector) {
  for (int m = 0; m < components; ++m) {
    for (int inner = 0; inner < components; ++inner) {
      vector[m] -= left[m][inner] * before[inner];
      for (int c = 0; c < components; ++c) diagonal[m][c] -= left[m][inner] * before_right[inner][c];
    }
  }
}

/* Solves the line of inner points from `first` on; the change on the boundary is zero, so its rows fall away.
 */
static inline void solve_line(int direction, ptrdiff_t first, ptrdiff_t stride) {
  const double half = step * (n - 1) / 2;
  const double square = step * (n - 1) * (n - 1);
  block right[most_points];
  block convective[3], viscous[3]; /* of a point and its neighbours: turns of three */
  for (int i = 0; i < 2; ++i) {
    const ptrdiff_t at = first + (i - 1) * stride;
    jacobians(direction, u[at], &prims[at], convective[i], viscous[i]);
  }
  for (int i = 1; i < n - 1; ++i) {
    const ptrdiff_t at = first + (i - 1) * stride;
    const int before = (i - 1) % 3;
    const int here = i % 3;
    const int after = (i + 1) % 3;
    jacobians(direction, u[at + stride], &prims[at + stride], convective[after], viscous[after]);
    block left, diagonal;
    for (int m = 0; m < components; ++m) {
      for (int c = 0; c < components; ++c) {
        const double unit = m == c ? 1 : 0;
        const double spread = unit * diffusion(direction);
        left[m][c] = -half * convective[before][m][c] - square * (viscous[before][m][c] + spread);
        diagonal[m][c] = unit + 2 * square * (viscous[here][m][c] + spread);
        right[i][m][c] = half * convective[after][m][c] - square * (viscous[after][m][c] + spread);
      }
    }
    if (i > 1) eliminate(left, right[i - 1], change[at - stride], diagonal, change[at]);
    solve_block(diagonal, right[i], change[at]);
  }
  for (int i = n - 3; i > 0; --i) {
    const ptrdiff_t at = first + (i - 1) * stride;
    for (int m = 0; m < components; ++m) {
      for (int c = 0; c < components; ++c) change[at][m] -= right[i][m][c] * change[at + stride][c];
    }
  }
}

static void advance(void) {
  compute_change(step);
#pragma omp for schedule(static)
  for (int k = 1; k < n - 1; ++k) {
    for (int j = 1; j < n - 1; ++j) solve_line(0, point(1, j, k), 1);
    for (int i = 1; i < n - 1; ++i) solve_line(1, point(i, 1, k), n);
  }
#pragma omp for schedule(static)
  for (int j = 1; j < n - 1; ++j) {
    for (int i = 1; i < n - 1; ++i) solve_line(2, point(i, j, 1), (ptrdiff_t)n * n);
  }
#pragma omp for schedule(static)
  for (int k = 1; k < n - 1; ++k) {
    for (ptrdiff_t at = point(0, 0, k); at < point(0, 0, k + 1); ++at) {
      for (int m = 0; m < components; ++m) u[at][m] += change[at][m];
    }
  }
}

static bool compare(const char* what, const state expected) {
  const double inner_points = (double)(n - 2) * (n - 2) * (n - 2);
  bool matches = true;
  for (int m = 0; m < components; ++m) {
    char name[32];
    snprintf(name, sizeof name, "%s %d", what, m + 1);
    matches &= npb_matches(name, sqrt(sums[m] / inner_points), expected[m], 1e-8);
  }
  return matches;
}

static void sum_residuals(void) {
  double all[components] = {
      0};  // not sums itself: clang 14 gives threads no parts of their own of a global array
#pragma omp parallel for schedule(static) reduction(+ : all[:components])
  for (int k = 1; k < n - 1; ++k) {
    for (ptrdiff_t at = point(0, 0, k); at < point(0, 0, k + 1); ++at) {
      for (int m = 0; m < components; ++m) all[m] += change[at][m] * change[at][m];
    }
  }
  memcpy(sums, all, sizeof sums);
}

static void sum_errors(void) {
  double all[components] = {
      0};  // not sums itself: clang 14 gives threads no parts of their own of a global array
#pragma omp parallel for schedule(static) reduction(+ : all[:components])
  for (int k = 0; k < n; ++k) {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < n; ++i) {
        state exact;
        exact_state(coordinate(i), coordinate(j), coordinate(k), exact);
        const double* const found = u[point(i, j, k)];
        for (int m = 0; m < components; ++m) all[m] += (found[m] - exact[m]) * (found[m] - exact[m]);
      }
    }
  }
  memcpy(sums, all, sizeof sums);
}

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const int iterations = problems[class_index].iterations;
  n = problems[class_index].points;
  step = problems[class_index].step;
  const size_t points = (size_t)n * (size_t)n * (size_t)n;
  u = npb_allocate(points, sizeof *u);
  forcing = npb_allocate(points, sizeof *forcing);
  change = npb_allocate(points, sizeof *change);
  prims = npb_allocate(points, sizeof *prims);

  double start = 0;
#pragma omp parallel
  {
    prepare();
    advance(); /* not timed: touches all pages */
    start_from(initial_state);
#pragma omp single
    start = omp_get_wtime();
    for (int iteration = 0; iteration < iterations; ++iteration) advance();
#pragma omp barrier
  }
  const double seconds = omp_get_wtime() - start;

#pragma omp parallel
  compute_change(1);
  sum_residuals();
  bool verified = compare("residual", problems[class_index].residuals);
  sum_errors();
  verified &= compare("error", problems[class_index].errors);
  const double side = n;
  const double operations = 3478.8 * side * side * side - 17655.7 * side * side + 28023.7 * side;
  free(u);
  free(forcing);
  free(change);
  free(prims);
  return npb_report("BT", class_index, iterations, seconds, operations * 1e-6 * iterations, verified);
}
