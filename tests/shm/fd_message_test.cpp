// Descriptors on their way to other processes.
#include "fabric/shm/fd_message.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace craton::fabric::shm {
namespace {

constexpr rlim_t descriptors_most = 64;
constexpr int too_many_messages = 200;
constexpr int not_limited = 77;

/// One message with two descriptors, at once or not at all.
bool send_raw(int socket, int fd) {
  char byte = 0;
  iovec body{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> space{};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  header.msg_control = space.data();
  header.msg_controllen = space.size();
  cmsghdr* const control = CMSG_FIRSTHDR(&header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> fds{fd, fd};
  std::memcpy(CMSG_DATA(control), fds.data(), sizeof fds);
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

/// In a process that loses its privileges: as many descriptors are under way as this user may have there, and
/// a while later they are received. \returns 0 if a message that is sent meanwhile waits for that
int send_among_many() {
  if (::geteuid() == 0 && ::setuid(65534) != 0) return not_limited;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = descriptors_most;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return not_limited;
  std::array<int, 2> others{};
  std::array<int, 2> ours{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, others.data()) != 0 ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ours.data()) != 0)
    return not_limited;
  int sent = 0;
  while (sent < too_many_messages && send_raw(others[0], STDERR_FILENO)) ++sent;
  if (sent == too_many_messages || errno != ETOOMANYREFS) return not_limited;
  std::thread receiver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::close(others[0]);
    ::close(others[1]);  // what lies in it is given back
  });
  const bool is_sent = send_fd_message(ours[0], FdMessage(), STDERR_FILENO, STDERR_FILENO);
  receiver.join();
  ReceivedFdMessage received;
  return is_sent && receive_fd_message(ours[1], received) == ReceiveOutcome::received ? 0 : 1;
}

TEST(FdMessage, WaitsUntilOthersHaveReceivedTheirs) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::_Exit(send_among_many());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_limited) GTEST_SKIP() << "here a user's descriptors under way have no limit";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace craton::fabric::shm
