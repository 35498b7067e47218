/* The flow problem that NPB's simulated applications solve: compressible Navier-Stokes on the unit cube,
 * forced so that polynomials are the steady solution. RNR-94-007, section 3.2 to 3.4; common/flow.f90 says
 * the same in Fortran.
 *
 * A state is density, three momenta and energy. Point (i, j, k) of n^3 has index i + n (j + n k); a direction
 * is 0, 1 or 2 and has the stride 1, n or n^2, so that one text serves all three. */
#ifndef CRATON_BENCH_APPS_FLOW_H
#define CRATON_BENCH_APPS_FLOW_H

#include <stddef.h>

enum { components = 5, directions = 3, energy = 4 };

typedef double state[components];

/* What many formulas need of a state: 1 / density, velocities, kinetic energy / density. */
typedef struct {
  double inverse_density;
  double velocity[directions];
  double kinetic;
} primitives;

static const double c1 = 1.4, c2 = 0.4, c3c4 = 0.1, c1c5 = 1.96, flow_dissipation = 0.25,
                    four_thirds = 4.0 / 3;

/* The second differences' weight of a direction, for all components. */
static inline double diffusion(int direction) {
  return direction == 2 ? 1.0 : 0.75;
}

static inline void exact_state(double x, double y, double z, state exact) {
  static const double coefficients[components][13] = {
      {2, 0, 0, 4, 5, 3, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
      {1, 0, 0, 0, 1, 2, 3, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
      {2, 2, 0, 0, 0, 2, 3, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
      {2, 2, 0, 0, 0, 2, 3, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
      {5, 4, 3, 2, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
  };
  for (int m = 0; m < components; ++m) {
    const double* const c = coefficients[m];
    exact[m] = c[0] + x * (c[1] + x * (c[4] + x * (c[7] + x * c[10]))) +
               y * (c[2] + y * (c[5] + y * (c[8] + y * c[11]))) +
               z * (c[3] + z * (c[6] + z * (c[9] + z * c[12])));
  }
}

/* Exact on the boundary; inside, interpolated between the faces. */
static inline void initial_state(double x, double y, double z, state initial) {
  const double place[directions] = {x, y, z};
  double faces[directions][components];
  for (int d = 0; d < directions; ++d) {
    state low, high;
    exact_state(d == 0 ? 0 : x, d == 1 ? 0 : y, d == 2 ? 0 : z, low);
    exact_state(d == 0 ? 1 : x, d == 1 ? 1 : y, d == 2 ? 1 : z, high);
    for (int m = 0; m < components; ++m) faces[d][m] = place[d] * high[m] + (1 - place[d]) * low[m];
  }
  for (int m = 0; m < components; ++m) {
    const double a = faces[0][m];
    const double b = faces[1][m];
    const double c = faces[2][m];
    initial[m] = a + b + c - a * b - a * c - b * c + a * b * c;
  }
}

static inline primitives primitives_of(const state u) {
  primitives p;
  p.inverse_density = 1 / u[0];
  for (int d = 0; d < directions; ++d) p.velocity[d] = u[1 + d] * p.inverse_density;
  p.kinetic = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) * p.inverse_density * p.inverse_density;
  return p;
}

static inline double second_difference(double left, double middle, double right) {
  return right - 2 * middle + left;
}

/* Adds one direction's flux differences at a point, given its neighbours' states and primitives. `cells` is n
 * - 1. */
static inline void add_fluxes(int direction, double cells, state* u, const primitives* p, ptrdiff_t stride,
                              state sum) {
  const double* const ul = u[-stride];
  const double* const um = u[0];
  const double* const ur = u[stride];
  const primitives* const pl = p - stride;
  const primitives* const pr = p + stride;
  const double half = cells / 2;
  const double square = cells * cells;
  const double viscous = c3c4 * square;
  const double normal_l = pl->velocity[direction];
  const double normal_m = p->velocity[direction];
  const double normal_r = pr->velocity[direction];
  const double pressure_l = c2 * (ul[energy] - pl->kinetic * ul[0]);
  const double pressure_r = c2 * (ur[energy] - pr->kinetic * ur[0]);

  for (int m = 0; m < components; ++m) {
    sum[m] += diffusion(direction) * square * second_difference(ul[m], um[m], ur[m]);
  }
  sum[0] -= half * (ur[1 + direction] - ul[1 + direction]);
  for (int d = 0; d < directions; ++d) {
    sum[1 + d] += viscous * (d == direction ? four_thirds : 1) *
                      second_difference(pl->velocity[d], p->velocity[d], pr->velocity[d]) -
                  half * (ur[1 + d] * normal_r - ul[1 + d] * normal_l);
  }
  sum[1 + direction] -= half * (pressure_r - pressure_l);
  sum[energy] +=
      viscous * ((1 - c1c5) * second_difference(pl->kinetic, p->kinetic, pr->kinetic) +
                 second_difference(normal_l * normal_l, normal_m * normal_m, normal_r * normal_r) / 6 +
                 c1c5 * second_difference(ul[energy] * pl->inverse_density, um[energy] * p->inverse_density,
                                          ur[energy] * pr->inverse_density)) -
      half * ((ur[energy] + pressure_r) * normal_r - (ul[energy] + pressure_l) * normal_l);
}

/* Adds one direction's fourth-order dissipation; `at` is the point's place in the direction, 1 to n - 2. */
static inline void add_dissipation(int at, int n, state* u, ptrdiff_t stride, state sum) {
  for (int m = 0; m < components; ++m) {
    double fourth = (at == 1 || at == n - 2 ? 5 : 6) * u[0][m];
    if (at > 1) fourth -= 4 * u[-stride][m];
    if (at > 2) fourth += u[-2 * stride][m];
    if (at < n - 2) fourth -= 4 * u[stride][m];
    if (at < n - 3) fourth += u[2 * stride][m];
    sum[m] -= flow_dissipation * fourth;
  }
}

/* The derivatives of a direction's flux by the state: convective, and viscous without its difference factor.
 */
static inline void jacobians(int direction, const state u, const primitives* p,
                             double convective[components][components],
                             double viscous[components][components]) {
  const int normal = 1 + direction;
  const double inverse = p->inverse_density;
  const double normal_velocity = p->velocity[direction];
  for (int m = 0; m < components; ++m) {
    for (int c = 0; c < components; ++c) convective[m][c] = viscous[m][c] = 0;
  }
  convective[0][normal] = 1;
  for (int d = 0; d < directions; ++d) {
    const int m = 1 + d;
    const double conduction = c3c4 * (d == direction ? four_thirds : 1) * inverse;
    convective[m][0] = -p->velocity[d] * normal_velocity;
    convective[m][m] += normal_velocity;
    convective[m][normal] += p->velocity[d];
    viscous[m][0] = -conduction * p->velocity[d];
    viscous[m][m] = conduction;
    viscous[energy][m] = (conduction - c3c4 * c1c5 * inverse) * p->velocity[d];
    viscous[energy][0] -= viscous[energy][m] * p->velocity[d];
    convective[normal][m] -= c2 * p->velocity[d];
    convective[energy][m] = -c2 * p->velocity[d] * normal_velocity;
  }
  convective[normal][0] += c2 * p->kinetic;
  convective[normal][energy] = c2;
  convective[energy][0] = (2 * c2 * p->kinetic - c1 * u[energy] * inverse) * normal_velocity;
  convective[energy][normal] += c1 * u[energy] * inverse - c2 * p->kinetic;
  convective[energy][energy] = c1 * normal_velocity;
  viscous[energy][0] -= c3c4 * c1c5 * inverse * inverse * u[energy];
  viscous[energy][energy] = c3c4 * c1c5 * inverse;
}

#endif
