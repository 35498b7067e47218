// A matrix product, C = A B, in square tiles.
//
// Argument: rows of the square matrices. They are C++ vectors; tiles of C go to the threads, row by row of
// tiles. Checked with random vectors x: C x against A (B x).
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/program.h"

namespace {

constexpr std::size_t tile_side = 64;

class Matrix {
 public:
  explicit Matrix(std::size_t side) : side_(side), values_(side * side) {}

  std::size_t side() const { return side_; }
  double* operator[](std::size_t row) { return values_.data() + row * side_; }
  const double* operator[](std::size_t row) const { return values_.data() + row * side_; }

 private:
  std::size_t side_;
  std::vector<double> values_;
};

double noise(std::uint64_t number) {
  return program_fraction(program_mix(number)) - 0.5;
}

void fill(Matrix& matrix, std::uint64_t seed) {
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < matrix.side(); ++row) {
    for (std::size_t column = 0; column < matrix.side(); ++column) {
      matrix[row][column] = noise(seed + row * matrix.side() + column);
    }
  }
}

void add_tile(const Matrix& a, const Matrix& b, Matrix& c, std::size_t top, std::size_t left,
              std::size_t inner) {
  const std::size_t bottom = std::min(top + tile_side, c.side());
  const std::size_t right = std::min(left + tile_side, c.side());
  const std::size_t inner_end = std::min(inner + tile_side, c.side());
  for (std::size_t i = top; i < bottom; ++i) {
    double* const to = c[i];
    for (std::size_t k = inner; k < inner_end; ++k) {
      const double factor = a[i][k];
      const double* const from = b[k];
      for (std::size_t j = left; j < right; ++j) to[j] += factor * from[j];
    }
  }
}

void multiply(const Matrix& a, const Matrix& b, Matrix& c) {
  const std::size_t side = c.side();
#pragma omp parallel for collapse(2) schedule(static)
  for (std::size_t top = 0; top < side; top += tile_side) {
    for (std::size_t left = 0; left < side; left += tile_side) {
      for (std::size_t inner = 0; inner < side; inner += tile_side) add_tile(a, b, c, top, left, inner);
    }
  }
}

std::vector<double> times(const Matrix& matrix, const std::vector<double>& vector) {
  std::vector<double> product(vector.size());
#pragma omp parallel for schedule(static)
  for (std::size_t row = 0; row < vector.size(); ++row) {
    double sum = 0;
    for (std::size_t column = 0; column < vector.size(); ++column)
      sum += matrix[row][column] * vector[column];
    product[row] = sum;
  }
  return product;
}

double greatest_difference(const std::vector<double>& left, const std::vector<double>& right) {
  double greatest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) greatest = std::max(greatest, std::abs(left[i] - right[i]));
  return greatest;
}

}  // namespace

int main(int argc, char** argv) {
  const long size = program_size(argc, argv, 1024, 1, 65536);
  const auto side = static_cast<std::size_t>(size);
  Matrix a(side);
  Matrix b(side);
  Matrix c(side);
  fill(a, 1);
  fill(b, UINT64_C(1) << 40);

  const double start = omp_get_wtime();
  multiply(a, b, c);
  const double seconds = omp_get_wtime() - start;

  bool verified = true;
  for (std::uint64_t test = 0; test < 3; ++test) {
    std::vector<double> vector(side);
    for (std::size_t i = 0; i < side; ++i) vector[i] = noise((UINT64_C(2) << 40) + test * side + i);
    const double difference = greatest_difference(times(c, vector), times(a, times(b, vector)));
    const bool matches = difference <= 1e-14 * static_cast<double>(size);  // rounding grows slower than that
    std::printf("  C x and A (B x) differ by %.1e%s\n", difference, matches ? "" : " TOO MUCH");
    verified &= matches;
  }
  const double operations =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  return program_report("matmul", size, seconds, operations / seconds * 1e-9, "Gflop/s", verified);
}
