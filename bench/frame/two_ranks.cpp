#include "frame/two_ranks.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/unique_fd.hpp"

namespace craton::bench {
namespace {

constexpr TimeNs farewell_limit_ns = 30'000'000'000;
constexpr std::uint32_t max_blob_bytes = 1U << 20;

void write_all(int fd, const void* from, std::size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t written = ::send(fd, next, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Error::from_errno("cannot pass an address to the other rank", errno);
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

/// \returns false if the other side is gone
bool read_all(int fd, void* to, std::size_t bytes) {
  char* next = static_cast<char*>(to);
  while (bytes != 0) {
    const ssize_t got = ::recv(fd, next, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    next += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool read_blob(int fd, std::string& blob) {
  std::uint32_t bytes = 0;
  if (!read_all(fd, &bytes, sizeof bytes) || bytes > max_blob_bytes) return false;
  blob.resize(bytes);
  return read_all(fd, blob.data(), bytes);
}

void write_blob(int fd, const std::string& blob) {
  const auto bytes = static_cast<std::uint32_t>(blob.size());
  write_all(fd, &bytes, sizeof bytes);
  write_all(fd, blob.data(), blob.size());
}

/// A rank's end: every exchange goes to the parent and comes back with everybody's. The parent holds the time
/// limit.
class SocketBootstrap final : public fabric::Bootstrap {
 public:
  SocketBootstrap(int parent_fd, fabric::Rank rank, fabric::Rank size, const fabric::JobSecret& secret)
      : parent_fd_(parent_fd), rank_(rank), size_(size), secret_(secret) {}
  fabric::Rank rank() const noexcept override { return rank_; }
  fabric::Rank size() const noexcept override { return size_; }
  const fabric::JobSecret& secret() const noexcept override { return secret_; }
  std::vector<std::string> exchange(const std::string& mine) override {
    write_blob(parent_fd_, mine);
    std::vector<std::string> all(size_);
    for (std::string& blob : all) {
      if (!read_blob(parent_fd_, blob)) {
        throw Error(ErrorCode::peer_lost, {"cannot exchange addresses", "the other rank is gone", "", ""});
      }
    }
    return all;
  }

 private:
  int parent_fd_;
  fabric::Rank rank_;
  fabric::Rank size_;
  fabric::JobSecret secret_;
};

/// The processes of a run; killed and reaped whatever happens.
class Processes {
 public:
  explicit Processes(std::size_t size) : pids_(size) {}
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  ~Processes() {
    for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] <= 0) continue;
      ::kill(pids_[rank], SIGKILL);
      static_cast<void>(reap(rank));
    }
  }
  void started(std::size_t rank, pid_t pid) noexcept { pids_[rank] = pid; }
  /// Waits for a process that has ended or is about to. \returns the wait status
  int reap(std::size_t rank) noexcept {
    int status = 0;
    while (::waitpid(pids_[rank], &status, 0) < 0 && errno == EINTR) {
    }
    pids_[rank] = 0;
    return status;
  }

 private:
  std::vector<pid_t> pids_;
};

[[noreturn]] void rank_process(const PairOptions& options, fabric::Rank rank, fabric::Rank size,
                               int parent_fd, const fabric::JobSecret& secret, pid_t parent,
                               const RankMain& body) {
  // A killed parent takes its ranks with it; it may have been killed before prctl.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  int code = 0;
  try {
    pin(options.placement, rank);
    const SteadyClock clock;
    SocketBootstrap bootstrap(parent_fd, rank, size, secret);
    fabric::WiredFabric fabric(bootstrap, options.wired, clock);
    body(fabric);
    if (fabric.farewell(clock.now_ns() + farewell_limit_ns) != fabric::Status::ok) {
      throw Error(ErrorCode::peer_lost,
                  {"cannot end the ranks in order", "the other rank did not get there", "", ""});
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    code = 1;
  }
  std::fflush(nullptr);
  ::_exit(code);
}

Error failed(fabric::Rank rank, int status) {
  const std::string how = WIFSIGNALED(status) ? fmt::format("it was ended by signal {}", WTERMSIG(status))
                                              : fmt::format("it exited with code {}", WEXITSTATUS(status));
  return Error(ErrorCode::peer_lost, {fmt::format("cannot go on without rank {}", rank), how, "", ""});
}

/// Serves exchanges until both ranks are gone. A rank that is gone shows as end of file on its socket.
void serve(std::vector<UniqueFd>& ranks, Processes& processes, TimeNs deadline_ns, const Clock& clock) {
  const std::size_t size = ranks.size();
  std::vector<std::string> blobs(size);
  std::vector<bool> arrived(size);
  while (std::any_of(ranks.begin(), ranks.end(), [](const UniqueFd& fd) { return static_cast<bool>(fd); })) {
    const TimeNs left_ns = deadline_ns - clock.now_ns();
    std::vector<pollfd> ready(size);
    for (std::size_t rank = 0; rank < size; ++rank) ready[rank] = {ranks[rank].get(), POLLIN, 0};
    const int events =
        left_ns <= 0 ? 0 : ::poll(ready.data(), size, static_cast<int>(left_ns / 1'000'000 + 1));
    if (events < 0 && errno == EINTR) continue;
    if (events <= 0) {
      throw Error(ErrorCode::timed_out,
                  {"cannot finish the benchmark", "its ranks ran past their time limit", "", ""});
    }
    for (std::size_t rank = 0; rank < size; ++rank) {
      if (ready[rank].revents == 0) continue;
      if (read_blob(ranks[rank].get(), blobs[rank])) {
        arrived[rank] = true;
      } else {
        ranks[rank].reset();
        const int status = processes.reap(rank);
        if (status != 0) throw failed(static_cast<fabric::Rank>(rank), status);
      }
    }
    if (std::all_of(arrived.begin(), arrived.end(), [](bool here) { return here; })) {
      arrived.assign(size, false);
      for (UniqueFd& rank : ranks) {
        for (const std::string& blob : blobs) write_blob(rank.get(), blob);
      }
    }
  }
}

}  // namespace

PairOptions over_shm() {
  PairOptions options;
  options.wired.network = "shm";
  return options;
}

PairOptions over_tcp() {
  PairOptions options;
  options.wired.network = "tcp";
  options.wired.isolate_nodes = true;
  options.wired.tcp_interface = "127.0.0.1";
  return options;
}

void run_ranks(const PairOptions& options, fabric::Rank size, const RankMain& body) {
  const SteadyClock clock;
  fabric::JobSecret secret{};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    throw Error::from_errno("cannot make a job secret", errno);
  }
  std::fflush(nullptr);  // or each rank would write again what is still buffered

  std::vector<UniqueFd> ranks(size);
  Processes processes(size);
  const pid_t parent = ::getpid();
  for (fabric::Rank rank = 0; rank < size; ++rank) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      throw Error::from_errno("cannot make a socket pair", errno);
    }
    ranks[rank].reset(ends[0]);
    UniqueFd rank_end(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) throw Error::from_errno("cannot start a rank", errno);
    if (pid == 0) {
      // The parent's ends must be its alone, or nobody would see it close them.
      for (UniqueFd& end : ranks) end.reset();
      rank_process(options, rank, size, rank_end.get(), secret, parent, body);
    }
    processes.started(rank, pid);
  }
  serve(ranks, processes, clock.now_ns() + options.limit_ns, clock);
}

void run_pair(const PairOptions& options, const RankMain& initiator, const RankMain& target) {
  run_ranks(options, 2,
            [&](fabric::WiredFabric& fabric) { (fabric.rank() == 0 ? initiator : target)(fabric); });
}

}  // namespace craton::bench
