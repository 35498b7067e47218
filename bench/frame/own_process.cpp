#include "frame/own_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <string_view>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace craton::bench {
namespace {

/// Never returns: what other code has registered for the end of a process is not for this one.
[[noreturn]] void run_child(unsigned limit_s, int message_fd, FunctionRef<void()> body) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(limit_s);
  try {
    body();
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    static_cast<void>(!::write(message_fd, text.data(), text.size()));
    ::_exit(1);
  }
  ::_exit(0);
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 1024> piece;
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string in_own_process(unsigned limit_s, FunctionRef<void()> body) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error::from_errno("cannot make a pipe", errno);
  UniqueFd from_child(ends[0]);
  UniqueFd to_parent(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) throw Error::from_errno("cannot fork a process for a turn", errno);
  if (child == 0) run_child(limit_s, to_parent.get(), body);
  to_parent.reset();
  std::string message = read_to_end(from_child.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Error::from_errno("cannot wait for the process of a turn", errno);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fmt::format("ran past its limit of {} s", limit_s);
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return message.empty() ? fmt::format("exit code {}", WEXITSTATUS(status)) : message;
}

}  // namespace craton::bench
