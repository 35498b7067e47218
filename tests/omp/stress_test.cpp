/// \file
/// Everything at once: regions of changing sizes with loops, tasks, locks, barriers and ordered parts, whose
/// results are known.
///
///   CRATON_STRESS_S=60 ...       seconds of each shape (default 1)
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fabric/sim/random.hpp"
#include "omp_ranks.hpp"

namespace craton::omp::test {

namespace {

using Clock = std::chrono::steady_clock;
using fabric::sim::Random;

constexpr std::size_t words = 4096;
constexpr int kinds = 7;

struct Shared {
  std::array<long, words> word;
  std::array<long, 8> count;
  omp_lock_t lock;
  std::array<int, 64> plan;  ///< what the next region does, step by step
  long steps;
  long turn;
  long bad;
};
Shared* shared = nullptr;

double stress_s() {
  const char* const text = std::getenv("CRATON_STRESS_S");
  return text == nullptr ? 1.0 : std::strtod(text, nullptr);
}

/// Adds 1 to all words, shared out in one way or another. By all threads of a team.
void add_to_all(int kind) {
  switch (kind) {
    case 0:
#pragma omp for schedule(dynamic, 16)
      for (std::size_t i = 0; i < words; ++i) ++shared->word[i];
      break;
    case 1:
#pragma omp for schedule(guided) nowait
      for (std::size_t i = 0; i < words; ++i) ++shared->word[i];
#pragma omp barrier
      break;
    case 2:
#pragma omp for schedule(static, 8)
      for (std::size_t i = 0; i < words; ++i) ++shared->word[i];
      break;
    case 3:
#pragma omp single
      for (std::size_t i = 0; i < words; i += 128) {
#pragma omp task firstprivate(i)
        for (std::size_t k = i; k < i + 128; ++k) ++shared->word[k];
      }
      break;
    case 4:
#pragma omp for ordered schedule(dynamic, 4)
      for (std::size_t i = 0; i < words / 64; ++i) {
        for (std::size_t k = i * 64; k < i * 64 + 64; ++k) ++shared->word[k];
#pragma omp ordered
        {
          if (shared->turn != static_cast<long>(i)) shared->bad = 4;
          shared->turn = i + 1 == words / 64 ? 0 : static_cast<long>(i) + 1;
        }
      }
      break;
    case 5: {
      const auto own = static_cast<std::size_t>(omp_get_thread_num());
      const auto size = static_cast<std::size_t>(omp_get_num_threads());
      for (std::size_t i = own * 64; i < words; i += size * 64) {
        long* const first = &shared->word[i];
#pragma omp task depend(inout : first[0]) firstprivate(first)
        for (int k = 0; k < 64; k += 2) ++first[k];
#pragma omp task depend(inout : first[0]) firstprivate(first)
        for (int k = 1; k < 64; k += 2) ++first[k];
      }
#pragma omp barrier
      break;
    }
    default:
      omp_set_lock(&shared->lock);
      ++shared->count[0];
      omp_unset_lock(&shared->lock);
#pragma omp critical
      ++shared->count[1];
#pragma omp sections
      {
#pragma omp section
        for (std::size_t i = 0; i < words / 2; ++i) ++shared->word[i];
#pragma omp section
        for (std::size_t i = words / 2; i < words; ++i) ++shared->word[i];
      }
  }
}

class Stress : public testing::TestWithParam<Shape> {};

}  // namespace

TEST_P(Stress, EverythingAtOnce) {
  const auto limit = std::chrono::duration<double>(stress_s());
  const std::string failed = run_program(
      GetParam(), {}, reinterpret_cast<void**>(&shared), sizeof(Shared),
      [limit](const Job& job) {
        Random random(7);
        const auto until = Clock::now() + limit;
        long expected = 0;
        long guarded = 0;
        omp_init_lock(&shared->lock);
        do {
          shared->steps = 1 + static_cast<long>(random.below(6));
          const bool is_whole = random.below(3) != 0;
          const int size = is_whole ? static_cast<int>(shape().size())
                                    : 1 + static_cast<int>(random.below(shape().size() + 2));
          for (long step = 0; step < shared->steps; ++step) {
            shared->plan[static_cast<std::size_t>(step)] = static_cast<int>(random.below(kinds));
            if (shared->plan[static_cast<std::size_t>(step)] == kinds - 1) guarded += size;
          }
          expected += shared->steps;
#pragma omp parallel num_threads(size)
          {
            const long steps = shared->steps;
            for (long step = 0; step < steps; ++step)
              add_to_all(shared->plan[static_cast<std::size_t>(step)]);
          }
          for (std::size_t i = 0; i < words; ++i)
            job.check(shared->word[i] == expected, "word " + std::to_string(i) + " is " +
                                                       std::to_string(shared->word[i]) + ", not " +
                                                       std::to_string(expected));
          job.check(shared->bad == 0, "an ordered part ran out of order");
          job.check(shared->count[0] == guarded && shared->count[1] == guarded,
                    std::to_string(shared->count[0]) + " and " + std::to_string(shared->count[1]) +
                        " guarded updates, not " + std::to_string(guarded));
        } while (Clock::now() < until);
        omp_destroy_lock(&shared->lock);
      },
      static_cast<int>(stress_s()) + 60);
  EXPECT_EQ(failed, "");
}

INSTANTIATE_TEST_SUITE_P(All, Stress, testing::ValuesIn(shapes),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace craton::omp::test
