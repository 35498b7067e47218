/// \file
/// Regions, barriers, `single`, sections, nested regions, and what omp_* say in them.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cstdint>
#include <string>

#include "omp_ranks.hpp"

namespace craton::omp::test {

extern "C" void* GOMP_single_copy_start();
extern "C" void GOMP_single_copy_end(void*);
extern "C" void GOMP_parallel_start(void (*)(void*), void*, unsigned);
extern "C" void GOMP_parallel_end();

namespace {

constexpr int threads_at_most = 16;
constexpr int rounds = 200;

/// What threads share. Each writes its own line.
struct alignas(64) Line {
  long value;
  long other;
};
struct Shared {
  std::array<Line, threads_at_most> rank;  ///< of a thread, plus 1
  std::array<Line, threads_at_most> seen;
  std::array<Line, threads_at_most> bad;  ///< what a thread saw that it should not
  std::array<Line, threads_at_most> inner;
  long word;
};
Shared* shared = nullptr;

class Regions : public testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(const Job&)>& body, const Settings& settings = {}) {
    EXPECT_EQ(run_program(GetParam(), settings, reinterpret_cast<void**>(&shared), sizeof(Shared), body), "");
  }
};

void check_nothing_bad(const Job& job) {
  for (int i = 0; i < threads_at_most; ++i)
    job.check(shared->bad[i].value == 0,
              "thread " + std::to_string(i) + " saw " + std::to_string(shared->bad[i].other));
}

/// Of the first thread of a rank, in a team of so many threads.
int first_of(int rank, int size, int ranks) {
  return rank * (size / ranks) + std::min(rank, size % ranks);
}

void note_rank(void* /*data*/) {
  shared->rank[omp_get_thread_num()].value = here() + 1;
}

}  // namespace

TEST_P(Regions, HaveAllThreadsOfAllRanks) {
  run([](const Job& job) {
    job.check(omp_get_max_threads() == static_cast<int>(shape().size()), "omp_get_max_threads");
#pragma omp parallel
    {
      note_rank(nullptr);
      if (omp_get_level() != 1 || omp_in_parallel() != (omp_get_num_threads() > 1 ? 1 : 0))
        shared->bad[omp_get_thread_num()].value = 1;
    }
    for (std::uint32_t i = 0; i < shape().size(); ++i)
      job.check(shared->rank[i].value == i / shape().threads + 1,
                "thread " + std::to_string(i) + " is of rank " + std::to_string(shared->rank[i].value - 1));
    check_nothing_bad(job);
  });
}

TEST_P(Regions, HaveExactlyTheThreadsAskedFor) {
  run([](const Job& job) {
    const int ranks = static_cast<int>(shape().ranks);
    for (int round = 0; round < 3; ++round) {
      for (int size = 1; size <= static_cast<int>(shape().size()) + 3; ++size) {
        for (Line& line : shared->rank) line.value = 0;
#pragma omp parallel num_threads(size)
        {
          note_rank(nullptr);
          shared->seen[omp_get_thread_num()].value = omp_get_num_threads();
#pragma omp barrier
          for (int i = 0; i < omp_get_num_threads(); ++i) {
            if (shared->rank[i].value == 0) shared->bad[omp_get_thread_num()].value = 1;
          }
        }
        const int used = std::min(ranks, size);
        for (int i = 0; i < size; ++i) {
          int rank = 0;
          while (first_of(rank + 1, size, used) <= i) ++rank;
          job.check(shared->rank[i].value == rank + 1,
                    "thread " + std::to_string(i) + " of " + std::to_string(size) + " is of rank " +
                        std::to_string(shared->rank[i].value - 1) + ", not " + std::to_string(rank));
          job.check(shared->seen[i].value == size, "omp_get_num_threads");
        }
        check_nothing_bad(job);
      }
    }
  });
}

TEST_P(Regions, BarriersOrderWrites) {
  run([](const Job& job) {
#pragma omp parallel
    for (int round = 1; round <= rounds; ++round) {
      const int own = omp_get_thread_num();
      shared->seen[own].value = round;
#pragma omp barrier
      for (int i = 0; i < omp_get_num_threads(); ++i) {
        if (shared->seen[i].value == round) continue;
        shared->bad[own].value = 1;
        shared->bad[own].other = shared->seen[i].value;
      }
#pragma omp barrier
    }
    check_nothing_bad(job);
  });
}

TEST_P(Regions, ManyShortOnesPassWritesOn) {
  run([](const Job& job) {
    for (long round = 1; round <= rounds; ++round) {
      shared->word = round;
#pragma omp parallel
      {
        const int own = omp_get_thread_num();
        if (shared->word != shared->seen[own].value + 1) shared->bad[own].value = 1;
        shared->seen[own].value = shared->word;
      }
      for (std::uint32_t i = 0; i < shape().size(); ++i)
        job.check(shared->seen[i].value == round, "thread " + std::to_string(i) + " was not there");
      // The others' turn: writes of workers outlive regions that they are not in.
      if (round % 10 == 0) {
#pragma omp parallel num_threads(1)
        shared->inner[0].value = shared->seen[shape().size() - 1].value;
        job.check(shared->inner[0].value == round, "a serial region saw an old value");
      }
    }
    check_nothing_bad(job);
  });
}

TEST_P(Regions, InHalves) {
  run([](const Job& job) {
    GOMP_parallel_start(note_rank, nullptr, 0);
    note_rank(nullptr);
    job.check(omp_get_num_threads() == static_cast<int>(shape().size()), "omp_get_num_threads");
    GOMP_parallel_end();
    for (std::uint32_t i = 0; i < shape().size(); ++i)
      job.check(shared->rank[i].value == i / shape().threads + 1, "a thread was not there");
  });
}

TEST_P(Regions, OneRunsASingle) {
  run([](const Job& job) {
#pragma omp parallel
    for (int round = 0; round < rounds; ++round) {
#pragma omp single
      ++shared->word;
      if (shared->word != round + 1) shared->bad[omp_get_thread_num()].value = 1;
#pragma omp barrier
#pragma omp single nowait
      ++shared->seen[0].value;
#pragma omp master
      ++shared->seen[1].value;
    }
    job.check(
        shared->word == rounds && shared->seen[0].value == rounds && shared->seen[1].value == rounds,
        std::to_string(shared->word) + " singles, " + std::to_string(shared->seen[1].value) + " masters");
    check_nothing_bad(job);
  });
}

TEST_P(Regions, ASingleGivesAPointer) {
  run([](const Job& job) {
#pragma omp parallel
    for (int round = 0; round < rounds; ++round) {
      void* given = GOMP_single_copy_start();
      if (given == nullptr) {
        shared->word = round;
        given = &shared->seen[round % threads_at_most];
        GOMP_single_copy_end(given);
      }
      if (given != &shared->seen[round % threads_at_most] || shared->word != round)
        shared->bad[omp_get_thread_num()].value = 1;
#pragma omp barrier
    }
    check_nothing_bad(job);
  });
}

TEST_P(Regions, SectionsGoRoundTheRanks) {
  run([](const Job& job) {
    for (int round = 0; round < 20; ++round) {
#pragma omp parallel
      {
#pragma omp sections
          {
#pragma omp section
              shared->rank[0].value += here() == 0 ? 1 : 1000;
#pragma omp section
      shared->rank[1].value += here() == 1 % shape().ranks ? 1 : 1000;
#pragma omp section
      shared->rank[2].value += here() == 2 % shape().ranks ? 1 : 1000;
    }
      }
#pragma omp parallel sections
      {
#pragma omp section
    ++shared->seen[0].value;
#pragma omp section
    ++shared->seen[1].value;
      }
}
for (int i = 0; i < 3; ++i)
  job.check(shared->rank[i].value == 20,
            "section " + std::to_string(i) + ": " + std::to_string(shared->rank[i].value));
job.check(shared->seen[0].value == 20 && shared->seen[1].value == 20, "parallel sections");
});
}

TEST_P(Regions, InsideOfRegionsHaveThreadsOfTheirRank) {
  run([](const Job& job) {
    omp_set_max_active_levels(2);
    constexpr int inner_size = 3;
    for (int round = 0; round < 10; ++round) {
#pragma omp parallel
      {
        const int outer = omp_get_thread_num();
        const unsigned rank = here();
#pragma omp parallel num_threads(inner_size)
        {
          const int own = omp_get_thread_num();
          const bool fits = omp_get_num_threads() == inner_size && omp_get_level() == 2 && here() == rank &&
                            omp_get_ancestor_thread_num(1) == outer &&
                            omp_get_team_size(1) == static_cast<int>(shape().size()) &&
                            omp_get_ancestor_thread_num(0) == 0;
          if (!fits) shared->bad[outer].value = 1;
            // All of them at a time, or this ends never.
#pragma omp barrier
#pragma omp critical
          ++shared->inner[outer].value;
#pragma omp single
          ++shared->inner[outer].other;
#pragma omp for
          for (int i = 0; i < inner_size; ++i) {
            if (i != own) shared->bad[outer].value = 1;
          }
        }
      }
    }
    for (std::uint32_t i = 0; i < shape().size(); ++i)
      job.check(shared->inner[i].value == 10L * inner_size && shared->inner[i].other == 10,
                std::to_string(shared->inner[i].value) + " inner threads of thread " + std::to_string(i));
    check_nothing_bad(job);
  });
}

TEST_P(Regions, InsideOfRegionsAreSerialUnlessToldOtherwise) {
  run([](const Job& job) {
#pragma omp parallel
    {
#pragma omp parallel num_threads(3)
      if (omp_get_num_threads() != (shape().size() == 1 ? 3 : 1) || omp_get_level() != 2)
        shared->bad[0].value = 1;
    }
    check_nothing_bad(job);
  });
}

TEST_P(Regions, FollowTheControlVariables) {
  Settings settings;
  settings.threads = {3, 2};
  settings.icvs.max_active_levels = active_levels_at_most;
  settings.icvs.thread_limit = 100;
  run(
      [](const Job& job) {
        job.check(omp_get_max_threads() == 3, "omp_get_max_threads");
        job.check(omp_get_thread_limit() == 100, "omp_get_thread_limit");
#pragma omp parallel
        {
          if (omp_get_num_threads() != 3 || omp_get_max_threads() != 2) shared->bad[0].value = 1;
          omp_set_num_threads(4);
#pragma omp parallel
          if (omp_get_num_threads() != 4) shared->bad[1].value = 1;
        }
        job.check(omp_get_max_threads() == 3, "a region's threads changed their parent's variables");
        omp_set_schedule(omp_sched_guided, 5);
        omp_set_dynamic(1);
#pragma omp parallel
        {
          omp_sched_t kind;
          int chunk = 0;
          omp_get_schedule(&kind, &chunk);
          if (kind != omp_sched_guided || chunk != 5 || omp_get_dynamic() != 1) shared->bad[2].value = 1;
        }
        check_nothing_bad(job);
      },
      settings);
}

INSTANTIATE_TEST_SUITE_P(All, Regions, testing::ValuesIn(shapes),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace craton::omp::test
