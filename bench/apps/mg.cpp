// NPB MG: V-cycles for the Poisson equation on a periodic cube, with twenty point charges.
//
// RNR-94-007, section 2.2.2. Grids have a layer of copies ("ghosts") around them:
//
//   plane 0    1  2 ... n    n+1         plane 0 is a copy of plane n, n+1 one of 1; rows and points likewise
//
// Memory: C++ vectors, so one thread touches all pages first. Parallel: one region holds all iterations;
// planes go in static blocks at every level.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/npb.h"

namespace {

constexpr int most_points = 256;
constexpr int most_side = most_points + 2;
constexpr int charges = 10;  // of either sign

struct Problem {
  int points, iterations;
  double norm;
  std::array<double, 3> smoother;  // for the point itself, the 6 beside it, and the 12 at the edges
};
const std::array<Problem, 4> problems = {{
    {32, 4, 0.5307707005734e-04, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {128, 4, 0.6467329375339e-05, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {256, 4, 0.2433365309069e-05, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {256, 20, 0.1800564401355e-05, {-3.0 / 17, 1.0 / 33, -1.0 / 61}},
}};

class Grid {
 public:
  explicit Grid(int points)
      : points_(points), side_(static_cast<std::size_t>(points) + 2), values_(side_ * side_ * side_) {}

  int points() const { return points_; }
  double* row(int plane, int row) {
    return values_.data() + (static_cast<std::size_t>(plane) * side_ + static_cast<std::size_t>(row)) * side_;
  }
  const double* row(int plane, int row) const { return const_cast<Grid*>(this)->row(plane, row); }

  // Copies within a plane, by the thread that wrote it.
  void wrap_plane(int plane) {
    for (int j = 1; j <= points_; ++j) {
      double* const values = row(plane, j);
      values[0] = values[points_];
      values[points_ + 1] = values[1];
    }
    std::copy_n(row(plane, points_), side_, row(plane, 0));
    std::copy_n(row(plane, 1), side_, row(plane, points_ + 1));
  }

  // Copies of whole planes, by a team, after all planes are written.
  void wrap_ends() {
#pragma omp for schedule(static)
    for (int j = 0; j <= points_ + 1; ++j) {
      std::copy_n(row(points_, j), side_, row(0, j));
      std::copy_n(row(1, j), side_, row(points_ + 1, j));
    }
  }

  void clear() {
#pragma omp for schedule(static)
    for (int k = 0; k <= points_ + 1; ++k) std::fill_n(row(k, 0), side_ * side_, 0.0);
  }

 private:
  int points_;
  std::size_t side_;
  std::vector<double> values_;
};

// For each point of a row with its ghosts: the sums over the 4 rows beside this one and the 4 at its edges.
struct Sums {
  double beside[most_side];
  double edges[most_side];

  void add_up(const Grid& grid, int k, int j) {
    const double* const north = grid.row(k, j - 1);
    const double* const south = grid.row(k, j + 1);
    const double* const below = grid.row(k - 1, j);
    const double* const above = grid.row(k + 1, j);
    const double* const below_north = grid.row(k - 1, j - 1);
    const double* const below_south = grid.row(k - 1, j + 1);
    const double* const above_north = grid.row(k + 1, j - 1);
    const double* const above_south = grid.row(k + 1, j + 1);
    for (int i = 0; i <= grid.points() + 1; ++i) {
      beside[i] = north[i] + south[i] + below[i] + above[i];
      edges[i] = below_north[i] + below_south[i] + above_north[i] + above_south[i];
    }
  }
};

// result = right - A solution, with A's weights -8/3, 0, 1/6, 1/12. `right` may be `result`.
void residual(const Grid& solution, const Grid& right, Grid& result) {
  const int points = result.points();
  Sums sums;
#pragma omp for schedule(static)
  for (int k = 1; k <= points; ++k) {
    for (int j = 1; j <= points; ++j) {
      sums.add_up(solution, k, j);
      const double* const middle = solution.row(k, j);
      const double* const from = right.row(k, j);
      double* const to = result.row(k, j);
      for (int i = 1; i <= points; ++i) {
        to[i] = from[i] + 8.0 / 3 * middle[i] -
                1.0 / 6 * (sums.edges[i] + sums.beside[i - 1] + sums.beside[i + 1]) -
                1.0 / 12 * (sums.edges[i - 1] + sums.edges[i + 1]);
      }
    }
    result.wrap_plane(k);
  }
  result.wrap_ends();
}

// solution += S rest.
void smooth(const std::array<double, 3>& weights, const Grid& rest, Grid& solution) {
  const int points = solution.points();
  Sums sums;
#pragma omp for schedule(static)
  for (int k = 1; k <= points; ++k) {
    for (int j = 1; j <= points; ++j) {
      sums.add_up(rest, k, j);
      const double* const middle = rest.row(k, j);
      double* const to = solution.row(k, j);
      for (int i = 1; i <= points; ++i) {
        to[i] += weights[0] * middle[i] + weights[1] * (middle[i - 1] + middle[i + 1] + sums.beside[i]) +
                 weights[2] * (sums.edges[i] + sums.beside[i - 1] + sums.beside[i + 1]);
      }
    }
    solution.wrap_plane(k);
  }
  solution.wrap_ends();
}

// coarse = P fine, with P's weights 1/2, 1/4, 1/8, 1/16 around the point of twice the index.
void restrict_to(const Grid& fine, Grid& coarse) {
  const int points = coarse.points();
  Sums sums;
#pragma omp for schedule(static)
  for (int k = 1; k <= points; ++k) {
    for (int j = 1; j <= points; ++j) {
      sums.add_up(fine, 2 * k, 2 * j);
      const double* const middle = fine.row(2 * k, 2 * j);
      double* const to = coarse.row(k, j);
      for (int i = 1; i <= points; ++i) {
        const int at = 2 * i;
        to[i] = 1.0 / 2 * middle[at] + 1.0 / 4 * (middle[at - 1] + middle[at + 1] + sums.beside[at]) +
                1.0 / 8 * (sums.edges[at] + sums.beside[at - 1] + sums.beside[at + 1]) +
                1.0 / 16 * (sums.edges[at - 1] + sums.edges[at + 1]);
      }
    }
    coarse.wrap_plane(k);
  }
  coarse.wrap_ends();
}

// Adds to one row of the fine grid: what lies between the coarse rows listed is their mean.
void interpolate_row(const std::array<const double*, 4>& coarse, int coarse_points, double* fine) {
  const auto mean = [&coarse](int i) {
    return (coarse[0][i] + coarse[1][i] + coarse[2][i] + coarse[3][i]) / 4;
  };
  for (int i = 0; i <= coarse_points; ++i) {
    fine[2 * i] += mean(i);
    fine[2 * i + 1] += (mean(i) + mean(i + 1)) / 2;
  }
}

// fine += Q coarse, trilinear; ghosts too.
void interpolate(const Grid& coarse, Grid& fine) {
  const int points = coarse.points();
#pragma omp for schedule(static)
  for (int k = 0; k <= fine.points() + 1; ++k) {
    for (int j = 0; j <= fine.points() + 1; ++j) {
      const int below = k / 2;
      const int above = (k + 1) / 2;
      const int north = j / 2;
      const int south = (j + 1) / 2;
      interpolate_row({coarse.row(below, north), coarse.row(below, south), coarse.row(above, north),
                       coarse.row(above, south)},
                      points, fine.row(k, j));
    }
  }
}

// The levels have 2, 4, ... points on a side; the last is the whole problem.
struct Levels {
  std::vector<Grid> solution;
  std::vector<Grid> rest;
};

void cycle(const std::array<double, 3>& weights, const Grid& right, Levels& levels) {
  const std::size_t top = levels.rest.size() - 1;
  for (std::size_t level = top; level > 0; --level) restrict_to(levels.rest[level], levels.rest[level - 1]);
  for (std::size_t level = 0; level <= top; ++level) {
    Grid& solution = levels.solution[level];
    if (level < top) solution.clear();
    if (level > 0) {
      interpolate(levels.solution[level - 1], solution);
      residual(solution, level == top ? right : levels.rest[level], levels.rest[level]);
    }
    smooth(weights, levels.rest[level], solution);
  }
}

double norm(const Grid& grid) {
  const int points = grid.points();
  double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (int k = 1; k <= points; ++k) {
    for (int j = 1; j <= points; ++j) {
      const double* const values = grid.row(k, j);
      for (int i = 1; i <= points; ++i) sum += values[i] * values[i];
    }
  }
  return std::sqrt(sum / (static_cast<double>(points) * points * points));
}

using Charge = std::pair<double, std::int64_t>;  // a random number and its place

// Keeps the ten that come first.
template <typename Order>
void keep(std::vector<Charge>& kept, const Charge& charge, Order order) {
  if (kept.size() == charges && !order(charge, kept.back())) return;
  kept.insert(std::upper_bound(kept.begin(), kept.end(), charge, order), charge);
  if (kept.size() > charges) kept.pop_back();
}

// -1 where the ten smallest of n^3 random numbers lie, +1 where the ten largest do, else 0.
void place_charges(Grid& grid) {
  const int points = grid.points();
  const std::int64_t plane_points = static_cast<std::int64_t>(points) * points;
  std::vector<Charge> smallest;
  std::vector<Charge> largest;
#pragma omp parallel
  {
    std::vector<Charge> own_smallest;
    std::vector<Charge> own_largest;
#pragma omp for schedule(static) nowait
    for (int k = 0; k < points; ++k) {
      std::uint64_t state = npb_random_skip(npb_seed, static_cast<std::uint64_t>(k * plane_points));
      for (std::int64_t at = k * plane_points; at < (k + 1) * plane_points; ++at) {
        const Charge charge(npb_random(&state), at);
        keep(own_smallest, charge, std::less<>());
        keep(own_largest, charge, std::greater<>());
      }
    }
#pragma omp critical
    {
      for (const Charge& charge : own_smallest) keep(smallest, charge, std::less<>());
      for (const Charge& charge : own_largest) keep(largest, charge, std::greater<>());
    }
#pragma omp barrier
    grid.clear();
#pragma omp single
    for (const auto& [kept, sign] : {std::pair(&smallest, -1.0), std::pair(&largest, 1.0)}) {
      for (const Charge& charge : *kept) {
        const auto plane = static_cast<int>(charge.second / plane_points);
        const auto in_plane = static_cast<int>(charge.second % plane_points);
        grid.row(plane + 1, in_plane / points + 1)[in_plane % points + 1] = sign;
      }
    }
#pragma omp for schedule(static)
    for (int k = 1; k <= points; ++k) grid.wrap_plane(k);
    grid.wrap_ends();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const Problem& problem = problems[static_cast<std::size_t>(class_index)];
  Grid right(problem.points);
  Levels levels;
  for (int points = 2; points <= problem.points; points *= 2) {
    levels.solution.emplace_back(points);
    levels.rest.emplace_back(points);
  }
  Grid& solution = levels.solution.back();
  Grid& rest = levels.rest.back();
  place_charges(right);

  double start = 0;
#pragma omp parallel
  {
    residual(solution, right, rest);
    cycle(problem.smoother, right, levels);  // not timed: touches all pages
    solution.clear();
#pragma omp single
    start = omp_get_wtime();
    residual(solution, right, rest);
    for (int iteration = 0; iteration < problem.iterations; ++iteration) {
      cycle(problem.smoother, right, levels);
      residual(solution, right, rest);
    }
  }
  const double seconds = omp_get_wtime() - start;

  const bool verified = npb_matches("norm of the residual", norm(rest), problem.norm, 1e-8);
  return npb_report("MG", class_index, problem.iterations, seconds,
                    58e-6 * problem.iterations * problem.points * problem.points * problem.points, verified);
}
