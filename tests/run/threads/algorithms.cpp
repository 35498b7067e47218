/// \file
/// Parallel algorithms of C++17's library, whose threads are TBB's. Says what they came to.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <execution>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

int main() {
  constexpr std::size_t count = 200'000;
  std::vector<double> values(count);
  std::mt19937 draw(3);
  for (double& value : values) value = static_cast<double>(draw() % 1'000'000);
  std::vector<double> waves(count);
  const auto wave = [](double value) {
    double sum = 0;
    for (int i = 1; i < 30; ++i) sum += std::sin(value * i) / i;
    return std::floor(sum * 1e6);
  };
  std::transform(std::execution::par, values.begin(), values.end(), waves.begin(), wave);
  const double sum = std::reduce(std::execution::par, waves.begin(), waves.end());
  std::sort(std::execution::par, values.begin(), values.end());
  std::vector<double> sums(count);
  std::inclusive_scan(std::execution::par, values.begin(), values.end(), sums.begin());
  const auto sevenths = std::count_if(std::execution::par, values.begin(), values.end(),
                                      [](double value) { return std::fmod(value, 7) == 0; });
  std::printf("sum %.0f, %s, all %.0f, %td\n", sum,
              std::is_sorted(values.begin(), values.end()) ? "sorted" : "not sorted", sums.back(), sevenths);
  return 0;
}
