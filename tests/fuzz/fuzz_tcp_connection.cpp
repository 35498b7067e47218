/// \file
/// Throws bytes at one end of a tcp connection: at the handshake, or as frames of a peer that has proven
/// itself.
///
/// Input: byte 0 chooses (bit 0: frames after a genuine handshake; bit 1: our end is the one that connects),
/// byte 1 is the size of the pieces in which the rest arrives. Whatever comes, the connection must stay
/// usable or end with all its operations completed, and must write only where it was told to.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "fabric/tcp/connection.hpp"
#include "fabric/tcp/handshake.hpp"

namespace {

using namespace craton;
using namespace craton::fabric;

constexpr Rank job_size = 3;
constexpr Rank low_rank = 0;   ///< is connected to
constexpr Rank high_rank = 1;  ///< connects

class Events final : public TransportEvents {
 public:
  void message_arrived(Rank source, HandlerId handler, const std::byte* payload, std::size_t bytes) override {
    CRATON_ASSERT(source < job_size);
    CRATON_ASSERT(handler < max_handlers);
    CRATON_ASSERT(bytes <= max_message_bytes);
    CRATON_ASSERT(reinterpret_cast<std::uintptr_t>(payload) % 8 == 0U);
    for (std::size_t i = 0; i < bytes; ++i)
      checksum_ = checksum_ * 31 + std::to_integer<unsigned>(payload[i]);
  }
  void region_announced(Rank /*source*/, RegionId region, std::uint64_t /*bytes*/,
                        std::byte* direct) override {
    CRATON_ASSERT(region < max_regions);
    CRATON_ASSERT(direct == nullptr);
  }
  void peer_lost(Rank /*peer*/, const char* cause) override { CRATON_ASSERT(std::strlen(cause) != 0U); }
  void peer_left(Rank /*peer*/) override {}
  // On the heap and of an odd size, so that the address sanitizer sees any access beside it.
  LocalPart local_part(RegionId region) const noexcept override {
    if (region != 1) return {.data = nullptr, .bytes = 0};
    return {.data = region_.get(), .bytes = region_bytes};
  }

 private:
  static constexpr std::size_t region_bytes = 70'001;
  std::unique_ptr<std::byte[]> region_ = std::make_unique<std::byte[]>(region_bytes);
  std::uint64_t checksum_ = 0;
};

/// What the attacker's end received since it last looked.
std::vector<std::byte> drain(int socket) {
  std::vector<std::byte> all;
  std::array<std::byte, 65536> piece{};
  for (ssize_t got = 0; (got = ::recv(socket, piece.data(), piece.size(), MSG_DONTWAIT)) > 0;) {
    all.insert(all.end(), piece.begin(), piece.begin() + got);
  }
  return all;
}

void give(int socket, std::span<const std::byte> bytes) {
  [[maybe_unused]] const ssize_t sent =
      ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Plays the attacker's side of the handshake as a genuine peer would.
void prove(tcp::Connection& connection, int attacker, tcp::Handshake handshake) {
  for (int round = 0; round < 4 && connection.state() != tcp::Connection::State::ready; ++round) {
    give(attacker, handshake.take_output());
    connection.receive();
    connection.writable();
    const std::vector<std::byte> heard = drain(attacker);
    if (heard.size() >= handshake.wanted_bytes() && handshake.wanted_bytes() != 0) {
      handshake.feed({heard.data(), handshake.wanted_bytes()});
    }
  }
  CRATON_ASSERT(connection.state() == tcp::Connection::State::ready);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const bool after_handshake = (bytes[0] & 1) != 0;
  const bool we_connect = (bytes[0] & 2) != 0;
  const std::size_t piece_bytes = bytes[1] == 0 ? 65536 : bytes[1];
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(bytes) + 2, size - 2);

  std::array<int, 2> ends{};
  CRATON_ASSERT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd attacker(ends[1]);
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const SteadyClock clock;
  const JobSecret secret{1, 2, 3};
  Events events;
  tcp::Connection::Shared shared{.events = events,
                                 .clock = clock,
                                 .epoll_fd = epoll.get(),
                                 .link = {},
                                 .timer_fd = -1,
                                 .proven = [](tcp::Connection&) -> const char* { return nullptr; }};
  std::array<Completion, 5> completions;
  std::vector<std::byte> buffer(300'000);
  std::uint64_t previous = 0;
  {
    tcp::Connection connection(shared, UniqueFd(ends[0]),
                               we_connect ? tcp::Handshake::connector(high_rank, low_rank, job_size, secret)
                                          : tcp::Handshake::acceptor(low_rank, job_size, secret),
                               we_connect, "the attacker");
    if (we_connect) connection.writable();
    if (after_handshake) {
      prove(connection, attacker.get(),
            we_connect ? tcp::Handshake::acceptor(low_rank, job_size, secret)
                       : tcp::Handshake::connector(high_rank, low_rank, job_size, secret));
      // Something in flight for answers to meet.
      const Rank peer = connection.peer();
      for (Completion& completion : completions) completion.start();
      connection.get(buffer.data(), {.rank = peer, .region = 1, .offset = 0}, 100, completions[0]);
      connection.put({.rank = peer, .region = 1, .offset = 8}, buffer.data(), 9, completions[1]);
      connection.atomic({.kind = AtomicKind::fetch_add, .first = 1, .second = 0},
                        {.rank = peer, .region = 1, .offset = 8}, &previous, completions[2]);
      connection.get(buffer.data() + 100, {.rank = peer, .region = 1, .offset = 0}, buffer.size() - 100,
                     completions[3]);
      connection.get(buffer.data(), {.rank = peer, .region = 1, .offset = 0}, 8000, completions[4]);
    }
    while (!input.empty() && connection.state() != tcp::Connection::State::ended) {
      const std::size_t now = std::min(piece_bytes, input.size());
      give(attacker.get(), input.first(now));
      input = input.subspan(now);
      connection.receive();
      connection.writable();
      drain(attacker.get());
    }
    if (connection.state() == tcp::Connection::State::ended) {
      for (const Completion& completion : completions) CRATON_ASSERT(completion.done());
      CRATON_ASSERT(!connection.cause().empty());
    }
  }
  for (const Completion& completion : completions) CRATON_ASSERT(completion.done());
  return 0;
}
