/// \file
/// One-sided operations and messages over tcp between nodes: one connection a pair of ranks, the higher rank
/// connects. Everything that arrives is served where it is read, in poll(): by a thread that waits in the
/// fabric, or by the rank's agent while the application computes. A connection that does not prove the job's
/// secret is dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/tcp/addresses.hpp"
#include "fabric/tcp/connection.hpp"
#include "fabric/tcp/link_model.hpp"
#include "fabric/transport.hpp"

namespace craton::fabric::tcp {

struct TcpOptions {
  std::string interface;       ///< to listen on: a name or an address; empty: all
  bool loopback_only = false;  ///< every rank is on this host
  LinkModel link;
  /// While many operations are in flight, their requests are gathered until the next reply. Off: each is
  /// posted at once, as over hardware queues; for comparison.
  bool gather = true;
};

class TcpTransport final : public Transport {
 public:
  /// \throws Error not_found, out_of_resources
  TcpTransport(Rank rank, Rank size, const JobSecret& secret, TcpOptions options, TransportEvents& events,
               const Clock& clock);
  ~TcpTransport() override;

  const char* name() const noexcept override { return "tcp"; }
  Capabilities capabilities() const noexcept override;
  std::string address() const override;
  void connect(Rank peer, const std::string& address) override;
  bool connected(Rank peer) const noexcept override {
    // A connection is in the table before it takes what others send.
    const Connection* const to = peers_[peer].load(std::memory_order_acquire);
    return to != nullptr && to->state() >= Connection::State::ready;
  }
  void announce_region(Rank peer, RegionId region, const RegionMemory& memory) override;
  void withdraw_region(RegionId /*region*/) override {}
  void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) override;
  void put(RemoteAddress destination, const void* source, std::size_t bytes, Completion& completion) override;
  void atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
              Completion& completion) override;
  bool issue(std::span<const Command> commands) override;
  bool send(Rank target, HandlerId handler, const void* payload, std::size_t bytes, bool may_refuse) override;
  FlushCounter* flush_counter(Rank peer) noexcept override { return &connection(peer).flush_counter(); }
  bool say_farewell(Rank peer) override;
  void disconnect(Rank peer) noexcept override;
  bool has_room(Rank peer) const noexcept override;

  bool poll() override;
  int descriptor() const noexcept override { return epoll_.get(); }
  bool ready_to_sleep() override;

  /// Connections that were dropped because they did not prove the job's secret or broke the protocol.
  std::uint64_t refused_connections() const noexcept { return refused_.load(std::memory_order_relaxed); }
  /// Why the last attempt to reach a peer failed; empty if none did. In poll() or before it is polled.
  std::string last_failure() const override { return last_failure_; }

 private:
  /// A rank that we are trying to reach.
  struct Dial {
    Rank peer;
    std::vector<SocketAddress> addresses;
    std::size_t next = 0;
    TimeNs retry_ns = 0;
    Connection* connection = nullptr;
  };

  Connection& connection(Rank peer) const noexcept { return *peers_[peer].load(std::memory_order_acquire); }
  void dial(Dial& dial);
  void give_up_silent_dials();
  void accept_all();
  bool poll_set();
  bool serve(Connection& connection, std::uint32_t events);
  const char* take_into_use(Connection& connection);
  void bury(Connection& connection);

  const Rank rank_;
  const Rank size_;
  const JobSecret secret_;
  const TcpOptions options_;
  const Clock& clock_;
  UniqueFd epoll_;
  UniqueFd timer_;
  UniqueFd listener_;
  Connection::Shared shared_;
  std::vector<std::atomic<Connection*>> peers_;           ///< proven ones
  std::vector<std::unique_ptr<Connection>> connections_;  ///< all; in poll() and connect() only
  std::vector<std::unique_ptr<Connection>> buried_;  ///< ended before they were proven; freed after a poll
  std::vector<Dial> dials_;
  std::atomic<Connection*> hot_{nullptr};  ///< where traffic was last: looked at before the set is asked
  unsigned polls_ = 0;                     ///< since the set was asked
  std::atomic<std::uint64_t> refused_{0};
  std::string last_failure_;
};

}  // namespace craton::fabric::tcp
