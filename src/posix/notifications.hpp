/// \file
/// Functions of the program that the C library calls when a timer expires (SIGEV_THREAD): each time on a
/// thread that it makes for this, with all signals blocked. There the first fault in shared memory would
/// kill. On those that it makes for queues, asynchronous calls and look-ups, it lets all signals in itself.
///
///     program ──▶ timer_create(event) ──▶ real timer_create(Notification(event))
///     thread of the C library ──▶ ours, which lets faults be handled ──▶ the program's function
#pragma once

#include <signal.h>

namespace craton::posix {

/// What the C library is given for an event of the program's. Any thread; not in signal handlers.
class Notification {
 public:
  explicit Notification(const sigevent* event) noexcept;
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  // NOLINTNEXTLINE(google-explicit-constructor)
  operator sigevent*() noexcept { return is_there_ ? &copy_ : nullptr; }

 private:
  const bool is_there_;
  sigevent copy_{};
};

}  // namespace craton::posix
