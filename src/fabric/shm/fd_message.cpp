#include "fabric/shm/fd_message.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/clock.hpp"

namespace craton::fabric::shm {

namespace {
constexpr int max_fds = 2;
constexpr TimeNs room_timeout_ns = 10'000'000'000;
constexpr int look_again_ms = 1;

/// Too many references: descriptors of this user that nobody has received yet, on any socket, are more than
/// this process may have open.
bool waits_for_room(int errno_value) {
  return errno_value == EAGAIN || errno_value == ENOBUFS || errno_value == ETOOMANYREFS;
}

}  // namespace

bool send_fd_message(int socket, const FdMessage& message, int first_fd, int second_fd) noexcept {
  FdMessage copy = message;
  iovec body{.iov_base = &copy, .iov_len = sizeof copy};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_fds * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  const std::array<int, max_fds> fds{first_fd, second_fd};
  const std::size_t count = first_fd < 0 ? 0U : second_fd < 0 ? 1U : 2U;
  if (count != 0) {
    header.msg_control = space.data();
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(control), fds.data(), count * sizeof(int));
  }
  const SteadyClock clock;
  const TimeNs deadline_ns = clock.now_ns() + room_timeout_ns;
  for (;;) {
    if (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof copy))
      return true;
    if (errno == EINTR) continue;
    const int refusal = errno;
    const TimeNs left_ns = deadline_ns - clock.now_ns();
    if (!waits_for_room(refusal) || left_ns <= 0) return false;
    // The other side's agent empties the socket whatever its application does, so this ends soon. Of what is
    // short elsewhere this socket tells nothing.
    pollfd writable{.fd = socket, .events = POLLOUT, .revents = 0};
    const bool is_full = refusal == EAGAIN;
    ::poll(&writable, is_full ? 1 : 0, is_full ? static_cast<int>(left_ns / 1'000'000 + 1) : look_again_ms);
  }
}

ReceiveOutcome receive_fd_message(int socket, ReceivedFdMessage& received) noexcept {
  iovec body{.iov_base = &received.message, .iov_len = sizeof received.message};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_fds * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  const ssize_t bytes = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (bytes < 0) return errno == EAGAIN || errno == EINTR ? ReceiveOutcome::nothing : ReceiveOutcome::ended;
  if (bytes == 0) return ReceiveOutcome::ended;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof fd);
      if (i < max_fds) {
        received.fds[i].reset(fd);
      } else {
        UniqueFd(fd).reset();
      }
    }
  }
  const bool whole = bytes == static_cast<ssize_t>(sizeof received.message) &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && received.message.magic == FdMessage::expected_magic ? ReceiveOutcome::received
                                                                      : ReceiveOutcome::malformed;
}

ManyDescriptorsUnderWay::ManyDescriptorsUnderWay() noexcept {
  if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) return;
  const rlimit raised{.rlim_cur = before_.rlim_max, .rlim_max = before_.rlim_max};
  is_raised_ = raised.rlim_cur != before_.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) == 0;
}

ManyDescriptorsUnderWay::~ManyDescriptorsUnderWay() {
  if (is_raised_) ::setrlimit(RLIMIT_NOFILE, &before_);
}

}  // namespace craton::fabric::shm
