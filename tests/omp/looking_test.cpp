/// \file
/// When a thread that looks at a place again and again is to wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "omp/looking.hpp"

namespace craton::omp {
namespace {

constexpr TimeNs longest_wait_ns = 1'000'000;

class Lookings : public testing::Test {
 protected:
  /// The next look, soon after the one before. \returns for how long it waits, as if in vain
  TimeNs look(std::uint64_t turn, std::uint32_t value, TimeNs gap_ns = 500) {
    now_ns_ += gap_ns;
    std::array<std::byte, sizeof value> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    const TimeNs wait_ns = looking_.found(turn, bytes, now_ns_, longest_wait_ns, 8);
    now_ns_ += wait_ns;
    looking_.ended(now_ns_);
    return wait_ns;
  }

  Looking looking_;
  TimeNs now_ns_ = 1'000'000'000;
};

TEST_F(Lookings, WaitInVainForLongerAndLonger) {
  EXPECT_EQ(look(1, 5), 0);
  EXPECT_EQ(look(1, 5), Looking::shortest_wait_ns);
  TimeNs waited_ns = Looking::shortest_wait_ns;
  TimeNs last_ns = 0;
  while (last_ns < longest_wait_ns) {
    const TimeNs wait_ns = look(1, 5);
    ASSERT_GE(wait_ns, last_ns);
    ASSERT_LE(wait_ns, std::max(Looking::shortest_wait_ns, waited_ns / 4));
    waited_ns += wait_ns;
    last_ns = wait_ns;
  }
  EXPECT_EQ(look(1, 5), longest_wait_ns);
}

TEST_F(Lookings, DoNotWaitWhenTheyFindSomethingNew) {
  EXPECT_EQ(look(1, 5), 0);
  EXPECT_EQ(look(1, 6), 0);
  EXPECT_EQ(look(1, 7), 0);
  EXPECT_EQ(look(1, 7), Looking::shortest_wait_ns);
}

TEST_F(Lookings, DoNotWaitWhenTheLoopBeginsAnew) {
  for (std::uint64_t turn = 1; turn <= 20; ++turn) EXPECT_EQ(look(turn, 5), 0);
  // The same turn, but long after.
  EXPECT_EQ(look(20, 5, Looking::longest_gap_ns + 1), 0);
}

TEST_F(Lookings, WaitForEitherOfTwo) {
  EXPECT_EQ(look(1, 5), 0);
  EXPECT_EQ(look(2, 0), 0);
  EXPECT_EQ(look(1, 5), Looking::shortest_wait_ns);
  EXPECT_EQ(look(2, 0), Looking::shortest_wait_ns);
  EXPECT_EQ(look(2, 1), 0);
}

}  // namespace
}  // namespace craton::omp
