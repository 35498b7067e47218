/// \file
/// The monitor of a running program (waits/monitor.hpp).
#pragma once

#include <ctime>

#include "base/clock.hpp"
#include "posix/shared_program.hpp"
#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// Of this process; null before the program has started, and where it has one rank only.
Monitor* monitor() noexcept;
/// Of the fabric's clock, where the program names a time of another. There must be a monitor.
TimeNs deadline_of(clockid_t clock, const timespec* until) noexcept;
/// The same, where it names a length of time from now on. More than the clock can count is no_deadline.
TimeNs deadline_after(const timespec& length) noexcept;
/// \throws Error
void start_monitor(SharedProgram& program);

}  // namespace craton::posix
