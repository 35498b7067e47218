/// \file
/// Tasks: all of them run, once, what they depend on before them, and on more than one rank.
#include <gtest/gtest.h>
#include <omp.h>

#include <array>
#include <cstdint>
#include <string>

#include "omp_ranks.hpp"

namespace craton::omp::test {

namespace {

constexpr long cells = 4096;
constexpr int chain_length = 8;
constexpr long tree_cells = 65536;

struct Shared {
  std::array<long, cells> cell;
  std::array<std::array<long, 8>, 4> by;  ///< tasks of a rank; a line each
  std::array<std::array<long, 8>, chain_length> chain;
  std::array<long, tree_cells> tree;
  std::array<long, 16> order;
  long count;
  long bad;
};
Shared* shared = nullptr;

class Tasks : public testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(const Job&)>& body, const Settings& settings = {}) {
    EXPECT_EQ(run_program(GetParam(), settings, reinterpret_cast<void**>(&shared), sizeof(Shared), body), "");
  }
};

void take_time(int steps) {
  for (volatile int i = 0; i < steps;) i = i + 1;
}

void note_rank() {
#pragma omp critical(ranks)
  ++shared->by[here()][0];
}

/// Runs it until each rank has run a task.
template <typename Body>
void run_until_shared(const Job& job, const char* what, const Body& body) {
  constexpr int attempts = 50;
  bool is_shared = false;
  for (int attempt = 0; attempt < attempts && !is_shared; ++attempt) {
    for (auto& by : shared->by) by[0] = 0;
    for (long& cell : shared->cell) cell = 0;
    body();
    is_shared = true;
    for (fabric::Rank rank = 0; rank < shape().ranks; ++rank)
      is_shared = is_shared && shared->by[rank][0] > 0;
  }
  job.check(is_shared, std::string(what) + ": one rank never ran a task");
}

void check_cells(const Job& job, long expected) {
  for (long i = 0; i < cells; ++i)
    job.check(
        shared->cell[static_cast<std::size_t>(i)] == expected,
        "cell " + std::to_string(i) + " is " + std::to_string(shared->cell[static_cast<std::size_t>(i)]));
}

long fibonacci_alone(int n) {
  return n < 2 ? n : fibonacci_alone(n - 1) + fibonacci_alone(n - 2);
}

/// Makes tasks that depend on each other, and does what must wait for them.
void wait_for_some(long* one) {
#pragma omp task depend(out : one[0]) firstprivate(one)
  {
    take_time(5000);
    one[0] = 1;
  }
#pragma omp task depend(in : one[0]) if (0) firstprivate(one)
  if (one[0] != 1) shared->bad = 1;
#pragma omp task depend(out : one[0]) firstprivate(one)
  {
    take_time(5000);
    one[0] = 2;
  }
#pragma omp taskwait depend(in : one[0])
  if (one[0] != 2) shared->bad = 2;
}

/// Into a cell of the tree, whose children are those at 2 at + 1 and 2 at + 2.
void fibonacci(int n, long at) {
  if (n < 12 || 2 * at + 2 >= tree_cells) {
    shared->tree[static_cast<std::size_t>(at)] = fibonacci_alone(n);
    note_rank();
    return;
  }
#pragma omp task firstprivate(n, at)
  fibonacci(n - 1, 2 * at + 1);
#pragma omp task firstprivate(n, at)
  fibonacci(n - 2, 2 * at + 2);
#pragma omp taskwait
  shared->tree[static_cast<std::size_t>(at)] =
      shared->tree[static_cast<std::size_t>(2 * at + 1)] + shared->tree[static_cast<std::size_t>(2 * at + 2)];
}

}  // namespace

TEST_P(Tasks, OfOneThreadRunOnAllRanks) {
  run([](const Job& job) {
    run_until_shared(job, "tasks", [&job] {
#pragma omp parallel
#pragma omp single
      for (std::size_t i = 0; i < cells; i += 64) {
#pragma omp task firstprivate(i)
        {
          for (std::size_t k = 0; k < 64; ++k) ++shared->cell[i + k];
          take_time(20000);
          note_rank();
        }
      }
      check_cells(job, 1);
    });
  });
}

TEST_P(Tasks, OfAMakerThatNeverWaitsRunOnAllRanksAgainAndAgain) {
  run([](const Job& job) {
    for (auto& by : shared->by) by[0] = 0;
#pragma omp parallel
#pragma omp single
    {
      // More than may wait at a time, by far: what has come back makes room, without a wait.
      const long wanted = 4L * 64 * shape().size();
      const auto elsewhere = [] {
        long sum = 0;
        for (fabric::Rank rank = 1; rank < shape().ranks; ++rank) sum += shared->by[rank][0];
        return sum;
      };
      const double until_s = omp_get_wtime() + 60;
      while (shape().ranks > 1 && elsewhere() < wanted && omp_get_wtime() < until_s) {
#pragma omp task
        {
          take_time(20000);
          note_rank();
        }
      }
    }
    long elsewhere = 0;
    for (fabric::Rank rank = 1; rank < shape().ranks; ++rank) elsewhere += shared->by[rank][0];
    job.check(shape().ranks == 1 || elsewhere >= 4L * 64 * shape().size(),
              "others ran no more than " + std::to_string(elsewhere));
  });
}

TEST_P(Tasks, ThatAreLentTogetherFindWhatWasWrittenBeforeEach) {
  run([](const Job& job) {
    for (int round = 1; round <= 5; ++round) {
      shared->count = round;
      shared->bad = 0;
#pragma omp parallel
#pragma omp single
      for (long i = 0; i < cells; ++i) {
        shared->cell[static_cast<std::size_t>(i)] = shared->count;
#pragma omp task firstprivate(i)
        {
          for (long k = i; k >= 0 && k > i - 64; --k)
            if (shared->cell[static_cast<std::size_t>(k)] != shared->count) {
#pragma omp critical(bad)
              ++shared->bad;
            }
          if (i % 64 == 0) take_time(20000);
        }
      }
      job.check(shared->bad == 0, std::to_string(shared->bad) + " cells were old");
    }
  });
}

TEST_P(Tasks, OfAllThreadsEndAtTheBarrier) {
  run([](const Job& job) {
    for (int round = 0; round < 10; ++round) {
      for (long& cell : shared->cell) cell = 0;
      shared->bad = 0;
#pragma omp parallel
      {
        const auto own = static_cast<std::size_t>(omp_get_thread_num());
        const auto size = static_cast<std::size_t>(omp_get_num_threads());
        for (std::size_t i = own; i < cells / 64; i += size) {
#pragma omp task firstprivate(i)
          for (std::size_t k = 0; k < 64; ++k) ++shared->cell[i * 64 + k];
        }
#pragma omp barrier
        for (const long cell : shared->cell) {
          if (cell != 1) shared->bad = 1;
        }
#pragma omp barrier
      }
      job.check(shared->bad == 0, "a barrier did not wait for tasks");
      check_cells(job, 1);
    }
  });
}

TEST_P(Tasks, ThatMakeTasksAndWait) {
  run([](const Job& job) {
    run_until_shared(job, "a tree", [&job] {
#pragma omp parallel
#pragma omp single nowait
      fibonacci(25, 0);
      job.check(shared->tree[0] == 75025, "the 25th Fibonacci number is " + std::to_string(shared->tree[0]));
    });
  });
}

TEST_P(Tasks, RunInTheOrderOfTheirDependences) {
  run([](const Job& job) {
    constexpr int steps = 20;
    for (int round = 0; round < 10; ++round) {
      for (auto& link : shared->chain) link = {};
#pragma omp parallel
#pragma omp master
      for (int step = 0; step < steps; ++step) {
        for (std::size_t i = 0; i < chain_length; ++i) {
          long* const own = shared->chain[i].data();
          long* const next = shared->chain[(i + 1) % chain_length].data();
#pragma omp task depend(inout : own[0]) depend(in : next[0]) firstprivate(own, next)
          {
            take_time(500);
            ++own[0];
            own[1] = next[0];
          }
        }
      }
      for (std::size_t i = 0; i < chain_length; ++i) {
        job.check(shared->chain[i][0] == steps, "a task was lost");
        job.check(shared->chain[i][1] == (i + 1 == chain_length ? steps : steps - 1),
                  "link " + std::to_string(i) + " saw " + std::to_string(shared->chain[i][1]));
      }
    }
  });
}

TEST_P(Tasks, UndeferredOnesWaitForDependences) {
  run([](const Job& job) {
    for (int round = 0; round < 20; ++round) {
      shared->chain[0] = {};
      shared->bad = 0;
#pragma omp parallel
#pragma omp single
      wait_for_some(shared->chain[0].data());
      job.check(shared->bad == 0, "a task ran before what it depends on");
    }
  });
}

TEST_P(Tasks, GroupsWaitForAllThatIsMadeInThem) {
  run([](const Job& job) {
    for (int round = 0; round < 10; ++round) {
      for (long& cell : shared->cell) cell = 0;
      shared->bad = 0;
#pragma omp parallel
#pragma omp single nowait
      {
#pragma omp taskgroup
        {
          for (std::size_t i = 0; i < 64; ++i) {
#pragma omp task firstprivate(i)
            for (std::size_t k = 0; k < 64; ++k) {
#pragma omp task firstprivate(i, k)
              ++shared->cell[i * 64 + k];
            }
          }
        }
        for (const long cell : shared->cell) {
          if (cell != 1) shared->bad = 1;
        }
      }
      job.check(shared->bad == 0, "a group ended before its tasks");
    }
  });
}

TEST_P(Tasks, OfLoops) {
  run([](const Job& job) {
    run_until_shared(job, "taskloop", [&job] {
#pragma omp parallel
#pragma omp single
      {
#pragma omp taskloop grainsize(100)
        for (long i = 0; i < cells; ++i) ++shared->cell[static_cast<std::size_t>(i)];
#pragma omp taskloop num_tasks(50) nogroup
        for (unsigned long long i = cells; i > 0; --i) {
          ++shared->cell[i - 1];
          take_time(1000);
          if (i % 64 == 0) note_rank();
        }
      }
      check_cells(job, 2);
    });
  });
}

TEST_P(Tasks, FinalOnesRunAtOnce) {
  run([](const Job& job) {
    shared->bad = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task final(1)
      {
        if (omp_in_final() == 0) shared->bad = 1;
        shared->count = 0;
#pragma omp task
        ++shared->count;
        if (shared->count != 1) shared->bad = 2;
      }
      if (omp_in_final() != 0) shared->bad = 3;
    }
    job.check(shared->bad == 0, "final tasks: " + std::to_string(shared->bad));
  });
}

TEST_P(Tasks, PrioritiesAreHeeded) {
  Settings settings;
  settings.max_task_priority = 10;
  run(
      [](const Job& job) {
        shared->count = 0;
#pragma omp parallel num_threads(1)
        {
          for (int i = 0; i < 8; ++i) {
#pragma omp task priority(i) firstprivate(i)
            shared->order[static_cast<std::size_t>(shared->count++)] = i;
          }
        }
        job.check(shared->count == 8 && omp_get_max_task_priority() == 10, "tasks were lost");
      },
      settings);
}

INSTANTIATE_TEST_SUITE_P(All, Tasks, testing::ValuesIn(shapes),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace craton::omp::test
