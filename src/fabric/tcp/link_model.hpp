/// \file
/// A slower link than the one we have.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace craton::fabric {

/// For tests and predictions: a frame leaves when the link is free and arrives `delay_ns` later.
struct LinkModel {
  TimeNs delay_ns = 0;                 ///< one way
  std::uint64_t bytes_per_second = 0;  ///< 0: as fast as it goes
  bool active() const noexcept { return delay_ns != 0 || bytes_per_second != 0; }
};

}  // namespace craton::fabric
