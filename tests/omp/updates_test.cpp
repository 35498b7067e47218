/// \file
/// Parts of reductions that threads put off until they meet.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <bit>
#include <string>

#include "omp/process.hpp"
#include "omp_ranks.hpp"

namespace craton::omp::test {

namespace {

constexpr int rounds = 100;

struct Shared {
  std::array<double, 2> sums;
  std::array<std::uint32_t, 80> words;
  std::array<long, 64> wrong;  ///< of a thread
  int round;
};
Shared* shared = nullptr;

constexpr Arithmetic of_reals{.operation = Arithmetic::Operation::add, .is_floating = true, .bytes = 8};
constexpr Arithmetic of_words{.operation = Arithmetic::Operation::bit_xor, .is_floating = false, .bytes = 4};

bool put_off(double& variable, double part) {
  return runtime()->updates().put_off(&variable, of_reals, std::bit_cast<std::uint64_t>(part));
}

class Updates : public testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(const Job&)>& body) {
    EXPECT_EQ(run_program(GetParam(), {}, reinterpret_cast<void**>(&shared), sizeof(Shared), body), "");
  }
};

void check_all_right(const Job& job) {
  for (std::size_t i = 0; i < shape().size(); ++i)
    job.check(shared->wrong[i] == 0, "thread " + std::to_string(i) + " saw another sum");
}

TEST_P(Updates, AreSeenByAllAfterABarrier) {
  run([](const Job& job) {
#pragma omp parallel
    {
      const int self = omp_get_thread_num();
      const int team = omp_get_num_threads();
      double expected = 0;
      for (int round = 0; round < rounds; ++round) {
        // All of them, none, or one that moves on.
        const bool takes_part = round % 3 == 0 || (round % 3 == 1 && round / 3 % team == self);
        if (takes_part && !put_off(shared->sums[0], self + 1)) ++shared->wrong[self];
        if (round % 3 == 0) expected += team * (team + 1) / 2;
        if (round % 3 == 1) expected += round / 3 % team + 1;
#pragma omp barrier
        if (shared->sums[0] != expected) ++shared->wrong[self];
#pragma omp barrier
      }
    }
    check_all_right(job);
  });
}

TEST_P(Updates, AreThereAtTheEndOfTheRegion) {
  run([](const Job& job) {
    double expected = 0;
    for (int round = 0; round < rounds; ++round) {
      shared->round = round;
#pragma omp parallel
      {
        const int self = omp_get_thread_num();
        const bool takes_part = shared->round % 2 == 0 || shared->round / 2 % omp_get_num_threads() == self;
        if (takes_part && !put_off(shared->sums[1], self + 1)) ++shared->wrong[self];
      }
      const int team = static_cast<int>(shape().size());
      expected += round % 2 == 0 ? team * (team + 1) / 2 : round / 2 % team + 1;
      job.check(shared->sums[1] == expected, "round " + std::to_string(round) + " ended with " +
                                                 std::to_string(shared->sums[1]) + ", not " +
                                                 std::to_string(expected));
    }
    check_all_right(job);
  });
}

TEST_P(Updates, AreRefusedWhereThereIsNoRoom) {
  run([](const Job& job) {
#pragma omp parallel
    {
      const int self = omp_get_thread_num();
      // One thread of each rank: others put theirs in the same list.
      const bool takes_part = self % static_cast<int>(shape().threads) == 0;
      for (std::size_t i = 0; takes_part && i < shared->words.size(); ++i) {
        const bool has_room = i < UpdateList::updates_most;
        const std::uint64_t part = std::uint64_t{1} << here();
        if (runtime()->updates().put_off(&shared->words[i], of_words, part) != has_room)
          ++shared->wrong[self];
        // Another part of the same needs none.
        if (has_room && !runtime()->updates().put_off(&shared->words[i], of_words, part << 8U))
          ++shared->wrong[self];
      }
#pragma omp barrier
      const std::uint32_t all = (1U << shape().ranks) - 1;
      for (std::size_t i = 0; i < shared->words.size(); ++i)
        if (shared->words[i] != (i < UpdateList::updates_most ? all << 8U | all : 0)) ++shared->wrong[self];
    }
    check_all_right(job);
  });
}

TEST_P(Updates, OfWhatIsNotAlignedAreRefused) {
  run([](const Job& job) {
#pragma omp parallel
    {
      auto* const variable = reinterpret_cast<double*>(reinterpret_cast<std::byte*>(&shared->sums) + 4);
      if (put_off(*variable, 1)) ++shared->wrong[omp_get_thread_num()];
    }
    check_all_right(job);
  });
}

std::vector<Shape> of_several_ranks() {
  std::vector<Shape> several;
  for (const Shape& each : shapes)
    if (each.ranks > 1) several.push_back(each);
  return several;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Updates, testing::ValuesIn(of_several_ranks()),
                         [](const auto& parameter) { return name_of(parameter.param); });

}  // namespace

}  // namespace craton::omp::test
