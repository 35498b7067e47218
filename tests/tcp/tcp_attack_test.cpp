/// \file
/// Two tcp transports in one process, polled by the test, while strangers throw at their listener what they
/// like: the strangers are dropped, and what the two have to do with each other goes on.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/tcp/handshake.hpp"
#include "fabric/tcp/tcp_transport.hpp"
#include "fabric/tcp/wire.hpp"
#include "failing_send.hpp"

namespace craton::fabric::tcp {
namespace {

constexpr RegionId region = 3;
constexpr HandlerId handler = 20;
constexpr TimeNs limit_ns = 120'000'000'000;

struct Events final : TransportEvents {
  explicit Events(std::size_t bytes) : memory("attack-test", bytes) {}
  void message_arrived(Rank source, HandlerId to, const std::byte* payload, std::size_t bytes) override {
    EXPECT_EQ(to, handler);
    messages.emplace_back(source, std::string(reinterpret_cast<const char*>(payload), bytes));
  }
  void region_announced(Rank /*source*/, RegionId id, std::uint64_t bytes, std::byte* direct) override {
    EXPECT_EQ(id, region);
    EXPECT_EQ(direct, nullptr);
    announced_bytes = bytes;
  }
  void peer_lost(Rank peer, const char* cause) override { lost.emplace_back(peer, cause); }
  void peer_left(Rank peer) override { left.push_back(peer); }
  LocalPart local_part(RegionId id) const noexcept override {
    return id == region ? LocalPart{.data = memory.data(), .bytes = memory.bytes()}
                        : LocalPart{.data = nullptr, .bytes = 0};
  }
  RegionMemory memory;
  std::uint64_t announced_bytes = 0;
  std::vector<std::pair<Rank, std::string>> messages;
  std::vector<std::pair<Rank, std::string>> lost;
  std::vector<Rank> left;
};

class TcpAttack : public ::testing::Test {
 protected:
  TcpAttack() {
    low.connect(1, high.address());
    high.connect(0, low.address());
    EXPECT_TRUE(poll_until([&] { return low.connected(1) && high.connected(0); }));
    port = port_of(low);
  }

  bool poll_until(const std::function<bool()>& condition) {
    const TimeNs deadline_ns = clock.now_ns() + limit_ns;
    while (!condition()) {
      const bool worked = low.poll() || high.poll();
      if (clock.now_ns() > deadline_ns) return false;
      if (worked) continue;
      low.ready_to_sleep();
      high.ready_to_sleep();
      std::array<pollfd, 2> readable{pollfd{.fd = low.descriptor(), .events = POLLIN, .revents = 0},
                                     pollfd{.fd = high.descriptor(), .events = POLLIN, .revents = 0}};
      ::poll(readable.data(), readable.size(), 10);
    }
    return true;
  }

  static std::uint16_t port_of(const TcpTransport& transport) {
    const std::string address = transport.address();
    return static_cast<std::uint16_t>(std::stoul(address.substr(0, address.find(';'))));
  }
  /// 127.0.0.`host`, and the port of the victim.
  sockaddr_in loopback(unsigned host) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
    return address;
  }
  UniqueFd stranger() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = loopback(1);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0)
        << strerror(errno);
    return socket;
  }
  static void say(const UniqueFd& socket, const void* bytes, std::size_t size) {
    [[maybe_unused]] const ssize_t sent = ::send(socket.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  /// Rank 1 of a job of `size`, which knows the secret, connects to rank 0. Strangers go there as well now.
  UniqueFd proven_peer_of(TcpTransport& victim, Rank size) {
    port = port_of(victim);
    UniqueFd socket = stranger();
    Handshake peer = Handshake::connector(1, 0, size, secret);
    const std::vector<std::byte> hello = peer.take_output();
    say(socket, hello.data(), hello.size());
    Challenge challenge;
    std::size_t got = 0;
    const TimeNs deadline_ns = clock.now_ns() + limit_ns;
    while (got < sizeof challenge && clock.now_ns() < deadline_ns) {
      victim.ready_to_sleep();
      victim.poll();
      const ssize_t more = ::recv(socket.get(), reinterpret_cast<char*>(&challenge) + got,
                                  sizeof challenge - got, MSG_DONTWAIT);
      if (more > 0) got += static_cast<std::size_t>(more);
    }
    peer.feed({reinterpret_cast<const std::byte*>(&challenge), sizeof challenge});
    const std::vector<std::byte> proof = peer.take_output();
    say(socket, proof.data(), proof.size());
    return socket;
  }
  /// True once the other side has closed the stranger's connection.
  bool closed(const UniqueFd& socket) {
    return poll_until([&] {
      std::array<char, 256> heard{};
      const ssize_t got = ::recv(socket.get(), heard.data(), heard.size(), MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno != EAGAIN);
    });
  }

  /// One of everything between the two ranks.
  void expect_the_job_goes_on() {
    const std::size_t messages_before = low_events.messages.size();
    Completion completion;
    std::vector<std::byte> source(700'001);
    std::vector<std::byte> back(source.size());
    for (std::size_t i = 0; i < source.size(); ++i)
      source[i] = static_cast<std::byte>(i * 7 + messages_before);
    completion.start();
    high.put({.rank = 0, .region = region, .offset = 11}, source.data(), source.size(), completion);
    ASSERT_TRUE(poll_until([&] { return completion.done(); }));
    std::uint64_t previous = 0;
    completion.start();
    high.atomic({.kind = AtomicKind::swap, .first = 77, .second = 0},
                {.rank = 0, .region = region, .offset = 0}, &previous, completion);
    ASSERT_TRUE(poll_until([&] { return completion.done(); }));
    completion.start();
    high.get(back.data(), {.rank = 0, .region = region, .offset = 11}, back.size(), completion);
    EXPECT_TRUE(high.send(0, handler, "still here", 10, false));
    ASSERT_TRUE(
        poll_until([&] { return completion.done() && low_events.messages.size() > messages_before; }));
    EXPECT_EQ(completion.status(), Status::ok);
    EXPECT_EQ(std::memcmp(source.data(), back.data(), source.size()), 0);
    EXPECT_EQ(low_events.messages.back(), std::pair(Rank{1}, std::string("still here")));
    EXPECT_TRUE(low_events.lost.empty());
    EXPECT_TRUE(high_events.lost.empty());
  }

  const SteadyClock clock;
  const JobSecret secret{9, 8, 7};
  Events low_events{1 << 20};
  Events high_events{64};
  TcpTransport low{0, 2, secret, {.interface = {}, .loopback_only = true, .link = {}}, low_events, clock};
  TcpTransport high{1, 2, secret, {.interface = {}, .loopback_only = true, .link = {}}, high_events, clock};
  std::uint16_t port = 0;
};

TEST_F(TcpAttack, GarbageIsDropped) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const UniqueFd attacker = stranger();
    std::vector<unsigned char> garbage(round * 37 + 60);
    for (unsigned char& byte : garbage) byte = static_cast<unsigned char>(random());
    say(attacker, garbage.data(), garbage.size());
    ASSERT_TRUE(closed(attacker)) << "round " << round;
  }
  EXPECT_EQ(low.refused_connections(), 50U);
  expect_the_job_goes_on();
}

TEST_F(TcpAttack, TheWrongSecretIsRefusedOnBothSides) {
  // A rank of a job with another secret: it does not accept our challenge, and we do not accept its proof.
  Handshake impostor = Handshake::connector(1, 0, 2, JobSecret{1});
  const UniqueFd attacker = stranger();
  const std::vector<std::byte> hello = impostor.take_output();
  say(attacker, hello.data(), hello.size());
  Challenge challenge;
  std::size_t got = 0;
  ASSERT_TRUE(poll_until([&] {
    const ssize_t more = ::recv(attacker.get(), reinterpret_cast<char*>(&challenge) + got,
                                sizeof challenge - got, MSG_DONTWAIT);
    if (more > 0) got += static_cast<std::size_t>(more);
    return got == sizeof challenge;
  }));
  impostor.feed({reinterpret_cast<const std::byte*>(&challenge), sizeof challenge});
  EXPECT_EQ(impostor.state(), Handshake::State::refused);
  const Proof forged{.proof = challenge.proof};  // reflecting what it heard does not help
  say(attacker, &forged, sizeof forged);
  EXPECT_TRUE(closed(attacker));
  EXPECT_EQ(low.refused_connections(), 1U);
  expect_the_job_goes_on();
}

TEST_F(TcpAttack, ASecondConnectionOfARankIsRefused) {
  Handshake twin = Handshake::connector(1, 0, 2, secret);  // it does know the secret
  const UniqueFd attacker = stranger();
  const std::vector<std::byte> hello = twin.take_output();
  say(attacker, hello.data(), hello.size());
  Challenge challenge;
  std::size_t got = 0;
  ASSERT_TRUE(poll_until([&] {
    const ssize_t more = ::recv(attacker.get(), reinterpret_cast<char*>(&challenge) + got,
                                sizeof challenge - got, MSG_DONTWAIT);
    if (more > 0) got += static_cast<std::size_t>(more);
    return got == sizeof challenge;
  }));
  twin.feed({reinterpret_cast<const std::byte*>(&challenge), sizeof challenge});
  ASSERT_EQ(twin.state(), Handshake::State::proven);
  const std::vector<std::byte> proof = twin.take_output();
  say(attacker, proof.data(), proof.size());
  EXPECT_TRUE(closed(attacker));
  expect_the_job_goes_on();
}

TEST_F(TcpAttack, TruncatedGreetingsAndSilenceDoNotBlockOthers) {
  std::vector<UniqueFd> silent;
  for (std::size_t bytes = 0; bytes < sizeof(Hello); ++bytes) {
    silent.push_back(stranger());
    const Hello hello;
    say(silent.back(), &hello, bytes);
  }
  expect_the_job_goes_on();
  silent.clear();
  expect_the_job_goes_on();
}

TEST_F(TcpAttack, AFloodOfConnectionsIsBounded) {
  std::size_t open_before = 0;
  const auto open_descriptors = [] {
    std::size_t count = 0;
    for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1U : 0U;
    return count;
  };
  open_before = open_descriptors();
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(stranger());
    low.poll();
  }
  expect_the_job_goes_on();
  // 300 of ours, and at most 64 of theirs that are being listened to.
  EXPECT_LE(open_descriptors(), open_before + 300 + 64);
  flood.clear();
  expect_the_job_goes_on();
}

TEST_F(TcpAttack, AProvenPeerThatBreaksTheProtocolIsLost) {
  // Rank 1 of another job of three connects properly to its rank 0, then sends an oversized length.
  Events events(4096);
  TcpTransport victim(0, 3, secret, {.interface = {}, .loopback_only = true, .link = {}}, events, clock);
  const UniqueFd attacker = proven_peer_of(victim, 3);
  FrameHeader header;
  header.kind = FrameKind::put;
  header.region = region;
  header.payload_bytes = 0xffffffff;
  say(attacker, &header, sizeof header);
  const TimeNs deadline_ns = clock.now_ns() + limit_ns;
  while (events.lost.empty() && clock.now_ns() < deadline_ns) {
    victim.ready_to_sleep();
    victim.poll();
  }
  ASSERT_EQ(events.lost.size(), 1U);
  EXPECT_EQ(events.lost[0].first, 1U);
  EXPECT_EQ(events.lost[0].second, "it sent a frame with an oversized payload");
}

TEST_F(TcpAttack, StrangersThatHangUpWhileTheyAreDroppedEndNobodyElse) {
  Events events(4096);
  ManualClock hands;
  TcpTransport victim(0, 2, secret, {.interface = {}, .loopback_only = true, .link = {}}, events, hands);
  const UniqueFd peer = proven_peer_of(victim, 2);
  const auto poll_all = [&] {
    while (victim.ready_to_sleep() && victim.poll()) {
    }
  };
  UniqueFd first = stranger();
  UniqueFd second = stranger();
  poll_all();
  ASSERT_TRUE(victim.connected(1));
  hands.advance_ns(6'000'000'000);
  // One look at the set sees a third that comes, for which the silent ones are dropped, and those hang up.
  const UniqueFd third = stranger();
  first.reset();
  second.reset();
  poll_all();
  EXPECT_TRUE(victim.connected(1));
  EXPECT_TRUE(events.lost.empty());
  EXPECT_EQ(victim.refused_connections(), 2U);
}

TEST_F(TcpAttack, AnAddressThatNeverAnswersKeepsNoOtherFromBeingTried) {
  Events events(64);
  ManualClock hands;
  TcpTransport victim(0, 2, secret, {.interface = {}, .loopback_only = true, .link = {}}, events, clock);
  TcpTransport peer(1, 2, secret, {.interface = {}, .loopback_only = true, .link = {}}, events, hands);
  port = port_of(victim);
  const UniqueFd mute(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(2);
  ASSERT_EQ(::bind(mute.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(mute.get(), 1), 0);
  peer.connect(0, std::to_string(port) + ";another host;127.0.0.2,127.0.0.1");
  const TimeNs deadline_ns = clock.now_ns() + limit_ns;
  while (!peer.connected(0) && clock.now_ns() < deadline_ns) {
    for (TcpTransport* const each : {&victim, &peer}) {
      each->ready_to_sleep();
      each->poll();
    }
    hands.advance_ns(1'000'000);
  }
  EXPECT_TRUE(peer.connected(0));
  EXPECT_GT(hands.now_ns(), 3'000'000'000);
  EXPECT_NE(peer.last_failure().find("rank 0 at 127.0.0.2"), std::string::npos) << peer.last_failure();
}

TEST_F(TcpAttack, ConnectionsOfRanksAskWhetherTheOtherHostIsStillThere) {
  int asking = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    int idle_s = 0;
    int is_on = 0;
    socklen_t bytes = sizeof(int);
    ::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_on, &bytes);
    ::getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &bytes);
    if (is_on != 0 && idle_s == 10) ++asking;
  }
  EXPECT_EQ(asking, 2);
}

TEST_F(TcpAttack, SendsThatFailForNowAreRepeated) {
  for (const int shortage : {ENOBUFS, ENOMEM}) {
    fail_next_send(shortage);
    expect_the_job_goes_on();
    EXPECT_FALSE(send_is_to_fail());
  }
}

TEST_F(TcpAttack, AConnectionThatCannotSendIsLostAndNotMute) {
  fail_next_send(EPERM);  // as of a firewall
  EXPECT_TRUE(high.send(0, handler, "lost", 4, false));
  EXPECT_FALSE(send_is_to_fail());
  EXPECT_TRUE(poll_until([&] { return !high_events.lost.empty() && !low_events.lost.empty(); }));
}

}  // namespace
}  // namespace craton::fabric::tcp
