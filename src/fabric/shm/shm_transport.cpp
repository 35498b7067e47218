#include "fabric/shm/shm_transport.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/option_table.hpp"
#include "base/ring_log.hpp"
#include "base/unix_socket.hpp"
#include "fabric/shm/fd_message.hpp"

namespace craton::fabric::shm {

namespace {

/// Sockets carry regions and deaths only: rings are looked at this many times more often.
constexpr unsigned polls_per_socket_look = 256;
/// Messages taken from one ring before the others have their turn.
constexpr int messages_per_turn = 64;
/// What handlers may have queued to one neighbour whose ring is full.
constexpr std::size_t max_backlog_bytes = std::size_t{256} << 20;
/// Connections that have not said who they are, beyond one for each neighbour: these come all at once.
constexpr std::size_t max_strangers = 64;
constexpr TimeNs stranger_patience_ns = 5'000'000'000;
static_assert(spec_of(Option::ring_bytes).minimum == min_ring_bytes, "--ring-bytes must allow what works");

std::string random_name() {
  std::array<unsigned char, 16> bytes{};
  random_bytes(bytes);
  std::string name = "craton-";
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

void watch(int epoll_fd, int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
    throw Error::from_errno("cannot watch a neighbour's socket", errno, "ulimit -n");
  }
}

// Tags of events: a neighbour's index, or one of these.
constexpr std::uint64_t tag_listener = ~std::uint64_t{0};
constexpr std::uint64_t tag_stranger = std::uint64_t{1} << 32;  // plus the descriptor

/// After a message that could not be sent: that the other side is gone, the poll finds out and tells.
/// \throws Error for any other cause, of which nobody else would hear
void expect_gone(int cause, const std::string& asked) {
  if (cause == EPIPE || cause == ECONNRESET || cause == ENOTCONN) return;
  throw Error::from_errno(asked, cause, "ulimit -n bounds the descriptors of a user that are under way",
                          "ulimit -n $(ulimit -Hn)");
}

}  // namespace

ShmTransport::ShmTransport(Rank rank, std::vector<Rank> neighbours, const JobSecret& secret,
                           std::uint64_t ring_bytes, TransportEvents& events)
    : rank_(rank),
      secret_(secret),
      ring_bytes_(ring_bytes),
      events_(events),
      address_(random_name()),
      memory_("craton-control", ControlView::bytes(neighbours.size(), ring_bytes)),
      control_(memory_.data(), ring_bytes) {
  CRATON_ASSERT(ring_bytes >= min_ring_bytes);
  CRATON_ASSERT(std::has_single_bit(ring_bytes));
  CRATON_ASSERT(neighbours.size() <= max_neighbours);
  control_.construct(neighbours.size());
  by_rank_.resize(neighbours.empty() ? 0 : neighbours.back() + std::size_t{1});
  for (std::size_t index = 0; index < neighbours.size(); ++index) {
    auto neighbour = std::make_unique<Neighbour>();
    neighbour->rank = neighbours[index];
    neighbour->index = index;
    neighbour->consumer = control_.consumer(index);
    by_rank_[neighbour->rank] = neighbour.get();
    if (neighbour->rank == rank) own_index_ = index;
    neighbours_.push_back(std::move(neighbour));
  }
  sockets_.reset(::epoll_create1(EPOLL_CLOEXEC));
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!sockets_ || !listener_) throw Error::from_errno("cannot create a Unix socket", errno, "ulimit -n");
  const AbstractAddress own(address_);
  if (::bind(listener_.get(), own.get(), own.bytes()) != 0 || ::listen(listener_.get(), SOMAXCONN) != 0) {
    throw Error::from_errno("cannot listen on a Unix socket of the abstract namespace", errno);
  }
  watch(sockets_.get(), listener_.get(), tag_listener);
}

ShmTransport::~ShmTransport() = default;

Capabilities ShmTransport::capabilities() const noexcept {
  return {.load_store = true,
          .native_one_sided = true,
          .atomic_domain = AtomicDomain::cpu,
          .max_message_bytes = fabric::max_message_bytes,
          .transport = "shm"};
}

Mac ShmTransport::proof(Rank prover, const std::string& listener) const noexcept {
  const std::span listener_bytes(reinterpret_cast<const unsigned char*>(listener.data()), listener.size());
  constexpr std::array<unsigned char, 9> purpose{'s', 'h', 'm', '-', 'h', 'e', 'l', 'l', 'o'};
  return keyed_hash(secret_, {purpose, listener_bytes, bytes_of(prover)});
}

// ---- Wiring

void ShmTransport::connect(Rank peer, const std::string& address) {
  if (peer > rank_) return;  // the higher rank connects
  Neighbour& neighbour = *find(peer);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw Error::from_errno("cannot create a Unix socket", errno, "ulimit -n");
  const AbstractAddress remote(address);
  if (::connect(socket.get(), remote.get(), remote.bytes()) != 0) {
    throw Error::from_errno(fmt::format("rank {} cannot reach rank {} over shared memory", rank_, peer),
                            errno, {},
                            "the ranks of a node must share a network namespace; else use --isolate-nodes");
  }
  if (!is_same_user(socket.get())) {
    throw Error(ErrorCode::permission,
                {.asked = fmt::format("rank {} cannot reach rank {} over shared memory", rank_, peer),
                 .happened = "the other process runs as another user",
                 .limit = {},
                 .remedy = {}});
  }
  send_hello(socket.get(), address);
  const std::lock_guard lock(sockets_lock_);
  watch(sockets_.get(), socket.get(), neighbour.index);
  neighbour.socket = std::move(socket);
}

void ShmTransport::send_hello(int socket, const std::string& listener) {
  FdMessage hello;
  hello.kind = FdMessageKind::hello;
  hello.rank = rank_;
  hello.bytes = memory_.bytes();
  hello.proof = proof(rank_, listener);
  if (send_fd_message(socket, hello, memory_.fd(), wake_fd_)) return;
  const int cause = errno;
  expect_gone(cause, fmt::format("rank {} cannot greet a neighbour over its Unix socket", rank_));
  process_log().write({"shm: a neighbour went away during the greeting"});
}

bool ShmTransport::connected(Rank peer) const noexcept {
  const Neighbour* neighbour = find(peer);
  return neighbour != nullptr && neighbour->connected.load(std::memory_order_acquire);
}

void ShmTransport::accept_strangers() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    const TimeNs now_ns = SteadyClock().now_ns();
    std::erase_if(strangers_, [&](const Stranger& stranger) {
      return now_ns - stranger.since_ns > stranger_patience_ns;
    });
    if (strangers_.size() >= neighbours_.size() + max_strangers || !is_same_user(socket.get())) {
      process_log().write({"shm: dropped a connection of another user, or one too many"});
      continue;
    }
    watch(sockets_.get(), socket.get(), tag_stranger + static_cast<std::uint64_t>(socket.get()));
    strangers_.push_back({.socket = std::move(socket), .since_ns = now_ns});
  }
}

/// The first message of a connection that we accepted. \returns true if a neighbour is behind it
bool ShmTransport::greet_stranger(int socket) {
  const auto stranger = std::find_if(strangers_.begin(), strangers_.end(),
                                     [socket](const Stranger& each) { return each.socket.get() == socket; });
  if (stranger == strangers_.end()) return false;
  ReceivedFdMessage received;
  const ReceiveOutcome outcome = receive_fd_message(socket, received);
  if (outcome == ReceiveOutcome::nothing) return false;
  UniqueFd owned = std::move(stranger->socket);
  strangers_.erase(stranger);
  ::epoll_ctl(sockets_.get(), EPOLL_CTL_DEL, owned.get(), nullptr);
  const FdMessage& hello = received.message;
  Neighbour* neighbour = find(hello.rank);
  const bool genuine = outcome == ReceiveOutcome::received && hello.kind == FdMessageKind::hello &&
                       neighbour != nullptr && hello.rank > rank_ && !neighbour->socket &&
                       !neighbour->gone.load() && equal(hello.proof, proof(hello.rank, address_));
  if (!genuine) {
    process_log().write({"shm: dropped a connection that did not prove the job's secret"});
    return false;
  }
  send_hello(owned.get(), address_);
  watch(sockets_.get(), owned.get(), neighbour->index);
  neighbour->socket = std::move(owned);
  neighbour->memory = PeerMapping(std::move(received.fds[0]), hello.bytes);
  neighbour->wake_fd = std::move(received.fds[1]);
  neighbour->control = ControlView(neighbour->memory.data(), ring_bytes_);
  neighbour->producer = neighbour->control.producer(own_index_);
  neighbour->connected.store(true, std::memory_order_release);
  return true;
}

/// A message of a neighbour. \returns false when there is none
bool ShmTransport::receive(Neighbour& neighbour) {
  ReceivedFdMessage received;
  switch (receive_fd_message(neighbour.socket.get(), received)) {
    case ReceiveOutcome::nothing:
      return false;
    case ReceiveOutcome::ended:
      lose(neighbour, "its connection to its node's neighbours ended");
      return true;
    case ReceiveOutcome::malformed:
      lose(neighbour, "it sent a malformed message over its Unix socket");
      return true;
    case ReceiveOutcome::received:
      break;
  }
  const FdMessage& message = received.message;
  if (message.rank != neighbour.rank) {
    lose(neighbour, "it sent a message in another rank's name");
    return true;
  }
  switch (message.kind) {
    case FdMessageKind::hello: {
      // The answer of a lower rank to ours; its listener's name was in our proof, and is in its own.
      if (neighbour.connected.load() || !received.fds[0] || message.rank > rank_) break;
      neighbour.memory = PeerMapping(std::move(received.fds[0]), message.bytes);
      neighbour.wake_fd = std::move(received.fds[1]);
      neighbour.control = ControlView(neighbour.memory.data(), ring_bytes_);
      neighbour.producer = neighbour.control.producer(own_index_);
      neighbour.connected.store(true, std::memory_order_release);
      return true;
    }
    case FdMessageKind::region: {
      if (!received.fds[0] || message.region >= max_regions) break;
      PeerMapping mapping(std::move(received.fds[0]), message.bytes);
      std::byte* direct = mapping.data();
      neighbour.mappings.insert_or_assign(message.region, std::move(mapping));
      events_.region_announced(neighbour.rank, message.region, message.bytes, direct);
      return true;
    }
    case FdMessageKind::farewell:
      neighbour.left.store(true);
      events_.peer_left(neighbour.rank);
      return true;
  }
  lose(neighbour, "it sent an unexpected message over its Unix socket");
  return true;
}

void ShmTransport::lose(Neighbour& neighbour, const char* cause) {
  ::epoll_ctl(sockets_.get(), EPOLL_CTL_DEL, neighbour.socket.get(), nullptr);
  neighbour.socket.reset();
  const bool ended_in_order = neighbour.left.load();
  neighbour.gone.store(true);
  if (!ended_in_order) events_.peer_lost(neighbour.rank, cause);
}

// ---- Regions and one-sided operations

void ShmTransport::announce_region(Rank peer, RegionId region, const RegionMemory& memory) {
  Neighbour& neighbour = *find(peer);
  FdMessage message;
  message.kind = FdMessageKind::region;
  message.rank = rank_;
  message.region = region;
  message.bytes = memory.bytes();
  // Not under sockets_lock_: this may wait for the neighbour's agent, which may wait for ours. The socket
  // stays open meanwhile: a duplicate of it is ours.
  UniqueFd socket;
  {
    const std::lock_guard lock(sockets_lock_);
    if (neighbour.socket) {
      socket.reset(::fcntl(neighbour.socket.get(), F_DUPFD_CLOEXEC, 0));
      if (!socket) throw Error::from_errno("cannot announce a region to a neighbour", errno, "ulimit -n");
    }
  }
  if (socket && send_fd_message(socket.get(), message, memory.fd())) return;
  const int cause = errno;
  if (socket)
    expect_gone(cause, fmt::format("rank {} cannot announce region {} to rank {}", rank_, region, peer));
  process_log().write({"shm: could not announce region ", region, " to rank ", peer, ", which has gone"});
}

void ShmTransport::withdraw_region(RegionId region) {
  const std::lock_guard lock(sockets_lock_);
  for (const auto& neighbour : neighbours_) neighbour->mappings.erase(region);
}

// Every neighbour's region is mapped, so the fabric does these itself.
void ShmTransport::get(void* /*destination*/, RemoteAddress source, std::size_t /*bytes*/,
                       Completion& completion) {
  CRATON_ASSERT(!connected(source.rank));
  completion.finish(Status::peer_lost);
}
void ShmTransport::put(RemoteAddress destination, const void* /*source*/, std::size_t /*bytes*/,
                       Completion& completion) {
  CRATON_ASSERT(!connected(destination.rank));
  completion.finish(Status::peer_lost);
}
void ShmTransport::atomic(AtomicOperation /*operation*/, RemoteAddress word, std::uint64_t* /*previous*/,
                          Completion& completion) {
  CRATON_ASSERT(!connected(word.rank));
  completion.finish(Status::peer_lost);
}

// ---- Messages

bool ShmTransport::push(Neighbour& neighbour, HandlerId handler, const void* payload, std::size_t bytes) {
  if (!neighbour.producer.push(handler, payload, bytes)) return false;
  ControlHeader& target = neighbour.control.header();
  target.pending[own_index_ / 64].fetch_or(std::uint64_t{1} << (own_index_ % 64));
  ring(target.doorbell, neighbour.wake_fd.get());
  return true;
}

bool ShmTransport::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes,
                        bool may_refuse) {
  Neighbour& neighbour = *find(target);
  if (neighbour.gone.load(std::memory_order_relaxed)) return true;  // dropped: the rank is dead
  const std::lock_guard lock(neighbour.send_lock);
  if (neighbour.backlog.empty() && push(neighbour, handler, payload, bytes)) return true;
  if (may_refuse) {
    // The first refusal since the last was passed on counts: what has been freed since then some thread does
    // not know, whatever later sends of other threads saw.
    if (!neighbour.refused_at) {
      refusals_.fetch_add(1);
      neighbour.refused_at = neighbour.producer.head_seen();
    }
    return false;
  }
  neighbour.backlog_bytes += bytes;
  CRATON_ASSERT(neighbour.backlog_bytes <= max_backlog_bytes);
  const auto* first = static_cast<const std::byte*>(payload);
  if (neighbour.backlog.empty()) backlogs_.fetch_add(1);
  neighbour.backlog.push_back({.handler = handler, .payload = std::vector<std::byte>(first, first + bytes)});
  return true;
}

void ShmTransport::wake_waiters(Rank target) noexcept {
  Neighbour& neighbour = *find(target);
  if (!neighbour.gone.load(std::memory_order_relaxed)) ring_waiters(neighbour.control.header().doorbell);
}

/// Whether a thread that was refused may find room now. The ring of the doorbell that tells of it may meet a
/// thread that polls for something else, so it is the poll that must find it. \param take it is being passed
/// on
bool ShmTransport::room_for_refused(bool take) {
  if (refusals_.load() == 0) return false;
  bool found = false;
  for (const auto& neighbour : neighbours_) {
    const std::lock_guard lock(neighbour->send_lock);
    if (!neighbour->refused_at) continue;
    if (!neighbour->gone.load() && !neighbour->producer.freed_since(*neighbour->refused_at)) continue;
    found = true;
    if (!take) continue;
    neighbour->refused_at.reset();
    refusals_.fetch_sub(1);
  }
  return found;
}

void ShmTransport::flush_backlog(Neighbour& neighbour) {
  const std::lock_guard lock(neighbour.send_lock);
  if (neighbour.backlog.empty()) return;
  while (!neighbour.backlog.empty()) {
    const Queued& oldest = neighbour.backlog.front();
    if (!neighbour.gone.load() &&
        !push(neighbour, oldest.handler, oldest.payload.data(), oldest.payload.size()))
      return;
    neighbour.backlog_bytes -= oldest.payload.size();
    neighbour.backlog.pop_front();
  }
  backlogs_.fetch_sub(1);
}

/// The same for what was put aside: the doorbell may have met a thread that had looked already.
bool ShmTransport::room_for_backlog() {
  if (backlogs_.load() == 0) return false;
  return std::any_of(neighbours_.begin(), neighbours_.end(), [](const auto& neighbour) {
    const std::lock_guard lock(neighbour->send_lock);
    if (neighbour->backlog.empty()) return false;
    return neighbour->gone.load() || neighbour->producer.freed_since(neighbour->producer.head_seen());
  });
}

bool ShmTransport::drain_ring(Neighbour& neighbour) {
  for (int taken = 0; taken < messages_per_turn; ++taken) {
    const auto outcome =
        neighbour.consumer.take([&](HandlerId handler, const std::byte* payload, std::size_t bytes) {
          events_.message_arrived(neighbour.rank, handler, payload, bytes);
        });
    if (outcome == RingConsumer::Outcome::empty) return true;
    if (outcome == RingConsumer::Outcome::corrupt) {
      if (!neighbour.gone.exchange(true))
        events_.peer_lost(neighbour.rank, "it wrote a malformed record into its ring");
      return true;
    }
  }
  return neighbour.consumer.empty();
}

bool ShmTransport::poll_rings() {
  bool worked = false;
  auto& pending = control_.header().pending;
  for (std::size_t word = 0; word * 64 < neighbours_.size(); ++word) {
    if (pending[word].load(std::memory_order_relaxed) == 0) continue;
    std::uint64_t bits = pending[word].exchange(0);
    while (bits != 0) {
      const std::size_t index = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
      bits &= bits - 1;
      if (index >= neighbours_.size()) continue;
      Neighbour& neighbour = *neighbours_[index];
      if (!drain_ring(neighbour)) pending[word].fetch_or(std::uint64_t{1} << (index % 64));
      if (neighbour.consumer.producer_waits() && neighbour.connected.load()) {
        ring(neighbour.control.header().doorbell, neighbour.wake_fd.get());
      }
      worked = true;
    }
  }
  if (backlogs_.load(std::memory_order_relaxed) != 0) {
    for (const auto& neighbour : neighbours_) flush_backlog(*neighbour);
  }
  return room_for_refused(true) || worked;
}

bool ShmTransport::poll_sockets() {
  std::array<epoll_event, 16> events{};
  const int count = ::epoll_wait(sockets_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (count <= 0) return false;
  const std::lock_guard lock(sockets_lock_);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    try {
      if (tag == tag_listener) {
        accept_strangers();
      } else if (tag >= tag_stranger) {
        greet_stranger(static_cast<int>(tag - tag_stranger));
      } else {
        Neighbour& neighbour = *neighbours_[tag];
        while (neighbour.socket && receive(neighbour)) {
        }
      }
    } catch (const Error& error) {  // a neighbour's memory could not be mapped
      process_log().write({"shm: ", error.what()});
      if (tag < neighbours_.size()) lose(*neighbours_[tag], error.what());
    }
  }
  return true;
}

bool ShmTransport::poll() {
  bool worked = poll_rings();
  if (++polls_ % polls_per_socket_look == 0) worked = poll_sockets() || worked;
  return worked;
}

bool ShmTransport::ready_to_sleep() {
  const auto& pending = control_.header().pending;
  for (std::size_t word = 0; word * 64 < neighbours_.size(); ++word) {
    if (pending[word].load() != 0) return false;
  }
  if (room_for_refused(false) || room_for_backlog()) return false;
  polls_ = polls_per_socket_look - 1;  // whatever wakes us, the sockets are looked at first
  return true;
}

// ---- Ends

bool ShmTransport::say_farewell(Rank peer) {
  Neighbour& neighbour = *find(peer);
  {
    const std::lock_guard lock(neighbour.send_lock);
    if (!neighbour.backlog.empty() && !neighbour.gone.load()) return false;
  }
  const std::lock_guard lock(sockets_lock_);
  if (neighbour.farewell_said || !neighbour.socket) return true;
  FdMessage farewell;
  farewell.kind = FdMessageKind::farewell;
  farewell.rank = rank_;
  neighbour.farewell_said = send_fd_message(neighbour.socket.get(), farewell);
  return true;
}

void ShmTransport::disconnect(Rank peer) noexcept {
  if (Neighbour* neighbour = find(peer)) neighbour->gone.store(true);
}

}  // namespace craton::fabric::shm
