/// \file
/// Loops that are shared out at run time: each iteration once, and by threads of more than one rank; ordered
/// parts in order.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <string>
#include <thread>

#include "omp/thread.hpp"
#include "omp_ranks.hpp"

namespace craton::omp::test {

namespace {

constexpr long iterations = 3000;
constexpr int ranks_at_most = 4;

struct Shared {
  std::array<int, iterations> times;
  std::array<std::array<long, 8>, ranks_at_most> by;  ///< iterations of a rank, by thread
  std::array<long, iterations> order;
  long done;
  std::array<long, 8> bad;
};
Shared* shared = nullptr;

class Loops : public testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(const Job&)>& body, const Settings& settings = {}) {
    EXPECT_EQ(run_program(GetParam(), settings, reinterpret_cast<void**>(&shared), sizeof(Shared), body), "");
  }
};

long last_value = -1;

/// A few microseconds, and a processor for others, so that all ranks get to a loop before it is over.
void take_time() {
  for (volatile int i = 0; i < 2000;) i = i + 1;
  std::this_thread::yield();
}

/// In a loop: iterations of a loop over `iterations` come by, numbered from 0.
void note(long i) {
  ++shared->times[static_cast<std::size_t>(i)];
  take_time();
  ++shared->by[here()]
              [static_cast<std::size_t>(omp_get_thread_num()) % 8];  // a word for each thread, so no lock
}

/// Runs a loop until each rank has had a part in it, and checks it each time.
template <typename Body>
void run_until_shared(const Job& job, const char* what, const Body& loop) {
  constexpr int attempts = 200;
  bool is_shared = false;
  for (int attempt = 0; attempt < attempts && !is_shared; ++attempt) {
    for (int& times : shared->times) times = 0;
    for (auto& by : shared->by) by.fill(0);
    loop();
    for (std::size_t i = 0; i < iterations; ++i)
      job.check(shared->times[i] == 1, std::string(what) + ": iteration " + std::to_string(i) + " ran " +
                                           std::to_string(shared->times[i]) + " times");
    is_shared = true;
    for (fabric::Rank rank = 0; rank < shape().ranks; ++rank)
      is_shared = is_shared && std::ranges::any_of(shared->by[rank], [](long times) { return times > 0; });
  }
  job.check(is_shared, std::string(what) + ": one rank never took part");
}

}  // namespace

TEST_P(Loops, Dynamic) {
  run([](const Job& job) {
    run_until_shared(job, "dynamic", [] {
#pragma omp parallel for schedule(dynamic)
      for (long i = 0; i < iterations; ++i) note(i);
    });
    run_until_shared(job, "dynamic, 7", [] {
#pragma omp parallel
      {
#pragma omp for schedule(dynamic, 7)
        for (long i = iterations - 1; i >= 0; --i) note(i);
      }
    });
    run_until_shared(job, "monotonic, steps", [] {
#pragma omp parallel for schedule(monotonic : dynamic, 3)
      for (int i = -10; i < -10 + 3 * static_cast<int>(iterations); i += 3) note((i + 10) / 3);
    });
  });
}

/// More of them than a word of a slot that no loop has used tells apart, were it less wide.
TEST_P(Loops, AfterVeryManyOtherWorkShares) {
  run([](const Job& job) {
    for (const long others : {1L << 29U, 1L << 30U, 1L << 38U, 1L << 43U}) {
      for (int& times : shared->times) times = 0;
      shared->done = others;
#pragma omp parallel
      {
        self().state.shares += static_cast<std::uint64_t>(shared->done);
#pragma omp for schedule(dynamic)
        for (long i = 0; i < iterations; ++i) ++shared->times[static_cast<std::size_t>(i)];
#pragma omp for schedule(guided)
        for (long i = 0; i < iterations; ++i) ++shared->times[static_cast<std::size_t>(i)];
      }
      job.check(std::ranges::all_of(shared->times, [](int times) { return times == 2; }),
                "after " + std::to_string(others) + " an iteration has not run once in each loop");
    }
  });
}

TEST_P(Loops, Guided) {
  run([](const Job& job) {
    run_until_shared(job, "guided", [] {
#pragma omp parallel for schedule(guided)
      for (long i = 0; i < iterations; ++i) note(i);
    });
    run_until_shared(job, "guided, 5", [] {
#pragma omp parallel for schedule(guided, 5)
      for (long i = 0; i < iterations; ++i) note(i);
    });
  });
}

TEST_P(Loops, Runtime) {
  run([](const Job& job) {
    const std::array<omp_sched_t, 4> kinds{omp_sched_static, omp_sched_dynamic, omp_sched_guided,
                                           omp_sched_auto};
    for (const omp_sched_t kind : kinds) {
      for (const int chunk : {0, 1, 4}) {
        omp_set_schedule(kind, chunk);
        run_until_shared(job, "runtime", [] {
#pragma omp parallel for schedule(runtime)
          for (long i = 0; i < iterations; ++i) note(i);
        });
      }
    }
  });
}

TEST_P(Loops, UnsignedAndLarge) {
  run([](const Job& job) {
    run_until_shared(job, "unsigned, up to the end", [] {
      constexpr unsigned long long last = ULLONG_MAX - 1;
#pragma omp parallel for schedule(dynamic, 2)
      for (unsigned long long i = last - 2 * iterations; i < last; i += 2)
        note(static_cast<long>((i - (last - 2 * iterations)) / 2));
    });
    run_until_shared(job, "unsigned, down", [] {
#pragma omp parallel for schedule(guided)
      for (unsigned long long i = 3ULL * iterations; i > 0; i -= 3) note(static_cast<long>(i / 3 - 1));
    });
    run_until_shared(job, "longs, up to the end", [] {
#pragma omp parallel for schedule(dynamic)
      for (long i = LONG_MAX - iterations; i < LONG_MAX; ++i) note(i - (LONG_MAX - iterations));
    });
  });
}

TEST_P(Loops, MoreChunksThanAWordCounts) {
  run([](const Job& job) {
    // So long that only its first iterations can run: all of them are asked for, and most say nothing.
    constexpr unsigned long long many = 1ULL << 60U;
    for (int& times : shared->times) times = 0;
#pragma omp parallel for schedule(dynamic, 1ULL << 10U)
    for (unsigned long long i = 0; i < many; i += 1ULL << 48U) ++shared->times[i >> 48U];
    for (std::size_t i = 0; i < many >> 48U && i < iterations; ++i)
      job.check(shared->times[i] == 1, "iteration " + std::to_string(i));
  });
}

TEST_P(Loops, WithoutWaiting) {
  run([](const Job& job) {
    constexpr int loops = 300;
#pragma omp parallel
    for (int loop = 0; loop < loops; ++loop) {
#pragma omp for schedule(dynamic, 2) nowait
      for (int i = 0; i < 40; ++i) {
#pragma omp critical
        ++shared->times[static_cast<std::size_t>(i)];
      }
    }
    for (std::size_t i = 0; i < 40; ++i)
      job.check(shared->times[i] == loops,
                "iteration " + std::to_string(i) + " ran " + std::to_string(shared->times[i]) + " times");
  });
}

TEST_P(Loops, LastValues) {
  run([](const Job& job) {
    for (int round = 1; round <= 20; ++round) {
#pragma omp parallel
      {
#pragma omp for schedule(dynamic, 3) lastprivate(last_value)
        for (long i = 0; i < 100; ++i) last_value = i;
        // A rank's own here; in a program it would be one for all.
        if (last_value == 99) {
#pragma omp critical
          ++shared->done;
        }
#pragma omp barrier
        last_value = -1;
      }
      const long times = shared->done;
      shared->done = 0;
      job.check(times == static_cast<long>(shape().threads),
                "the last value came to " + std::to_string(times) + " threads");
    }
  });
}

TEST_P(Loops, OrderedParts) {
  run([](const Job& job) {
    constexpr long count = 200;
    constexpr long loops = 6;
    for (int round = 0; round < 5; ++round) {
      shared->done = 0;
#pragma omp parallel
      {
#pragma omp for ordered schedule(dynamic)
        for (long i = 0; i < count; ++i) {
          take_time();
#pragma omp ordered
          shared->order[static_cast<std::size_t>(shared->done++)] = i;
        }
#pragma omp for ordered schedule(static) nowait
        for (long i = 0; i < count; ++i) {
#pragma omp ordered
          shared->order[static_cast<std::size_t>(shared->done++)] = i;
        }
#pragma omp barrier
#pragma omp for ordered schedule(static, 3)
        for (long i = 0; i < count; ++i) {
#pragma omp ordered
          shared->order[static_cast<std::size_t>(shared->done++)] = i;
        }
#pragma omp for ordered schedule(guided, 2)
        for (long i = 0; i < count; ++i) {
#pragma omp ordered
          shared->order[static_cast<std::size_t>(shared->done++)] = i;
        }
        // Not every iteration has an ordered part.
#pragma omp for ordered schedule(dynamic, 2)
        for (long i = 0; i < 2 * count; ++i) {
          if (i % 2 == 1) {
#pragma omp ordered
            shared->order[static_cast<std::size_t>(shared->done++)] = i / 2;
          }
        }
#pragma omp for ordered schedule(dynamic, 3)
        for (unsigned long long i = 0; i < static_cast<unsigned long long>(count); ++i) {
#pragma omp ordered
          shared->order[static_cast<std::size_t>(shared->done++)] = static_cast<long>(i);
        }
      }
      job.check(shared->done == loops * count, std::to_string(shared->done) + " ordered parts");
      for (long i = 0; i < loops * count; ++i)
        job.check(shared->order[static_cast<std::size_t>(i)] == i % count,
                  "ordered part " + std::to_string(i) + " is of iteration " +
                      std::to_string(shared->order[static_cast<std::size_t>(i)]));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Loops, testing::ValuesIn(shapes),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace craton::omp::test
