#include "base/clock.hpp"

namespace craton {

TimeNs SteadyClock::now_ns() const noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<TimeNs>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace craton
