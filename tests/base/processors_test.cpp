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
