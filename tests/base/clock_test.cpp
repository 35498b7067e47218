#include "base/clock.hpp"

#include <gtest/gtest.h>

#include <ctime>

namespace craton {
namespace {

TEST(SteadyClock, NeverGoesBackAndAgreesWithTheSystem) {
  const SteadyClock clock;
  timespec system{};
  clock_gettime(CLOCK_MONOTONIC, &system);
  TimeNs last = static_cast<TimeNs>(system.tv_sec) * 1'000'000'000 + system.tv_nsec;
  const TimeNs start = last;
  for (int i = 0; i < 100'000; ++i) {
    const TimeNs now = clock.now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GT(last, start) << "100,000 readings take more than a nanosecond";
  clock_gettime(CLOCK_MONOTONIC, &system);
  EXPECT_LE(last, static_cast<TimeNs>(system.tv_sec) * 1'000'000'000 + system.tv_nsec);
}

TEST(TimespecOf, DividesAtSeconds) {
  const timespec time = timespec_of(3'000'000'007);
  EXPECT_EQ(time.tv_sec, 3);
  EXPECT_EQ(time.tv_nsec, 7);
  EXPECT_EQ(timespec_of(999'999'999).tv_sec, 0);
  EXPECT_EQ(timespec_of(no_deadline).tv_nsec, no_deadline % 1'000'000'000);
}

TEST(ManualClock, StandsStillUntilTurned) {
  ManualClock clock;
  const Clock& seen = clock;
  EXPECT_EQ(seen.now_ns(), 0);
  clock.advance_ns(5);
  clock.advance_ns(7);
  EXPECT_EQ(seen.now_ns(), 12);
  clock.set_ns(3);
  EXPECT_EQ(seen.now_ns(), 3);
  clock.set_ns(no_deadline - 1);
  EXPECT_LT(seen.now_ns(), no_deadline);
}

}  // namespace
}  // namespace craton
