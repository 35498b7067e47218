/// \file
/// Shared memory inside a node. Ranks map each other's region memory (so get, put and atomics are the
/// fabric's own copies and CPU atomics and never come here) and write messages into rings in the target's
/// control memory. Memfds travel over Unix sockets in the abstract namespace, between processes of one user
/// that know the job's secret; when such a socket ends without a farewell, the neighbour has died.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/keyed_hash.hpp"
#include "base/unique_fd.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/shm/control_memory.hpp"
#include "fabric/transport.hpp"

namespace craton::fabric::shm {

class ShmTransport final : public Transport {
 public:
  /// \param neighbours the ranks of this node, ascending, this one included
  /// \throws Error out_of_resources
  ShmTransport(Rank rank, std::vector<Rank> neighbours, const JobSecret& secret, std::uint64_t ring_bytes,
               TransportEvents& events);
  ~ShmTransport() override;

  /// This rank's doorbell; lives as long as the transport.
  Doorbell& doorbell() noexcept { return control_.header().doorbell; }
  /// The eventfd that neighbours write when this rank sleeps on descriptors. Before connect().
  void set_wake_fd(int fd) noexcept { wake_fd_ = fd; }

  const char* name() const noexcept override { return "shm"; }
  Capabilities capabilities() const noexcept override;
  std::string address() const override { return address_; }
  void connect(Rank peer, const std::string& address) override;
  bool connected(Rank peer) const noexcept override;
  void announce_region(Rank peer, RegionId region, const RegionMemory& memory) override;
  void withdraw_region(RegionId region) override;
  void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) override;
  void put(RemoteAddress destination, const void* source, std::size_t bytes, Completion& completion) override;
  void atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
              Completion& completion) override;
  bool send(Rank target, HandlerId handler, const void* payload, std::size_t bytes, bool may_refuse) override;
  /// Wakes a neighbour's application waiters that sleep on its doorbell.
  void wake_waiters(Rank target) noexcept;
  FlushCounter* flush_counter(Rank /*peer*/) noexcept override { return nullptr; }
  bool say_farewell(Rank peer) override;
  void disconnect(Rank peer) noexcept override;

  bool poll() override;
  int descriptor() const noexcept override { return sockets_.get(); }
  bool ready_to_sleep() override;

 private:
  struct Queued {
    HandlerId handler;
    std::vector<std::byte> payload;
  };
  struct Neighbour {
    Rank rank = 0;
    std::size_t index = 0;  ///< among the node's ranks
    UniqueFd socket;        ///< guarded by sockets_lock_
    std::atomic<bool> connected{false};
    std::atomic<bool> left{false};  ///< it said farewell
    std::atomic<bool> gone{false};  ///< it is dead, or we treat it so
    bool farewell_said = false;
    PeerMapping memory;
    ControlView control;
    UniqueFd wake_fd;
    std::mutex send_lock;  ///< guards producer, backlog and refused_at
    RingProducer producer;
    std::deque<Queued> backlog;
    std::size_t backlog_bytes = 0;
    std::optional<std::uint64_t> refused_at;  ///< a thread waits for room since the ring's head was this
    RingConsumer consumer;                    ///< used in poll() only
    std::unordered_map<RegionId, PeerMapping> mappings;  ///< guarded by sockets_lock_
  };
  /// A connection whose hello has not come yet. Guarded by sockets_lock_.
  struct Stranger {
    UniqueFd socket;
    TimeNs since_ns;
  };

  Neighbour* find(Rank rank) const noexcept { return rank < by_rank_.size() ? by_rank_[rank] : nullptr; }
  Mac proof(Rank prover, const std::string& listener) const noexcept;
  bool poll_rings();
  bool drain_ring(Neighbour& neighbour);
  bool push(Neighbour& neighbour, HandlerId handler, const void* payload, std::size_t bytes);
  void flush_backlog(Neighbour& neighbour);
  bool room_for_refused(bool take);
  bool room_for_backlog();
  bool poll_sockets();
  void accept_strangers();
  bool greet_stranger(int socket);
  void send_hello(int socket, const std::string& listener);
  bool receive(Neighbour& neighbour);
  void lose(Neighbour& neighbour, const char* cause);

  const Rank rank_;
  const JobSecret secret_;
  const std::uint64_t ring_bytes_;
  TransportEvents& events_;
  std::string address_;
  RegionMemory memory_;
  ControlView control_;
  int wake_fd_ = -1;
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
  std::vector<Neighbour*> by_rank_;
  std::size_t own_index_ = 0;
  UniqueFd listener_;
  UniqueFd sockets_;  ///< epoll set: listener, neighbours, strangers
  std::mutex sockets_lock_;
  std::vector<Stranger> strangers_;
  std::atomic<std::size_t> backlogs_{0};  ///< neighbours with a backlog
  std::atomic<std::size_t> refusals_{0};  ///< neighbours whose ring had no room for a thread that waits
  unsigned polls_ = 0;
};

}  // namespace craton::fabric::shm
