/// \file
/// The environment, one for all ranks.
#pragma once

namespace craton::posix {

/// Before this rank's `environ` is read: what another rank has made is there to be seen. Any thread; blocks.
void follow_environment() noexcept;

}  // namespace craton::posix
