#include "ranks.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/futex.hpp"

namespace craton::fabric::ucx::testing {

namespace {

constexpr HandlerId barrier_handler = 1;
constexpr std::size_t max_address_bytes = 4096;
constexpr int exit_ok = 0;
constexpr int exit_failed = 1;

JobSecret secret_of(unsigned char filler) {
  JobSecret secret;
  secret.fill(filler);
  return secret;
}

void send_all(int fd, const std::string& packet) {
  if (::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(packet.size())) {
    throw std::runtime_error("cannot send through the hub");
  }
}

/// One packet, or an empty string if the other end is gone.
std::string receive_packet(int fd) {
  std::array<char, max_address_bytes> packet{};
  const ssize_t bytes = ::recv(fd, packet.data(), packet.size(), 0);
  return {packet.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

/// Collects one packet of each rank and gives all of them to each. Ends when a rank's process has.
void run_hub(const std::vector<UniqueFd>& ranks) {
  for (;;) {
    std::vector<std::string> all;
    for (const UniqueFd& rank : ranks) {
      all.push_back(receive_packet(rank.get()));
      if (all.back().empty()) return;
    }
    for (const UniqueFd& rank : ranks) {
      for (const std::string& one : all) {
        if (::send(rank.get(), one.data(), one.size(), MSG_NOSIGNAL) < 0) return;
      }
    }
  }
}

int run_rank(Rank rank, Rank size, UniqueFd hub, const RunOptions& options,
             const std::function<void(TestRank&)>& body) {
  try {
    const bool stranger = options.with_another_secret.count(rank) != 0;
    TestRank self(rank, size, std::move(hub), options.ucx, secret_of(stranger ? 0x55 : 0xaa));
    if (options.connect) self.connect_all();
    body(self);
    return exit_ok;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    return exit_failed;
  }
}

/// Waits for a child until a time limit, then kills it. \returns what waitpid says
int reap(pid_t child, TimeNs deadline_ns) {
  const SteadyClock clock;
  int status = 0;
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd waited{.fd = pidfd, .events = POLLIN, .revents = 0};
  const TimeNs left_ms = std::max<TimeNs>((deadline_ns - clock.now_ns()) / 1'000'000, 0);
  if (::poll(&waited, 1, static_cast<int>(left_ms)) == 0) {
    ADD_FAILURE() << "process " << child << " does not end";
    ::kill(child, SIGKILL);
  }
  ::close(pidfd);
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

TestRank::TestRank(Rank rank, Rank size, UniqueFd hub, const UcxOptions& options, const JobSecret& secret)
    : rank_(rank), size_(size), hub_(std::move(hub)), announced_(size), barriers_(size) {
  handlers.resize(max_handlers);
  transport_ = make_ucx_transport(rank, size, secret, *this, options);
}

TestRank::~TestRank() = default;

std::vector<std::string> TestRank::exchange(const std::string& mine) {
  send_all(hub_.get(), mine);
  std::vector<std::string> all;
  for (Rank peer = 0; peer < size_; ++peer) {
    all.push_back(receive_packet(hub_.get()));
    expect(!all.back().empty(), "the hub is gone");
  }
  return all;
}

void TestRank::connect_all() {
  const std::vector<std::string> addresses = exchange(transport_->address());
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) transport_->connect(peer, addresses[peer]);
  }
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    expect(wait_until([&] { return transport_->connected(peer); }),
           "not connected to " + std::to_string(peer));
  }
}

void TestRank::register_region(std::size_t bytes) {
  memory_ = std::make_unique<RegionMemory>("test", bytes);
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) transport_->announce_region(peer, test_region, *memory_);
  }
  expect(wait_until([&] {
           for (Rank peer = 0; peer < size_; ++peer) {
             if (peer != rank_ && announced_[peer] != bytes) return false;
           }
           return true;
         }),
         "a region was not announced");
  barrier();
}

void TestRank::barrier() {
  ++barrier_number_;
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer != rank_) send(peer, barrier_handler, nullptr, 0);
  }
  expect(wait_until([&] {
           for (Rank peer = 0; peer < size_; ++peer) {
             if (peer != rank_ && barriers_[peer] < barrier_number_) return false;
           }
           return true;
         }),
         "a barrier did not end");
}

bool TestRank::wait_until(const std::function<bool()>& condition, TimeNs limit_ns) {
  constexpr TimeNs spin_ns = 20'000;
  const TimeNs deadline_ns = clock_.now_ns() + limit_ns;
  TimeNs sleep_at_ns = clock_.now_ns() + spin_ns;
  while (!condition()) {
    if (transport_->poll()) {
      sleep_at_ns = clock_.now_ns() + spin_ns;
      continue;
    }
    const TimeNs now_ns = clock_.now_ns();
    if (now_ns >= deadline_ns) return false;
    if (now_ns < sleep_at_ns) {
      spin_pause();
    } else if (transport_->ready_to_sleep()) {
      ++sleeps;
      pollfd waited{.fd = transport_->descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&waited, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000) + 1);
    }
  }
  return true;
}

Status TestRank::wait(Completion& completion) {
  expect(wait_until([&] { return completion.done(); }), "an operation does not complete");
  return completion.status();
}

void TestRank::leave() {
  for (Rank peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    expect(wait_until([&] { return transport_->say_farewell(peer); }), "cannot say farewell");
  }
  expect(wait_until([&] { return left.size() == size_ - 1; }), "a farewell did not come");
}

void TestRank::get(void* destination, Rank source, std::uint64_t offset, std::size_t bytes,
                   Completion& completion) {
  completion.start();
  transport_->get(destination, {source, test_region, offset}, bytes, completion);
}

void TestRank::put(Rank target, std::uint64_t offset, const void* source, std::size_t bytes,
                   Completion& completion) {
  completion.start();
  transport_->put({target, test_region, offset}, source, bytes, completion);
}

void TestRank::atomic(AtomicKind kind, Rank target, std::uint64_t offset, std::uint64_t first,
                      std::uint64_t second, std::uint64_t* previous, Completion& completion) {
  completion.start();
  transport_->atomic({kind, first, second}, {target, test_region, offset}, previous, completion);
}

void TestRank::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) {
  expect(wait_until([&] { return transport_->send(target, handler, payload, bytes, true); }),
         "no room to send");
}

void TestRank::message_arrived(Rank source, HandlerId handler, const std::byte* payload, std::size_t bytes) {
  ++messages;
  expect(reinterpret_cast<std::uintptr_t>(payload) % 8 == 0, "a payload is not aligned");
  if (handler == barrier_handler) {
    ++barriers_[source];
  } else if (handlers[handler]) {
    handlers[handler](source, payload, bytes);
  }
}

void TestRank::region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* /*direct*/) {
  expect_equal(region, test_region, "announced region");
  announced_[source] = bytes;  // perhaps before this rank has registered its own part
}

void TestRank::peer_lost(Rank peer, const char* cause) {
  expect(lost.insert(peer).second, "a peer was lost twice");
  expect(cause != nullptr && *cause != '\0', "a peer was lost without a cause");
}

void TestRank::peer_left(Rank peer) {
  left.insert(peer);
}

TransportEvents::LocalPart TestRank::local_part(RegionId /*region*/) const noexcept {
  return {nullptr, 0};
}

void run_ranks(Rank size, const RunOptions& options, const std::function<void(TestRank&)>& body) {
  const SteadyClock clock;
  const TimeNs deadline_ns = clock.now_ns() + 2 * wait_limit_ns;
  std::vector<UniqueFd> hub;
  std::vector<pid_t> children;
  for (Rank rank = 0; rank < size; ++rank) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd mine(ends[0]);
    UniqueFd childs(ends[1]);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      mine.reset();
      hub.clear();
      ::_exit(run_rank(rank, size, std::move(childs), options, body));
    }
    hub.push_back(std::move(mine));
    children.push_back(child);
  }
  run_hub(hub);
  for (Rank rank = 0; rank < size; ++rank) {
    const int status = reap(children[rank], deadline_ns);
    if (options.expect_killed.count(rank) != 0) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "rank " << rank << ": " << status;
    } else {
      EXPECT_EQ(status, 0) << "rank " << rank << (WIFSIGNALED(status) ? " died of a signal" : " failed");
    }
  }
}

int run_alone(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  const SteadyClock clock;
  const int status = reap(child, clock.now_ns() + wait_limit_ns);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string reason_to_skip() {
  static const std::string reason = [] {
    int ends[2];
    if (::pipe(ends) != 0) return std::string("no pipe");
    UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    run_alone([&write_end] {
      const std::string why = ucx_availability().reason_why_not;
      return ::write(write_end.get(), why.data(), why.size()) < 0 ? 1 : 0;
    });
    write_end.reset();
    std::array<char, 512> text{};
    const ssize_t bytes = ::read(read_end.get(), text.data(), text.size());
    return std::string(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  }();
  return reason;
}

}  // namespace craton::fabric::ucx::testing
