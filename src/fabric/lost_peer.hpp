/// \file
/// The time between the loss of a rank and the end of the job.
#pragma once

#include <unistd.h>

#include "base/error.hpp"

namespace craton::fabric {

/// A rank that has lost another is about to be ended by the launcher, which says why. One that has found out
/// and cannot go on calls this before it says so itself: where the error is a lost peer, it waits 5 s for
/// that.
inline void wait_for_the_end_if_lost(const Error& error) noexcept {
  constexpr unsigned patience_s = 5;
  if (error.code() == ErrorCode::peer_lost) ::sleep(patience_s);
}

}  // namespace craton::fabric
