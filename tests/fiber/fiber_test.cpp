/// \file
/// The library on the machine as it is: what the model cannot see (stacks, signals, kernel threads asleep),
/// and the synchronisation objects once more where the thread sanitizer watches.
#include "fiber/fiber.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace craton::fiber {
namespace {

#if defined(CRATON_FIBER_SANITIZED)
constexpr int rounds = 200;
#else
constexpr int rounds = 5000;
#endif

RuntimeOptions workers(unsigned count) {
  RuntimeOptions options;
  options.workers = count;
  return options;
}

int fib(int n) {
  if (n < 2) return n;
  int left = 0;
  Join child = fork([&left, n] { left = fib(n - 1); });
  const int right = fib(n - 2);
  child.join();
  return left + right;
}

TEST(Runtime, ForkJoin) {
  for (const unsigned count : {1U, 2U, 4U}) {
    Runtime runtime(workers(count));
    EXPECT_EQ(runtime.run([] { return fib(16); }), 987);
  }
}

TEST(Runtime, ForkNeedsAFiber) {
  const Runtime runtime(workers(1));
  EXPECT_THROW(fork([] {}).join(), std::logic_error);
}

TEST(Runtime, ParallelForVisitsEachOnce) {
  Runtime runtime(workers(2));
  std::vector<std::atomic<int>> visits(1000);
  runtime.run(
      [&visits] { parallel_for(0, 1000, 7, [&visits](int i) { ++visits[static_cast<std::size_t>(i)]; }); });
  for (const auto& each : visits) EXPECT_EQ(each.load(), 1);
}

TEST(Runtime, ExceptionsReachWhoJoins) {
  Runtime runtime(workers(2));
  EXPECT_THROW(runtime.run([] { throw std::runtime_error("inside"); }), std::runtime_error);
  runtime.run([] {
    Join child = fork([] { throw std::logic_error("inside"); });
    EXPECT_THROW(child.join(), std::logic_error);
    EXPECT_THROW(parallel_for(0, 10, 1,
                              [](int i) {
                                if (i == 7) throw std::out_of_range("7");
                              }),
                 std::out_of_range);
  });
}

TEST(Runtime, HandlersMaySuspend) {
  Runtime runtime(workers(2));
  runtime.run([] {
    std::vector<Join> joins;
    for (int i = 0; i < 20; ++i) {
      joins.push_back(fork([i] {
        for (int round = 0; round < 20; ++round) {
          try {
            throw i;
          } catch (int caught) {
            yield();  // the exception that is being handled must stay with its fiber
            EXPECT_EQ(caught, i);
            try {
              throw;
            } catch (int again) {
              EXPECT_EQ(again, i);
            }
          }
        }
      }));
    }
    for (Join& join : joins) join.join();
  });
}

struct Counted {
  Counted() { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  int value = 0;
  static std::atomic<int> alive;
};
std::atomic<int> Counted::alive{0};

TEST(Local, BelongsToTheFiber) {
  Local<Counted> local;
  EXPECT_THROW(static_cast<void>(local->value), std::logic_error);
  Runtime runtime(workers(2));
  runtime.run([&local] {
    std::vector<Join> joins;
    for (int i = 0; i < 10; ++i) {
      joins.push_back(fork([&local, i] {
        local->value = i;
        for (int round = 0; round < 10; ++round) {
          yield();
          EXPECT_EQ(local->value, i);
        }
      }));
    }
    for (Join& join : joins) join.join();
    EXPECT_EQ(Counted::alive.load(), 0);
    EXPECT_EQ(local->value, 0);
  });
  EXPECT_EQ(Counted::alive.load(), 0);
}

TEST(Seeded, SameSeedSameRun) {
  const auto order = [](std::uint64_t seed) {
    RuntimeOptions options = workers(1);
    options.seed = seed;
    SeededRuntime runtime(options);
    std::string letters;
    runtime.run([&] {
      std::vector<SeededRuntime::Join> joins;
      for (char letter = 'a'; letter < 'i'; ++letter) {
        joins.push_back(runtime.spawn([&letters, letter] {
          letters += letter;
          yield();
          letters += letter;
        }));
      }
      for (auto& join : joins) join.join();
    });
    return letters;
  };
  EXPECT_EQ(order(1), order(1));
  bool differs = false;
  for (std::uint64_t seed = 2; seed < 10; ++seed) differs = differs || order(seed) != order(1);
  EXPECT_TRUE(differs);
}

/// Runs `body(i)` on 8 fibers and 2 kernel threads at once.
template <typename Body>
void on_all(const Body& body) {
  Runtime runtime(workers(2));
  std::vector<std::thread> threads;
  std::vector<Join> joins;
  for (unsigned i = 0; i < 8; ++i) joins.push_back(runtime.spawn([&body, i] { body(i); }));
  for (unsigned i = 8; i < 10; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
  for (Join& join : joins) join.join();
}

template <typename Lock>
void count_under() {
  Lock mutex;
  int count = 0;
  on_all([&](unsigned) {
    for (int i = 0; i < rounds; ++i) {
      mutex.lock();
      ++count;
      if (i % 16 == 0) yield();
      mutex.unlock();
    }
  });
  EXPECT_EQ(count, 10 * rounds);
}
TEST(Mixed, Mutex) {
  count_under<Mutex>();
}
TEST(Mixed, McsMutex) {
  count_under<McsMutex>();
}

TEST(Mixed, BarrierAndCondition) {
  Barrier barrier(10);
  Mutex mutex;
  Condition changed;
  int total = 0;
  on_all([&](unsigned self) {
    for (int i = 1; i <= rounds / 10; ++i) {
      mutex.lock();
      ++total;
      if (self % 2 == 0) {
        changed.wait(mutex, [&] { return total >= 10 * (i - 1) + 5; });
      } else {
        changed.notify_all();
      }
      mutex.unlock();
      changed.notify_all();
      barrier.arrive_and_wait();
      EXPECT_EQ(total, 10 * i);
      barrier.arrive_and_wait();
    }
  });
}

TEST(Mixed, SemaphoreAndGate) {
  Semaphore semaphore(3);
  Gate gate;
  std::atomic<int> inside{0};
  int written = 0;
  on_all([&](unsigned self) {
    for (int i = 0; i < rounds / 10; ++i) {
      semaphore.acquire();
      EXPECT_LE(++inside, 3);
      yield();
      --inside;
      semaphore.release();
    }
    if (self == 5) {
      written = 1;
      gate.open();
    }
    gate.wait();
    EXPECT_EQ(written, 1);
  });
}

// ---- Signals

std::atomic<Waiter*> to_notify{nullptr};
Waiter* to_wait = nullptr;
std::atomic<int> handled{0};

TEST(Signals, AHandlerNotifiesAFiber) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    const KernelThreadScope scope;
    if (Waiter* const waiter = to_notify.exchange(nullptr)) waiter->notify();
  };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Runtime runtime(workers(1));
  for (int i = 0; i < 100; ++i) {
    Waiter waiter;
    Join fiber = runtime.spawn([&waiter] { waiter.wait(); });
    to_notify = &waiter;
    raise(SIGUSR1);
    fiber.join();
  }
  // On the worker itself, in the middle of whatever it does.
  runtime.run([] {
    for (int i = 0; i < 100; ++i) {
      Waiter waiter;
      to_notify = &waiter;
      Join other = fork([] { raise(SIGUSR1); });
      waiter.wait();
      other.join();
    }
  });
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Signals, AHandlerWaits) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    const KernelThreadScope scope;
    to_wait->wait();  // blocks the worker, not the fiber
    ++handled;
  };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Runtime runtime(workers(2));
  Waiter waiter;
  to_wait = &waiter;
  handled = 0;
  runtime.run([&waiter] {
    Join interrupted = fork([] { raise(SIGUSR1); });
    Join notifier = fork([&waiter] { waiter.notify(); });
    interrupted.join();
    notifier.join();
  });
  EXPECT_EQ(handled.load(), 1);
  sigaction(SIGUSR1, &before, nullptr);
}

// ---- Stacks

#if !defined(CRATON_FIBER_SANITIZED)
[[gnu::noinline]] int deeper(int depth, int until) {
  volatile char frame[256];
  frame[depth % 256] = static_cast<char>(depth);
  return depth == until ? 0 : deeper(depth + 1, until) + frame[depth % 256];
}
TEST(StackDeathTest, AnOverrunNamesTheFiber) {
  EXPECT_EXIT(
      {
        Runtime runtime(workers(1));
        runtime.spawn([] { deeper(0, 1'000'000); }, "matrix reader").join();
      },
      testing::KilledBySignal(SIGSEGV), "fiber [0-9]+ \\(matrix reader\\) overran its stack of 65536 bytes");
}
TEST(StackDeathTest, OtherFaultsGoWhereTheyWent) {
  EXPECT_EXIT(
      {
        struct sigaction action {};
        action.sa_handler = [](int) { _exit(7); };
        sigaction(SIGSEGV, &action, nullptr);
        Runtime runtime(workers(1));
        runtime.run([] { raise(SIGSEGV); });
      },
      testing::ExitedWithCode(7), "^$");
}

TEST(StackDeathTest, ASignalThatIsSentStillKills) {
  EXPECT_EXIT(
      {
        Runtime runtime(workers(1));
        runtime.run([] { raise(SIGSEGV); });
      },
      testing::KilledBySignal(SIGSEGV), "^$");
}

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  status >> all >> resident;
  return resident * 4096;
}
std::size_t page_table_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmPTE:", 0) == 0) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

TEST(Stacks, AMillionBlockedFibersTakeLessThan4GiB) {
  constexpr std::size_t fibers = 1'000'000;
  RuntimeOptions options = workers(2);
  options.stacks = {.stack_bytes = std::size_t{16} * 1024, .guard_bytes = 4096};
  if (static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) < fibers * 3 / 2)
    GTEST_SKIP() << "less than 6 GiB of memory are free";
  Runtime runtime(options);
  const std::size_t before = resident_bytes() + page_table_bytes();
  Gate gate;
  Latch ended(fibers);
  Latch started(fibers);
  std::size_t spawned = 0;
  try {
    for (; spawned < fibers; ++spawned) {
      runtime
          .spawn([&] {
            started.count_down();
            gate.wait();
            ended.count_down();
          })
          .detach();
    }
  } catch (const std::system_error& error) {
    gate.open();
    ended.count_down(fibers - spawned);
    ended.wait();
    GTEST_SKIP() << error.what() << " (before Linux 6.13 each stack takes two mappings)";
  }
  started.wait();
  const std::size_t bytes = resident_bytes() + page_table_bytes() - before;
  RecordProperty("bytes", std::to_string(bytes));
  std::printf("%zu blocked fibers take %.2f GiB with their page tables: %zu bytes each\n", fibers,
              static_cast<double>(bytes) / (1U << 30U), bytes / fibers);
  EXPECT_LE(bytes, std::size_t{4} << 30U);
  gate.open();
  ended.wait();
}
#endif

/// Unwinding through a fiber ends at its first frame.
TEST(Stacks, UnwindingEndsAtTheFirstFrame) {
  Runtime runtime(workers(1));
  const auto frames = [] {
    int count = 0;
    const auto reason = _Unwind_Backtrace(
        [](struct _Unwind_Context*, void* counted) {
          return ++*static_cast<int*>(counted) < 100 ? _URC_NO_REASON : _URC_END_OF_STACK;
        },
        &count);
    EXPECT_EQ(reason, _URC_END_OF_STACK);
    return count;
  };
  const int spawned = runtime.run(frames);
  EXPECT_GT(spawned, 2);
  EXPECT_LT(spawned, 30);
  const int forked = runtime.run([&frames] {
    int count = 0;
    fork([&] { count = frames(); }).join();
    return count;
  });
  EXPECT_GT(forked, 2);
  EXPECT_LT(forked, 30);
}

// ---- Idle workers

TEST(Runtime, IdleWorkersTakeNoTime) {
  Runtime runtime(workers(2));
  runtime.run([] { yield(); });
  const auto cpu_us = [] {
    struct rusage used {};
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1'000'000L + used.ru_utime.tv_usec +
           used.ru_stime.tv_usec;
  };
  // They may not sleep yet, the first time, or a busy machine may have kept them from it.
  long least_us = 400'000;
  for (int attempt = 0; attempt < 20 && least_us >= 20'000; ++attempt) {
    const long before = cpu_us();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    least_us = std::min(least_us, cpu_us() - before);
  }
  EXPECT_LT(least_us, 20'000) << "of 400,000 us that two spinning workers would have taken";
}

}  // namespace
}  // namespace craton::fiber
