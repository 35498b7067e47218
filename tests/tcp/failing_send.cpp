#include "failing_send.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace craton::fabric::tcp {

namespace {

std::atomic<int> next_errno{0};

}  // namespace

void fail_next_send(int errno_value) noexcept {
  next_errno.store(errno_value);
}
bool send_is_to_fail() noexcept {
  return next_errno.load() != 0;
}

}  // namespace craton::fabric::tcp

/// Stands in for the C library's.
extern "C" ssize_t send(int socket, const void* bytes, size_t size, int flags) {
  if (const int errno_value = craton::fabric::tcp::next_errno.exchange(0); errno_value != 0) {
    errno = errno_value;
    return -1;
  }
  return ::syscall(SYS_sendto, socket, bytes, size, flags, nullptr, 0);
}
