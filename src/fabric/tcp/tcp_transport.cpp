#include "fabric/tcp/tcp_transport.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/ring_log.hpp"

namespace craton::fabric::tcp {

namespace {

/// The epoll set is asked once for so many looks at the connection where traffic was last; less often while
/// an answer is awaited there.
constexpr unsigned polls_per_set_look = 8;
constexpr unsigned polls_per_set_look_awaiting = 16;
/// Connections that have not proven who they are, and how long they may take.
constexpr std::size_t max_strangers = 64;
constexpr TimeNs stranger_patience_ns = 5'000'000'000;
constexpr TimeNs redial_after_ns = 100'000'000;
/// How long one of several addresses of a peer may take to answer before the next is tried.
constexpr TimeNs dial_patience_ns = 3'000'000'000;
/// Whether the other host is still there is asked after so many idle seconds, so often, so many times.
constexpr int keepalive_idle_s = 10;
constexpr int keepalive_probe_s = 3;
constexpr int keepalive_probes = 5;
/// Refused connections are told about on standard error this often, afterwards only in the ring log.
constexpr std::uint64_t refusals_told = 8;

UniqueFd checked(int fd, const char* asked) {
  if (fd < 0) throw Error::from_errno(asked, errno, "ulimit -n", "raise the limit of open files");
  return UniqueFd(fd);
}

void watch(int epoll_fd, int fd, void* tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = tag;
  if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
    throw Error::from_errno("cannot watch a socket", errno);
}

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

/// What is sent leaves at once. A host that is gone or cut off says no farewell: an idle connection to it
/// ends after keepalive_idle_s + keepalive_probes * keepalive_probe_s. What was sent and is not acknowledged
/// has no such limit (TCP_USER_TIMEOUT), which would end connections to ranks that are stopped and read
/// nothing, too.
void configure(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_probe_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_probes);
}

}  // namespace

TcpTransport::TcpTransport(Rank rank, Rank size, const JobSecret& secret, TcpOptions options,
                           TransportEvents& events, const Clock& clock)
    : rank_(rank),
      size_(size),
      secret_(secret),
      options_(std::move(options)),
      clock_(clock),
      epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "cannot create an epoll set")),
      timer_(options_.link.active() ? checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                                              "cannot create a timer for the delayed link")
                                    : UniqueFd()),
      listener_(listen_somewhere(options_.interface, options_.loopback_only)),
      shared_{.events = events,
              .clock = clock,
              .epoll_fd = epoll_.get(),
              .link = options_.link,
              .timer_fd = timer_.get(),
              .gather = options_.gather,
              .proven = [this](Connection& connection) { return take_into_use(connection); }},
      peers_(size) {
  watch(epoll_.get(), listener_.get(), &listener_);
  if (timer_) watch(epoll_.get(), timer_.get(), &timer_);
}

TcpTransport::~TcpTransport() = default;

Capabilities TcpTransport::capabilities() const noexcept {
  return {.load_store = false,
          .native_one_sided = false,
          .atomic_domain = AtomicDomain::cpu,
          .max_message_bytes = fabric::max_message_bytes,
          .transport = "tcp"};
}

// ---- Wiring

std::string TcpTransport::address() const {
  return describe_listener(listener_.get(), options_.interface, options_.loopback_only);
}

void TcpTransport::connect(Rank peer, const std::string& address) {
  if (peer > rank_) return;  // the higher rank connects
  dials_.push_back({.peer = peer, .addresses = candidates(address)});
}

/// Tries the next address of a peer; after the last, all of them again a little later. Never blocks.
void TcpTransport::dial(Dial& dial) {
  if (dial.next == dial.addresses.size()) {
    if (clock_.now_ns() < dial.retry_ns) return;
    dial.next = 0;
  }
  dial.retry_ns = clock_.now_ns() + redial_after_ns;
  while (dial.connection == nullptr && dial.next < dial.addresses.size()) {
    const SocketAddress& address = dial.addresses[dial.next++];
    UniqueFd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) {
      last_failure_ = fmt::format("cannot create a socket: {}", std::generic_category().message(errno));
      continue;
    }
    configure(socket.get());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0 &&
        errno != EINPROGRESS) {
      last_failure_ =
          fmt::format("cannot connect to {}: {}", address.text, std::generic_category().message(errno));
      continue;
    }
    connections_.push_back(std::make_unique<Connection>(
        shared_, std::move(socket), Handshake::connector(rank_, dial.peer, size_, secret_), true,
        address.text));
    dial.connection = connections_.back().get();
  }
}

void TcpTransport::accept_all() {
  for (;;) {
    sockaddr_storage remote{};
    socklen_t bytes = sizeof remote;
    UniqueFd socket(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&remote), &bytes,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    std::vector<Connection*> silent;
    std::size_t strangers = 0;
    for (const auto& each : connections_) {
      if (!each->accepted() || each->state() != Connection::State::greeting) continue;
      ++strangers;
      if (clock_.now_ns() - each->born_ns() > stranger_patience_ns) silent.push_back(each.get());
    }
    for (Connection* each : silent) {
      each->end("it did not say who it is in time");
      bury(*each);
      --strangers;
    }
    if (strangers >= max_strangers)
      continue;  // closed: a peer of ours tries again, a flood does not fill memory
    configure(socket.get());
    connections_.push_back(std::make_unique<Connection>(
        shared_, std::move(socket), Handshake::acceptor(rank_, size_, secret_), false, remote_text(remote)));
  }
}

const char* TcpTransport::take_into_use(Connection& connection) {
  std::atomic<Connection*>& peer = peers_[connection.peer()];
  if (peer.load() != nullptr) return "its rank is connected already";
  peer.store(&connection, std::memory_order_release);
  return nullptr;
}

// ---- Operations

void TcpTransport::announce_region(Rank peer, RegionId region, const RegionMemory& memory) {
  connection(peer).announce(region, memory.bytes());
}

void TcpTransport::get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) {
  Connection& to = connection(source.rank);
  hot_.store(&to, std::memory_order_relaxed);
  to.get(destination, source, bytes, completion);
}

void TcpTransport::put(RemoteAddress destination, const void* source, std::size_t bytes,
                       Completion& completion) {
  Connection& to = connection(destination.rank);
  hot_.store(&to, std::memory_order_relaxed);
  to.put(destination, source, bytes, completion);
}

void TcpTransport::atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                          Completion& completion) {
  Connection& to = connection(word.rank);
  hot_.store(&to, std::memory_order_relaxed);
  to.atomic(operation, word, previous, completion);
}

bool TcpTransport::issue(std::span<const Command> commands) {
  bool completed = false;
  while (!commands.empty()) {
    const std::uint16_t rank = commands.front().rank;
    const auto end = std::find_if(commands.begin(), commands.end(),
                                  [rank](const Command& each) { return each.rank != rank; });
    const auto count = static_cast<std::size_t>(end - commands.begin());
    Connection& to = connection(rank);
    hot_.store(&to, std::memory_order_relaxed);
    completed = to.issue(commands.first(count)) || completed;
    commands = commands.subspan(count);
  }
  return completed;
}

bool TcpTransport::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes,
                        bool may_refuse) {
  return connection(target).message(handler, payload, bytes, may_refuse);
}

bool TcpTransport::has_room(Rank peer) const noexcept {
  return connection(peer).has_room();
}
bool TcpTransport::say_farewell(Rank peer) {
  return connection(peer).say_farewell();
}

void TcpTransport::disconnect(Rank peer) noexcept {
  if (Connection* to = peers_[peer].load(std::memory_order_acquire)) to->hang_up();
}

// ---- Progress

bool TcpTransport::serve(Connection& connection, std::uint32_t events) {
  // It may have been ended, and buried, for an earlier event of the same look at the set.
  if (connection.state() == Connection::State::ended) return false;
  bool worked = false;
  if ((events & EPOLLOUT) != 0) {
    connection.writable();
    worked = true;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && connection.receive()) {
    worked = true;
    if (connection.state() == Connection::State::ready) hot_.store(&connection, std::memory_order_relaxed);
  }
  if (connection.state() == Connection::State::ended) bury(connection);
  return worked;
}

/// Ends connections to addresses where nothing answers, so that a peer's other ones get their turn.
void TcpTransport::give_up_silent_dials() {
  for (const Dial& dial : dials_) {
    Connection* const tried = dial.connection;
    if (tried == nullptr || dial.addresses.size() == 1 || tried->state() >= Connection::State::ready ||
        clock_.now_ns() - tried->born_ns() <= dial_patience_ns)
      continue;
    tried->end(fmt::format("no answer within {} s", dial_patience_ns / 1'000'000'000));
    bury(*tried);
  }
}

/// An ended connection: one of a peer stays for those who issue on it, any other goes.
void TcpTransport::bury(Connection& connection) {
  Connection* expected = &connection;
  hot_.compare_exchange_strong(expected, nullptr);
  const bool of_peer = peers_[connection.peer()].load() == &connection;
  const auto dial = std::find_if(dials_.begin(), dials_.end(),
                                 [&](const Dial& each) { return each.connection == &connection; });
  const bool dialled = dial != dials_.end();
  if (dialled && !of_peer) {
    last_failure_ = fmt::format("rank {} at {}: {}", dial->peer, connection.remote(), connection.cause());
    dial->connection = nullptr;  // the next poll tries the next address
  }
  if (of_peer ? !connection.peer_left() : !dialled) {
    const std::uint64_t refused = of_peer ? refusals_told : refused_.fetch_add(1);
    process_log().write({"tcp: ended a connection with ", std::string_view(connection.remote()), ": ",
                         std::string_view(connection.cause())});
    if (refused < refusals_told) {
      const std::string line = fmt::format("craton: rank {} dropped a tcp connection from {}: {}\n", rank_,
                                           connection.remote(), connection.cause());
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    }
  }
  if (of_peer) return;
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& each) { return each.get() == &connection; });
  buried_.push_back(std::move(*found));
  connections_.erase(found);
}

bool TcpTransport::poll_set() {
  give_up_silent_dials();
  for (Dial& each : dials_) {
    if (each.connection == nullptr) dial(each);
  }
  std::array<epoll_event, 32> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool worked = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.ptr == &listener_) {
      accept_all();
      worked = true;
    } else if (event.data.ptr == &timer_) {
      std::uint64_t expiries = 0;
      [[maybe_unused]] const ssize_t taken = ::read(timer_.get(), &expiries, sizeof expiries);
    } else {
      worked = serve(*static_cast<Connection*>(event.data.ptr), event.events) || worked;
    }
  }
  buried_.clear();
  return worked;
}

bool TcpTransport::ready_to_sleep() {
  polls_ = polls_per_set_look_awaiting;  // whatever wakes us, the set is asked first
  return true;
}

bool TcpTransport::poll() {
  Connection* const hot = hot_.load(std::memory_order_relaxed);
  bool worked = hot != nullptr && serve(*hot, EPOLLIN);
  const unsigned period = hot == nullptr ? 1 : hot->idle() ? polls_per_set_look : polls_per_set_look_awaiting;
  if (!worked && ++polls_ >= period) {
    polls_ = 0;
    worked = poll_set();
  }
  if (timer_) {
    for (const auto& each : connections_) worked = each->release_due() || worked;
  }
  return worked;
}

}  // namespace craton::fabric::tcp
