#include "posix/futexes.hpp"

#include <linux/futex.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "posix/monitor.hpp"

namespace craton::posix {

namespace {

/// The kernel's deadline: of a bit set's wait a point in time, else a length of it.
TimeNs futex_deadline(int operation, const timespec* time) noexcept {
  if (time == nullptr) return no_deadline;
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT) return deadline_after(*time);
  return deadline_of((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, time);
}

/// \returns 0 or an error number
int wait_on_futex(Monitor& monitor, std::uint32_t* word, std::uint32_t expected, TimeNs deadline_ns) {
  const auto differs = [&] { return std::atomic_ref(*word).load(std::memory_order_relaxed) != expected; };
  switch (monitor.wait_once(word, differs, deadline_ns)) {
    case Monitor::Slept::holds:
      return EAGAIN;
    case Monitor::Slept::timed_out:
      return ETIMEDOUT;
    case Monitor::Slept::woken:
      break;
  }
  monitor.inside(word, [] {});  // learns what the waker wrote
  return monitor.now_ns() >= deadline_ns ? ETIMEDOUT : 0;
}

}  // namespace

bool run_shared_futex(const long (&arguments)[6], long& result) noexcept {
  auto* const word = reinterpret_cast<std::uint32_t*>(arguments[0]);
  Monitor* const shared = monitor();
  if (shared == nullptr || !shared_program()->is_shared(word)) return false;
  const int operation = static_cast<int>(arguments[1]);
  int error = 0;
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      error = wait_on_futex(*shared, word, static_cast<std::uint32_t>(arguments[2]),
                            futex_deadline(operation, reinterpret_cast<const timespec*>(arguments[3])));
      break;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      shared->inside(word, [] {});
      shared->wake_all(word);
      break;
    default:
      error = ENOSYS;
  }
  if (error != 0) errno = error;
  result = error == 0 ? 0 : -1;
  return true;
}

}  // namespace craton::posix
