#include "network_namespaces.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.hpp"

namespace craton::fabric::conformance {

namespace {

constexpr int step_limit_ms = 10'000;

/// Runs a shell command quietly. \returns true if it went well
bool run(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Addresses of RFC 2544's range for tests; nothing but the pair has a route to them.
std::string address(unsigned which) {
  return "198.18.0." + std::to_string(which + 1) + "/30";
}

/// What a holder does: a namespace, then its end of the pair, then nothing until the test ends it.
[[noreturn]] void hold(int socket, unsigned which) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  char answer = ::unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
  if (::send(socket, &answer, 1, MSG_NOSIGNAL) != 1 || ::recv(socket, &answer, 1, 0) != 1) ::_exit(1);
  answer =
      run("ip link set lo up && ip addr add " + address(which) + " dev craton0 && ip link set craton0 up")
          ? 'y'
          : 'n';
  if (::send(socket, &answer, 1, MSG_NOSIGNAL) != 1) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

NetworkNamespaces::NetworkNamespaces() {
  for (unsigned which = 0; which < holders_.size(); ++which) {
    if (!start(holders_[which], which)) return;
  }
  if (!run("ip link add craton0 netns " + std::to_string(holders_[0].pid) +
           " type veth peer name craton0 netns " + std::to_string(holders_[1].pid))) {
    reason_ = "cannot make a veth pair (ip link add ... type veth)";
    return;
  }
  for (const Holder& holder : holders_) {
    const char go = 'g';
    static_cast<void>(::send(holder.socket.get(), &go, 1, MSG_NOSIGNAL));
    if (!hear(holder, "cannot configure a veth interface in its namespace")) return;
  }
}

NetworkNamespaces::~NetworkNamespaces() {
  for (const Holder& holder : holders_) {
    if (holder.pid <= 0) continue;
    ::kill(holder.pid, SIGKILL);
    ::waitpid(holder.pid, nullptr, 0);
  }
}

bool NetworkNamespaces::start(Holder& holder, unsigned which) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    reason_ = std::string("cannot make a socket pair: ") + std::strerror(errno);
    return false;
  }
  holder.socket.reset(ends[0]);
  const UniqueFd childs(ends[1]);
  holder.pid = ::fork();
  if (holder.pid == 0) hold(childs.get(), which);
  if (!hear(holder, "network namespaces are not allowed here (unshare)")) return false;
  const std::string path = "/proc/" + std::to_string(holder.pid) + "/ns/net";
  holder.net.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!holder.net) reason_ = "cannot open " + path;
  return reason_.empty();
}

/// Waits for a holder to say that it got on.
bool NetworkNamespaces::hear(const Holder& holder, const char* what) {
  pollfd readable{holder.socket.get(), POLLIN, 0};
  char answer = 'n';
  if (::poll(&readable, 1, step_limit_ms) != 1 || ::recv(holder.socket.get(), &answer, 1, 0) != 1 ||
      answer != 'y') {
    reason_ = what;
  }
  return reason_.empty();
}

void NetworkNamespaces::enter(unsigned which) const {
  if (::setns(holders_.at(which).net.get(), CLONE_NEWNET) != 0) {
    throw Error::from_errno("cannot enter a network namespace", errno);
  }
}

}  // namespace craton::fabric::conformance
