#include "omp/polling.hpp"

#include <gtest/gtest.h>

namespace craton::omp {

namespace {

/// A thread that flushes for a microsecond, once a gap.
class Poller {
 public:
  explicit Poller(bool is_crowded) : is_crowded_(is_crowded) {}

  bool flush(bool found, TimeNs gap_ns = 100) {
    const TimeNs began_ns = now_ns_ + gap_ns;
    now_ns_ = began_ns + flush_ns;
    return polling_.is_to_sleep(found, began_ns, now_ns_, is_crowded_);
  }
  void sleep() {
    now_ns_ += Polling::sleep_ns;
    polling_.woke(now_ns_);
  }
  /// \returns how long it flushes in vain until it is to sleep
  TimeNs patience_ns(TimeNs gap_ns = 100) {
    const TimeNs before_ns = now_ns_;
    while (!flush(false, gap_ns)) {
      if (now_ns_ - before_ns > 100 * Polling::patience_ns) return no_deadline;
    }
    return now_ns_ - before_ns;
  }

 private:
  static constexpr TimeNs flush_ns = 1'000;
  const bool is_crowded_;
  Polling polling_;
  TimeNs now_ns_ = 0;
};

void expect_about(TimeNs found_ns, TimeNs expected_ns) {
  EXPECT_GE(found_ns, expected_ns);
  EXPECT_LE(found_ns, expected_ns + 3'000);
}

TEST(Polling, SleepsWhenItHasLookedInVainForLong) {
  expect_about(Poller(true).patience_ns(), Polling::patience_if_crowded_ns);
  expect_about(Poller(false).patience_ns(), Polling::patience_ns);
}

TEST(Polling, GoesOnAfterASleep) {
  Poller poller(true);
  static_cast<void>(poller.patience_ns());
  poller.sleep();
  EXPECT_TRUE(poller.flush(false));
}

TEST(Polling, BeginsAnewWhenSomethingWasFound) {
  Poller poller(true);
  static_cast<void>(poller.patience_ns());
  EXPECT_FALSE(poller.flush(true));
  EXPECT_FALSE(poller.flush(false));
  expect_about(poller.patience_ns(), Polling::patience_if_crowded_ns);
}

TEST(Polling, IsNotWhatWorksBetweenItsFlushes) {
  EXPECT_EQ(Poller(true).patience_ns(2 * Polling::longest_gap_ns), no_deadline);
}

TEST(Polling, LooksLongerByAsMuchAsItWasInterrupted) {
  constexpr TimeNs interruption_ns = Polling::patience_ns / 10;
  Poller poller(false);
  static_cast<void>(poller.patience_ns());
  poller.sleep();
  EXPECT_FALSE(poller.flush(false, interruption_ns));
  expect_about(poller.patience_ns(), interruption_ns);
}

TEST(Polling, BeginsAnewAfterWorkAsLongAsItsPatience) {
  Poller poller(false);
  static_cast<void>(poller.patience_ns());
  EXPECT_FALSE(poller.flush(false, Polling::patience_ns));
  expect_about(poller.patience_ns(), Polling::patience_ns);
}

}  // namespace

}  // namespace craton::omp
