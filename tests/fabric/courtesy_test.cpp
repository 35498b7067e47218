/// \file
/// When the agent interrupts threads that compute.
#include <gtest/gtest.h>

#include <sched.h>

#include <thread>

#include "fabric/courtesy.hpp"

namespace craton::fabric::test {

namespace {

constexpr TimeNs ms = 1'000'000;
constexpr TimeNs late = 8 * ms;

/// It sleeps and wakes up. \param lateness beyond when it was to \returns when it woke
TimeNs sleep(Courtesy& courtesy, TimeNs now, TimeNs lateness) {
  const TimeNs deadline = courtesy.next_deadline_ns(now);
  const TimeNs woken = (deadline == no_deadline ? now : deadline) + lateness;
  courtesy.woke(deadline, woken);
  return woken;
}

}  // namespace

TEST(Courtesy, LastsWhileItWakesUpInTime) {
  Courtesy courtesy;
  for (TimeNs now = ms; now < 1000 * ms; now = sleep(courtesy, now, Courtesy::too_late_ns - 1)) {
    courtesy.worked();
    EXPECT_TRUE(courtesy.is_on());
  }
}

TEST(Courtesy, AThreadThatHasNothingToDoIsLeftToSleep) {
  Courtesy courtesy;
  TimeNs now = ms;
  int looks = 0;
  for (; courtesy.next_deadline_ns(now) != no_deadline; now += 1000 * ms) ++looks;
  EXPECT_EQ(looks, 8);
  courtesy.worked();
  EXPECT_EQ(courtesy.next_deadline_ns(now), now + Courtesy::shortest_sleep_ns);
  // A sleep without a deadline cannot be too long.
  Courtesy idle;
  idle.woke(no_deadline, 1000 * ms);
  EXPECT_TRUE(idle.is_on());
}

TEST(Courtesy, EndsWhenItWakesUpLateAndIsTriedAgainEverMoreRarely) {
  Courtesy courtesy;
  TimeNs now = 1000 * ms;
  for (TimeNs pause = Courtesy::shortest_pause_ns; pause < 4 * Courtesy::longest_pause_ns; pause *= 2) {
    now = sleep(courtesy, now, late);
    EXPECT_FALSE(courtesy.is_on());
    EXPECT_EQ(courtesy.next_deadline_ns(now), no_deadline);
    const TimeNs expected = pause < Courtesy::longest_pause_ns ? pause : Courtesy::longest_pause_ns;
    courtesy.woke(no_deadline, now + expected - 1);
    EXPECT_FALSE(courtesy.is_on());
    courtesy.woke(no_deadline, now += expected);
    EXPECT_TRUE(courtesy.is_on());
  }
}

TEST(Courtesy, ThatWentWellForAsLongAsThePauseMakesPausesShortAgain) {
  Courtesy courtesy;
  TimeNs now = 1000 * ms;
  for (int i = 0; i < 3; ++i) {
    now = sleep(courtesy, now, late);
    courtesy.woke(no_deadline, now += Courtesy::longest_pause_ns);
  }
  ASSERT_TRUE(courtesy.is_on());
  now = sleep(courtesy, now + Courtesy::longest_pause_ns, 0);
  now = sleep(courtesy, now, late);
  ASSERT_FALSE(courtesy.is_on());
  courtesy.woke(no_deadline, now + Courtesy::shortest_pause_ns);
  EXPECT_TRUE(courtesy.is_on());
}

TEST(CourteousThread, InterruptsNobodyAndLeavesOthersAsTheyAre) {
  const int usual = ::sched_getscheduler(0);
  int policy = -1;
  int policy_when_late = -1;
  std::thread([&] {
    CourteousThread courteous(true);
    policy = ::sched_getscheduler(0);
    courteous.woke(1000 * ms, 1010 * ms);
    policy_when_late = ::sched_getscheduler(0);
  }).join();
  EXPECT_EQ(policy, usual == SCHED_OTHER ? SCHED_BATCH : usual);
  EXPECT_EQ(policy_when_late, usual);
  EXPECT_EQ(::sched_getscheduler(0), usual);
}

}  // namespace craton::fabric::test
