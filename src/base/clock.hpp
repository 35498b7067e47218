/// \file
/// Time as an interface, so that the simulator and tests own it. Times are nanoseconds from an arbitrary
/// start.
#pragma once

#include <cstdint>
#include <ctime>
#include <limits>

namespace craton {

using TimeNs = std::int64_t;

/// A deadline that never passes.
inline constexpr TimeNs no_deadline = std::numeric_limits<TimeNs>::max();

/// As the kernel wants a time.
inline timespec timespec_of(TimeNs time_ns) noexcept {
  return {.tv_sec = time_ns / 1'000'000'000, .tv_nsec = time_ns % 1'000'000'000};
}

/// Any thread may read a clock; reading does not block.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now_ns() const noexcept = 0;
};

/// CLOCK_MONOTONIC: about 40 ns a reading, async-signal-safe.
class SteadyClock final : public Clock {
 public:
  TimeNs now_ns() const noexcept override;
};

/// A clock that its owner turns by hand. Not for several threads.
class ManualClock final : public Clock {
 public:
  TimeNs now_ns() const noexcept override { return now_ns_; }
  void advance_ns(TimeNs by_ns) noexcept { now_ns_ += by_ns; }
  void set_ns(TimeNs to_ns) noexcept { now_ns_ = to_ns; }

 private:
  TimeNs now_ns_ = 0;
};

}  // namespace craton
