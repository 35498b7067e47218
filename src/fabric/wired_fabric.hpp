/// \file
/// The fabric of a real rank: every peer behind the transport that reaches it best, shared memory inside a
/// node, tcp or ucx between nodes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/barrier.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/fabric.hpp"
#include "fabric/handlers.hpp"
#include "fabric/host_share.hpp"
#include "fabric/offload/options.hpp"
#include "fabric/progress.hpp"
#include "fabric/shm/shm_transport.hpp"
#include "fabric/tcp/link_model.hpp"
#include "fabric/transport.hpp"
#include "fabric/ucx/ucx.hpp"

namespace craton::fabric::offload {
class OffloadTransport;
}

namespace craton::fabric {

struct WiredOptions {
  std::string network = "auto";  ///< between nodes: "tcp", "ucx", "auto" (ucx where there is RDMA, else tcp),
                                 ///< "shm" (no second node)
  bool isolate_nodes = false;    ///< every rank is its own node
  std::string node_name;         ///< ranks with equal names share a node; empty: the machine tells
  TimeNs spin_ns = 20'000;       ///< how long every wait polls before it sleeps
  TimeNs connect_timeout_ns = 30'000'000'000;  ///< for wiring all ranks
  std::string tcp_interface;  ///< address or interface name that tcp listens on; empty: found by itself
  LinkModel tcp_link;         ///< injected into tcp
  bool tcp_gather = true;     ///< see TcpOptions::gather
  ucx::UcxOptions ucx;        ///< which of its transports and devices ucx uses
  std::uint64_t ring_bytes =
      64 * 1024;  ///< shm: one message ring, for each pair of ranks of a node; a power of two
  /// Between nodes. Inside a node operations are plain copies, which no executor could make cheaper.
  offload::OffloadOptions offload;
};

/// Constructing it is collective: it wires all ranks and returns when they can talk. Blocks up to
/// connect_timeout. Destroying it without farewell() looks like death to the peers.
class WiredFabric final : public Fabric, private TransportEvents {
 public:
  /// \throws Error timed_out, peer_lost, not_supported, out_of_resources, invalid_argument
  WiredFabric(Bootstrap& bootstrap, const WiredOptions& options, const Clock& clock);
  ~WiredFabric() override;

  /// Ends the job in order. Collective: waits until all ranks have got here, then disconnects. After it only
  /// the destructor may be called. \returns peer_lost if a rank died first
  Status farewell(TimeNs deadline_ns);

  /// The agent, for a control descriptor to be watched by it.
  Progress& progress() noexcept { return *progress_; }

  Node node_of(Rank rank) const noexcept override { return nodes_[rank]; }
  std::uint32_t processors_a_rank() const noexcept override { return host_.processors_a_rank(); }
  Capabilities capabilities(Rank peer) const noexcept override;
  bool alive(Rank peer) const noexcept override;
  const Clock& clock() const noexcept override { return clock_; }
  void register_region(RegionId id, const RegionMemory& memory) override;
  void unregister_region(RegionId id) override;
  Status flush(Rank target) override;
  void set_handler(HandlerId id, Handler handler, void* context) override;
  Status send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) override;
  Status wake(Rank target) override;
  Status wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned patience = 1) override;
  void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, TimeNs deadline_ns) override;
  void wake_sleepers(const std::atomic<std::uint32_t>& word) noexcept override;
  void notify() noexcept override;
  void set_peer_lost_handler(PeerLostHandler handler, void* context) override;
  void declare_lost(Rank peer) noexcept override;

 private:
  struct Announcement {
    unsigned received = 0;  ///< one from each transport that reaches the peer
    std::uint64_t bytes = 0;
    std::byte* direct = nullptr;
  };
  struct LocalRegion {
    std::atomic<std::byte*> data{nullptr};
    std::atomic<std::uint64_t> bytes{0};
  };

  // TransportEvents
  void message_arrived(Rank source, HandlerId handler, const std::byte* payload, std::size_t bytes) override;
  void region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* direct) override;
  void peer_lost(Rank peer, const char* cause) override;
  void peer_left(Rank peer) override;
  void room_made() noexcept override { notify(); }
  LocalPart local_part(RegionId region) const noexcept override;

  void start_get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) override;
  void start_put(RemoteAddress destination, const void* source, std::size_t bytes,
                 Completion& completion) override;
  void start_atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                    Completion& completion) override;

  void find_nodes(Bootstrap& bootstrap, const WiredOptions& options);
  void make_transports(Bootstrap& bootstrap, const WiredOptions& options);
  std::unique_ptr<Transport> make_network(Bootstrap& bootstrap, const WiredOptions& options,
                                          TransportEvents& events);
  void connect_all(Bootstrap& bootstrap, const WiredOptions& options);
  Transport* admit(Transport* transport, RemoteAddress address, std::size_t bytes, Completion& completion);
  void wake_agent() noexcept;
  Status flush_endpoint(Rank target, Transport& link, std::size_t index);
  std::vector<RegionPart> exchange_parts(RegionId id, const RegionMemory& memory);
  void barrier_or_throw(const char* asked);
  [[noreturn]] void throw_lost(const char* asked) const;

  const Clock& clock_;
  std::vector<Node> nodes_;
  std::vector<Rank> neighbours_;  ///< ranks of this node, this one included
  HostShare host_;                ///< of the ranks that can be reached over the loopback address
  Doorbell private_doorbell_;     ///< used when there are no neighbours
  std::unique_ptr<shm::ShmTransport> shm_;
  std::unique_ptr<Transport> network_;
  offload::OffloadTransport* offloading_ = nullptr;  ///< network_, if it is one
  std::vector<Transport*> links_;                    ///< by rank; null for this rank
  std::vector<Transport*> atomic_links_;             ///< by rank; all network_ if its NIC executes atomics
  bool nic_atomics_ = false;
  std::unique_ptr<Progress> progress_;
  Handlers handlers_;
  std::array<LocalRegion, max_regions> local_regions_{};
  std::mutex announcement_lock_;
  std::map<RegionId, std::vector<Announcement>> announcements_;  ///< of regions not yet published
  std::vector<std::mutex> flush_locks_;
  std::vector<std::atomic<bool>> lost_;
  std::vector<std::atomic<bool>> left_;
  std::atomic<PeerLostHandler> peer_lost_handler_{nullptr};
  std::atomic<void*> peer_lost_context_{nullptr};
  std::atomic<bool> closing_{false};
  std::unique_ptr<Barrier> barrier_;
};

}  // namespace craton::fabric
