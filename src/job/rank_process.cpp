#include "job/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "job/placement.hpp"
#include "job/program.hpp"

namespace craton::job {

namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

[[noreturn]] void cannot_start(Rank rank, int errno_value) {
  throw Error::from_errno("cannot start rank " + std::to_string(rank), errno_value, "ulimit -n, ulimit -u");
}

Pipe make_pipe(Rank rank) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) cannot_start(rank, errno);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// In the child: everything between fork and exec. The node has one thread, so it may allocate.
/// \returns errno of what failed
int become_rank(const StartOrder& order, Rank rank, pid_t node, int input, int out, int error, int control) {
  ::setpgid(0, 0);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (::getppid() != node) ::_exit(128 + SIGKILL);  // the node died before the line above
  for (int number = 1; number < NSIG; ++number) std::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(input, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(error, STDERR_FILENO) < 0)
    return errno;
  if (::fcntl(control, F_SETFD, 0) != 0) return errno;
  for (const auto& [name, value] : order.environment) ::setenv(name.c_str(), value.c_str(), 1);
  const bool shared = is_one_program(order);
  // Ranks that share all memory have to find everything at the same addresses, also what is on the stack
  // below these variables.
  if (shared && ::personality(ADDR_NO_RANDOMIZE) < 0) return errno;
  const int width = shared ? 10 : 1;
  ::setenv(rank_variable, fmt::format("{:0{}}", rank, width).c_str(), 1);
  ::setenv(size_variable, std::to_string(order.size).c_str(), 1);
  ::setenv(control_variable, fmt::format("{:0{}}", control, width).c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : order.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return errno;
}

/// Reads the errno that a child could not execute its program with; 0 if it could.
int wait_for_exec(int report) {
  int errno_value = 0;
  ssize_t count = 0;
  do {
    count = ::read(report, &errno_value, sizeof errno_value);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof errno_value) ? errno_value : 0;
}

}  // namespace

bool is_one_program(const StartOrder& order) {
  return std::any_of(order.environment.begin(), order.environment.end(),
                     [](const auto& variable) { return variable.first == shared_variable; });
}

RankProcess start_rank(const StartOrder& order, Rank rank, UniqueFd given) {
  RankProcess process;
  Pipe out = make_pipe(rank);
  // The ranks of one program write to one pipe, so that what they write in turns arrives in turns. Of it the
  // first one's process has the end to read.
  static UniqueFd shared_out;
  const bool is_shared = is_one_program(order);
  if (is_shared && rank == order.first_rank) shared_out.reset(::fcntl(out.write.get(), F_DUPFD_CLOEXEC, 0));
  if (is_shared && shared_out && rank != order.first_rank)
    out.write.reset(::fcntl(shared_out.get(), F_DUPFD_CLOEXEC, 0));
  if (is_shared && rank + 1 == order.first_rank + order.rank_count) shared_out.reset();
  if (!out.write) cannot_start(rank, errno);
  Pipe error = make_pipe(rank);
  Pipe report = make_pipe(rank);
  Pipe input;
  if (given) {
    input.read = std::move(given);
  } else if (rank == 0) {
    input = make_pipe(rank);
  } else {
    input.read.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!input.read) cannot_start(rank, errno);
  }
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) cannot_start(rank, errno);
  process.control.reset(sockets[0]);
  const UniqueFd control_of_rank(sockets[1]);

  const pid_t node = ::getpid();
  process.pid = ::fork();
  if (process.pid < 0) cannot_start(rank, errno);
  if (process.pid == 0) {
    const int errno_value = become_rank(order, rank, node, input.read.get(), out.write.get(),
                                        error.write.get(), control_of_rank.get());
    // If even this cannot be written, the exit code is all that is left to tell.
    const ssize_t written = ::write(report.write.get(), &errno_value, sizeof errno_value);
    ::_exit(written == static_cast<ssize_t>(sizeof errno_value) ? 127 : 126);
  }
  ::setpgid(process.pid, process.pid);  // both sides do it, so that neither can be too late
  report.write.reset();
  process.exec_errno = wait_for_exec(report.read.get());
  if (process.exec_errno != 0) {
    ::waitpid(process.pid, nullptr, 0);
    process.pid = -1;
    return process;
  }
  process.out = std::move(out.read);
  process.error = std::move(error.read);
  process.input = std::move(input.write);
  for (const int fd : {process.out.get(), process.error.get(), process.input.get()}) {
    if (fd >= 0 && ::fcntl(fd, F_SETFL, O_NONBLOCK | ::fcntl(fd, F_GETFL)) != 0) cannot_start(rank, errno);
  }
  return process;
}

StartResult exec_failure(const StartOrder& order, int errno_value) {
  StartResult result;
  const bool missing = errno_value == ENOENT || errno_value == ENOTDIR;
  result.exit_code = missing ? 127 : 126;
  const std::string& name = order.command[0];
  result.message = "cannot run " + (name.empty() ? "\"\"" : name) + " on host " + this_host_name() + ": " +
                   std::generic_category().message(errno_value);
  struct stat status {};
  if (missing && ::stat(order.command[0].c_str(), &status) == 0) {
    result.message += " (the file is there, so it must be the interpreter that it names)";
  }
  return result;
}

StartResult check_program(const StartOrder& order) {
  std::string_view path = program_path();
  for (const auto& [name, value] : order.environment) {
    if (name == "PATH") path = value;
  }
  const FoundProgram found = find_program(order.command[0], path);
  return found.errno_value == 0 ? StartResult() : exec_failure(order, found.errno_value);
}

}  // namespace craton::job
