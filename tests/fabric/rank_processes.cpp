#include "rank_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "conformance.hpp"

namespace craton::fabric::conformance {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int child_limit_s = 600;  ///< for one answer; the test's own limit comes first

void write_all(int fd, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw Error::from_errno("cannot write to the other end of a test", errno);
    done += static_cast<std::size_t>(wrote);
  }
}

std::string frame(char letter, const std::string& payload) {
  const auto length = static_cast<std::uint32_t>(payload.size());
  std::string bytes(1 + sizeof length, letter);
  std::memcpy(bytes.data() + 1, &length, sizeof length);
  return bytes + payload;
}

/// Takes the first whole frame out of a buffer.
std::optional<std::pair<char, std::string>> take_frame(std::string& buffer) {
  std::uint32_t length = 0;
  constexpr std::size_t head = 1 + sizeof length;
  if (buffer.size() < head) return std::nullopt;
  std::memcpy(&length, buffer.data() + 1, sizeof length);
  if (buffer.size() < head + length) return std::nullopt;
  std::pair<char, std::string> taken{buffer[0], buffer.substr(head, length)};
  buffer.erase(0, head + length);
  return taken;
}

/// Says what the last failed check was when an assertion ends the process while a case is unwound.
void report_crash(int signal) {
  const char* text = last_failed_check();
  static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
  std::signal(signal, SIG_DFL);
  static_cast<void>(::raise(signal));
}

}  // namespace

// ---- In a child

void ParentLink::send(char letter, const std::string& payload) {
  const std::lock_guard lock(lock_);
  write_all(socket_.get(), frame(letter, payload));
}

std::string ParentLink::receive() {
  std::string buffer;
  for (;;) {
    if (auto taken = take_frame(buffer)) return std::move(taken->second);
    pollfd ready{socket_.get(), POLLIN, 0};
    const int polled = ::poll(&ready, 1, child_limit_s * 1000);
    if (polled < 0 && errno == EINTR) continue;
    char bytes[4096];
    const ssize_t got = polled > 0 ? ::recv(socket_.get(), bytes, sizeof bytes, 0) : -1;
    if (got < 0 && polled > 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(ErrorCode::timed_out, {.asked = "rank " + std::to_string(rank_) + " waits for the test",
                                         .happened = polled == 0 ? "no answer" : "it is gone",
                                         .limit = std::to_string(child_limit_s) + " s",
                                         .remedy = {}});
    }
    buffer.append(bytes, static_cast<std::size_t>(got));
  }
}

std::vector<std::string> ParentLink::exchange(const std::string& mine) {
  send('E', mine);
  std::string all = receive();
  std::vector<std::string> given;
  while (auto taken = take_frame(all)) given.push_back(std::move(taken->second));
  return given;
}

void ParentLink::fail(const std::string& why) noexcept {
  try {
    send('F', why);
  } catch (const Error&) {
    // The test has gone, and with it who would read this.
  }
}

void ParentLink::skip(const std::string& why) {
  send('S', why);
}

void ParentLink::done() {
  send('D', "");
  static_cast<void>(receive());
}

// ---- In the test

namespace {

/// The test's side of a job.
class Job {
 public:
  Job(Rank size, std::optional<Rank> victim, int limit_s)
      : ranks_(size), victim_(victim), end_(Clock::now() + std::chrono::seconds(limit_s)) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (Process& process : ranks_) {
      if (process.pid <= 0) continue;
      ::kill(process.pid, SIGKILL);
      reap(process);
    }
  }

  void start(const std::function<void(ParentLink&)>& body) {
    JobSecret secret{};
    std::random_device random;
    for (unsigned char& byte : secret) byte = static_cast<unsigned char>(random());
    std::fflush(nullptr);
    for (Rank rank = 0; rank < ranks_.size(); ++rank) start_one(rank, secret, body);
  }

  JobResult run() {
    while (
        std::any_of(ranks_.begin(), ranks_.end(), [](const Process& process) { return process.pid > 0; })) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
      if (left <= 0) {
        say_who_is_left();
        break;
      }
      poll_once(static_cast<int>(left));
      answer_exchange();
      answer_done();
      if (!result_.skipped.empty()) break;
    }
    return std::move(result_);
  }

 private:
  struct Process {
    pid_t pid = -1;
    UniqueFd socket;
    UniqueFd obituaries;
    std::string buffer;
    std::optional<std::string> exchanged;
    bool done = false;
  };

  void start_one(Rank rank, const JobSecret& secret, const std::function<void(ParentLink&)>& body) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw Error::from_errno("cannot make a socket pair for a rank", errno, "ulimit -n");
    }
    UniqueFd own(ends[0]);
    UniqueFd childs(ends[1]);
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
      throw Error::from_errno("cannot make a pipe for a rank", errno, "ulimit -n");
    }
    UniqueFd obituaries_in(ends[0]);
    UniqueFd obituaries_out(ends[1]);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw Error::from_errno("cannot start a rank", errno, "ulimit -u");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      own.reset();
      obituaries_out.reset();
      for (Process& other : ranks_) {
        other.socket.reset();
        other.obituaries.reset();
      }
      forget_failed_check();
      for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, report_crash);
      ParentLink link(std::move(childs), std::move(obituaries_in), rank, static_cast<Rank>(ranks_.size()),
                      secret);
      int status = 0;
      try {
        body(link);
      } catch (const std::exception& error) {
        link.fail(error.what());
        status = 1;
      }
      std::fflush(nullptr);
      ::_exit(status);
    }
    ranks_[rank].pid = pid;
    ranks_[rank].socket = std::move(own);
    ranks_[rank].obituaries = std::move(obituaries_out);
  }

  void poll_once(int timeout_ms) {
    std::vector<pollfd> fds;
    for (const Process& process : ranks_)
      fds.push_back({process.pid > 0 ? process.socket.get() : -1, POLLIN, 0});
    if (::poll(fds.data(), fds.size(), timeout_ms) <= 0) return;
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      if (fds[rank].revents != 0) read_from(rank);
    }
  }

  void read_from(Rank rank) {
    Process& process = ranks_[rank];
    char bytes[65536];
    const ssize_t got = ::recv(process.socket.get(), bytes, sizeof bytes, 0);
    if (got < 0 && errno == EINTR) return;
    if (got > 0) {
      process.buffer.append(bytes, static_cast<std::size_t>(got));
      while (auto taken = take_frame(process.buffer)) {
        switch (taken->first) {
          case 'E':
            process.exchanged = std::move(taken->second);
            break;
          case 'D':
            process.done = true;
            break;
          case 'S':
            result_.skipped = std::move(taken->second);
            break;
          default:
            failed(rank, taken->second);
            break;
        }
      }
      return;
    }
    const int status = reap(process);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (rank == victim_) {
      for (const Process& other : ranks_) {
        // A rank that ends at this moment need not be told, and its pipe is empty otherwise.
        if (other.pid > 0) static_cast<void>(!::write(other.obituaries.get(), &rank, sizeof rank));
      }
      if (!killed) failed(rank, "was to be killed, but " + text_of(status));
    } else if (status != 0) {
      failed(rank, text_of(status));
    }
  }

  static int reap(Process& process) {
    int status = 0;
    while (::waitpid(process.pid, &status, 0) < 0 && errno == EINTR) {
    }
    process.pid = -1;
    process.socket.reset();
    process.obituaries.reset();
    return status;
  }

  static std::string text_of(int status) {
    if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
    return "exited with " + std::to_string(WEXITSTATUS(status));
  }

  /// Notes a failure and leaves the others a moment to say theirs.
  void failed(Rank rank, const std::string& why) {
    result_.failures.push_back("rank " + std::to_string(rank) + ": " + why);
    end_ = std::min(end_, Clock::now() + std::chrono::seconds(1));
  }

  void say_who_is_left() {
    if (!result_.failures.empty()) return;
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank].pid <= 0) continue;
      result_.failures.push_back("rank " + std::to_string(rank) +
                                 (ranks_[rank].done ? ": did not end in time" : ": was not done in time"));
    }
  }

  void answer_exchange() {
    std::string all;
    for (const Process& process : ranks_) {
      if (!process.exchanged) return;
      all += frame('E', *process.exchanged);
    }
    for (Process& process : ranks_) {
      process.exchanged.reset();
      tell(process, 'E', all);
    }
  }

  void answer_done() {
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != victim_ && !ranks_[rank].done) return;
    }
    if (std::exchange(all_told_, true)) return;
    for (Rank rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != victim_) tell(ranks_[rank], 'D', "");
    }
  }

  static void tell(Process& process, char letter, const std::string& payload) {
    if (process.pid <= 0) return;
    try {
      write_all(process.socket.get(), frame(letter, payload));
    } catch (const Error&) {
      // It is gone, which its end of the socket will tell in a moment, with the reason.
    }
  }

  std::vector<Process> ranks_;
  const std::optional<Rank> victim_;
  Clock::time_point end_;
  bool all_told_ = false;
  JobResult result_;
};

}  // namespace

JobResult run_processes(Rank size, std::optional<Rank> victim, int limit_s,
                        const std::function<void(ParentLink&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // a rank may be gone when it is told of another
  Job job(size, victim, limit_s);
  job.start(body);
  return job.run();
}

}  // namespace craton::fabric::conformance
