#include "job/node_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include "base/error.hpp"

namespace craton::job {

namespace {

std::string own_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length < 0)
    throw Error::from_errno("cannot find the path of this program", errno, "/proc must be mounted");
  return path.data();
}

/// In the child, between fork and exec.
[[noreturn]] void become_agent(const std::vector<std::string>& words, bool local, int in, int out,
                               int input) {
  // Signals that a terminal or timeout(1) sends to the group are the launcher's alone, which passes them on.
  // Ignored signals stay ignored in the agent.
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTERM, SIGUSR1, SIGUSR2})
    std::signal(number, SIG_IGN);
  for (const int number : {SIGPIPE, SIGCHLD}) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (input >= 0) static_cast<void>(::fcntl(input, F_SETFD, 0));
  if (::dup2(in, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0) {
    // By its inode, so that a program that was replaced meanwhile still finds a daemon of its own version.
    ::execvp(local ? "/proc/self/exe" : arguments[0], arguments.data());
  }
  const std::string line = "craton: cannot run " + words[0] + ": " + std::strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());  // best effort
  ::_exit(127);
}

}  // namespace

StartedNode start_node(const std::string& host, const std::vector<std::string>& launch_agent,
                       bool gives_input) {
  const bool local = is_this_host(host);
  std::vector<std::string> words;
  if (!local) {
    words = launch_agent;
    words.push_back(host);
  }
  words.push_back(own_path());
  words.emplace_back("_node");
  UniqueFd input;
  if (local && gives_input && ::isatty(STDIN_FILENO) == 0) {
    input.reset(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!input) throw Error::from_errno("cannot start a node daemon", errno, "ulimit -n");
    words.insert(words.end(), {"--input", std::to_string(input.get())});
  }

  int down[2];
  int up[2];
  if (::pipe2(down, O_CLOEXEC) != 0)
    throw Error::from_errno("cannot start a node daemon", errno, "ulimit -n");
  const UniqueFd in(down[0]);
  UniqueFd to_node(down[1]);
  if (::pipe2(up, O_CLOEXEC) != 0) throw Error::from_errno("cannot start a node daemon", errno, "ulimit -n");
  UniqueFd from_node(up[0]);
  const UniqueFd out(up[1]);
  const pid_t agent = ::fork();
  if (agent < 0) throw Error::from_errno("cannot start a node daemon", errno, "ulimit -u");
  if (agent == 0) become_agent(words, local, in.get(), out.get(), input.get());
  if (input) {
    // Who writes to it learns when rank 0 reads no more.
    const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (nothing) static_cast<void>(::dup2(nothing.get(), STDIN_FILENO));
  }
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + word;
  return {agent, std::move(from_node), std::move(to_node), command, static_cast<bool>(input)};
}

}  // namespace craton::job
