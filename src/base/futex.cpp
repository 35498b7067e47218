#include "base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace craton {

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, TimeNs deadline_ns) noexcept {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  timespec deadline{};
  if (deadline_ns != no_deadline) {
    deadline.tv_sec = deadline_ns / 1'000'000'000;
    deadline.tv_nsec = deadline_ns % 1'000'000'000;
  }
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, deadline_ns == no_deadline ? nullptr : &deadline,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept {
  return static_cast<int>(::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0));
}

}  // namespace craton
