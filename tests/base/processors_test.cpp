/// \file
/// Which processors threads may use.
#include <gtest/gtest.h>

#include <sched.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "base/processors.hpp"

namespace craton::test {

namespace {

std::vector<std::uint32_t> processors_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> numbers;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) numbers.push_back(i);
  }
  return numbers;
}

}  // namespace

TEST(Processors, AreThoseOfTheThreadThatAsksFirst) {
  EXPECT_EQ(processors(), processors_of_this_thread());
}

TEST(Processors, AThreadThatABoundOneStartsMayUseAllAgain) {
  const std::vector<std::uint32_t> all = processors_of_this_thread();
  std::vector<std::uint32_t> bound;
  std::vector<std::uint32_t> inherited;
  std::vector<std::uint32_t> freed;
  std::thread([&] {
    use_processors({all.back()});
    bound = processors_of_this_thread();
    std::thread([&] {
      inherited = processors_of_this_thread();
      use_all_processors();
      freed = processors_of_this_thread();
    }).join();
  }).join();
  EXPECT_EQ(bound, std::vector<std::uint32_t>{all.back()});
  EXPECT_EQ(inherited, bound);
  EXPECT_EQ(freed, all);
  EXPECT_EQ(processors_of_this_thread(), all);
}

/// Whether the thread is there after one of some attempts: the kernel may move it on at any time.
template <typename Move>
bool is_moved_to(std::uint32_t number, Move move) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    move();
    if (::sched_getcpu() == static_cast<int>(number)) return true;
  }
  return false;
}

TEST(Processors, AThreadSettlesOnOneAndMayUseAllAsBefore) {
  const std::vector<std::uint32_t> all = processors_of_this_thread();
  std::thread([&] {
    for (const std::uint32_t number : all) {
      EXPECT_TRUE(is_moved_to(number, [&] { settle_on_processor(number); })) << number;
      EXPECT_EQ(processors_of_this_thread(), all);
    }
  }).join();
}

TEST(Processors, AThreadSettlesOnNoneThatItMustNotUse) {
  const std::vector<std::uint32_t> all = processors_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "there is one processor only";
  std::thread([&] {
    use_processors({all.front()});
    settle_on_processor(all.back());
    EXPECT_EQ(::sched_getcpu(), static_cast<int>(all.front()));
    leave_processor(static_cast<int>(all.front()));
    EXPECT_EQ(::sched_getcpu(), static_cast<int>(all.front()));
    settle_on_processor(1000000);
    leave_processor(static_cast<int>(all.front()));
    EXPECT_EQ(processors_of_this_thread(), std::vector<std::uint32_t>{all.front()});
  }).join();
}

TEST(Processors, AThreadLeavesOneForItsOwn) {
  const std::vector<std::uint32_t> all = processors_of_this_thread();
  if (all.size() < 2) GTEST_SKIP() << "there is one processor only";
  const auto other = static_cast<int>(all.back());
  const auto go_to_other = [&] {
    use_processors({all.back()});
    use_processors(all);
  };
  std::thread([&] {
    EXPECT_TRUE(is_moved_to(all.back(), [&] {
      go_to_other();
      leave_processor(other);  // it has none of its own
    }));
    settle_on_processor(all.front());
    EXPECT_TRUE(is_moved_to(all.back(), [&] {
      go_to_other();
      leave_processor(-1);
      leave_processor(static_cast<int>(all.front()));  // where it is not
    }));
    EXPECT_TRUE(is_moved_to(all.front(), [&] {
      go_to_other();
      leave_processor(other);
    }));
    EXPECT_EQ(processors_of_this_thread(), all);
  }).join();
}

TEST(Processors, ThatAreNotThereChangeNothing) {
  const std::vector<std::uint32_t> all = processors_of_this_thread();
  std::thread([&] {
    use_processors({16000});
    EXPECT_EQ(processors_of_this_thread(), all);
    use_processors({1000000});
    EXPECT_EQ(processors_of_this_thread(), all);
  }).join();
}

}  // namespace craton::test
