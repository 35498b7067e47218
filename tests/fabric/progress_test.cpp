/// \file
/// Where a thread runs that was woken.
#include <gtest/gtest.h>

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/processors.hpp"
#include "fabric/progress.hpp"

namespace craton::fabric::test {

namespace {

/// What comes is only counted.
class Arrivals final : public Pollable {
 public:
  void add() { ++arrived_; }
  int found() const { return found_.load(); }
  bool poll() override { return found_.exchange(arrived_.load()) != arrived_.load(); }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<int> found_{0};
};

}  // namespace

TEST(Progress, AThreadThatIsWokenIsNotLeftWithWhoWokeIt) {
  const std::vector<std::uint32_t> all = processors();
  if (all.size() < 2) GTEST_SKIP() << "there is one processor only";
  const std::uint32_t wakers = all.back();
  SteadyClock clock;
  Doorbell doorbell;
  Arrivals arrivals;
  Progress progress(clock, {.spin_ns = 1'000}, doorbell);
  progress.add(arrivals, false);
  progress.start();
  constexpr int rounds = 50;
  std::atomic<int> awaited{0};
  int woken = 0;
  int apart = 0;
  std::thread waiter([&] {
    settle_on_processor(all.front());
    for (int i = 1; i <= rounds; ++i) {
      use_processors({wakers});
      use_processors(all);
      awaited.store(i);
      ASSERT_EQ(progress.wait_until([&] { return arrivals.found() >= i; }, no_deadline), Status::ok);
      const int now_on = ::sched_getcpu();
      if (doorbell.rung_on.load() != static_cast<int>(wakers))
        continue;  // it had not slept, or the agent woke it
      ++woken;
      if (now_on != static_cast<int>(wakers)) ++apart;
    }
  });
  std::thread waker([&] {
    use_processors({wakers});
    for (int i = 1; i <= rounds; ++i) {
      while (awaited.load() < i || doorbell.futex_sleepers.load() == 0) std::this_thread::yield();
      arrivals.add();
      ring(doorbell, progress.wake_fd());
    }
  });
  waiter.join();
  waker.join();
  progress.stop();
  EXPECT_GT(woken, rounds / 2);
  EXPECT_GT(apart, woken * 4 / 5);  // the kernel may move a thread at any time
}

}  // namespace craton::fabric::test
