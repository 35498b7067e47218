#include "base/runs.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace craton {

namespace {

using Runs = std::vector<std::vector<int>>;

Runs runs_of(const std::vector<int>& numbers) {
  Runs runs;
  for_runs(std::span(numbers), [&](std::span<const int> run) { runs.emplace_back(run.begin(), run.end()); });
  return runs;
}

TEST(Runs, AreOfNumbersThatFollowEachOther) {
  EXPECT_EQ(runs_of({}), Runs());
  EXPECT_EQ(runs_of({7}), Runs({{7}}));
  EXPECT_EQ(runs_of({1, 2, 3}), Runs({{1, 2, 3}}));
  EXPECT_EQ(runs_of({1, 2, 4, 4, 5, 3}), Runs({{1, 2}, {4}, {4, 5}, {3}}));
}

TEST(Runs, AreOfWhatBelongsTogether) {
  const std::vector<int> numbers{2, 4, 1, 3, 6};
  Runs runs;
  for_runs(
      std::span(numbers), [](int before, int number) { return before % 2 == number % 2; },
      [&](std::span<const int> run) { runs.emplace_back(run.begin(), run.end()); });
  EXPECT_EQ(runs, Runs({{2, 4}, {1, 3}, {6}}));
}

}  // namespace

}  // namespace craton
