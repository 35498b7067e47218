/// \file
/// The transport over UCX: one endpoint a peer, and one worker for all peers or one for each
/// (ucx_workers.hpp).
///
/// Locks and threads: UCX is called under one mutex of ours, with its own locking off (its thread-safe mode
/// spins on a lock, which starves the holder on a busy machine, and runs callbacks inside it). What UCX calls
/// back only notes what happened; handlers and completions run in poll(), after the mutex is released, so
/// they may issue operations.
///
///     issuing thread ──lock──▶ ucp_put_nbx ...           poller ──lock──▶ ucp_worker_progress ─▶ callbacks
///     note
///                                                               ──free──▶ completions, handlers, lost peers
///
/// A put by UCX is complete when an endpoint flush that was issued after it has ended: UCX's own completion
/// of a put says only that the buffer may be reused. One flush is in flight a peer at a time; puts issued
/// meanwhile share the next one.
///
/// Without RDMA, ranks serve each other's operations over active messages (service.hpp); see ucx.hpp for the
/// reason.
///
/// Errors of peers: UCX can report a dead peer and cancel what is in flight (UCP_ERR_HANDLING_MODE_PEER) over
/// networks but not over shared memory (1.13: "no peer failure handler"). The mode follows from the
/// transports in use. Over a network an operation to a dead rank ends when UCX has cancelled it, or
/// `cancel_limit_ns` later. Over shared memory it ends when the rank is declared dead: the worker of that
/// rank is destroyed there and then, and with it all that UCX had of the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/transport.hpp"
#include "fabric/types.hpp"
#include "fabric/ucx/frame.hpp"
#include "fabric/ucx/ucp_library.hpp"
#include "fabric/ucx/ucx.hpp"
#include "fabric/ucx/ucx_peer.hpp"
#include "fabric/ucx/ucx_workers.hpp"

namespace craton::fabric::ucx {

/// How long operations to a dead peer may stay with UCX before they are finished without it. Over a network.
inline constexpr TimeNs cancel_limit_ns = 500'000'000;
/// How long the destructor waits for the farewells of peers that it has said farewell to.
inline constexpr TimeNs farewell_limit_ns = 2'000'000'000;
/// How many refused frames are logged; the rest is only counted, so that a flood does not wash out the log.
inline constexpr std::uint64_t max_logged_refusals = 32;

/// What UCX chose to use, as far as it matters to us.
struct UcxResources {
  bool rdma = false;     ///< there is a network that executes get, put and atomics by itself
  bool network = false;  ///< there is any network
};

class UcxTransport final : public Transport {
 public:
  /// See make_ucx_transport.
  UcxTransport(Rank rank, Rank size, const JobSecret& secret, TransportEvents& events,
               const UcxOptions& options);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  bool poll() override;
  int descriptor() const noexcept override { return workers_->descriptor(); }
  bool ready_to_sleep() override;

  const char* name() const noexcept override { return "ucx"; }
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
  bool issue(std::span<const Command> commands) override;
  bool send(Rank target, HandlerId handler, const void* payload, std::size_t bytes, bool may_refuse) override;
  FlushCounter* flush_counter(Rank peer) noexcept override { return &peers_[peer]->in_flight; }
  bool say_farewell(Rank peer) override;
  /// Over a network UCX cancels what is in flight to the peer, which takes a few polls, or `cancel_limit_ns`
  /// if it does not. Over shared memory all has ended at the next poll.
  void disconnect(Rank peer) noexcept override;
  bool has_room(Rank peer) const noexcept override;

 private:
  // What UCX calls, under the lock, from inside a call of ours.
  static void operation_ended(void* request, ucs_status_t status, void* operation);
  static void flush_ended(void* request, ucs_status_t status, void* peer);
  static void post_ended(void* request, ucs_status_t status, void* frame);
  static void service_sent(void* request, ucs_status_t status, void* frame);
  static ucs_status_t service_arrived(void* transport, const void* header, std::size_t header_bytes,
                                      void* payload, std::size_t bytes,
                                      const ucp_am_recv_param_t* parameters);
  static void pack_sent(void* request, ucs_status_t status, void* pack);
  static ucs_status_t pack_arrived(void* transport, const void* header, std::size_t header_bytes,
                                   void* payload, std::size_t bytes, const ucp_am_recv_param_t* parameters);
  static void close_ended(void* request, ucs_status_t status, void* peer);
  static void endpoint_failed(void* peer, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t frame_arrived(void* transport, const void* header, std::size_t header_bytes,
                                    void* payload, std::size_t bytes, const ucp_am_recv_param_t* parameters);

  struct OwnRegion {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
    ucp_mem_h handle = nullptr;
    std::vector<std::byte> packed_key;
  };
  struct InboundFrame {
    FrameHeader header;
    std::size_t first_word;  ///< of the payload, in Arrivals::words
  };
  struct DueAnswer {
    Peer* peer;
    ServiceHeader header;
    const std::byte* bytes;
  };
  /// What a progress call brought, to be delivered without the lock.
  struct Arrivals {
    std::vector<FinishedOperation> operations;
    std::vector<InboundFrame> frames;
    std::vector<std::uint64_t> words;  ///< payloads of frames, each aligned to 8 bytes
    std::vector<Rank> lost;            ///< peers whose operations have all ended
    void clear() noexcept;
  };

  // Set-up, progress and end (ucx_transport.cpp).
  void open_context(const UcxOptions& options);
  void open_workers();
  void progress();
  void progress_until(TimeNs limit_ns, FunctionRef<bool()> condition);
  void deliver();
  void wake_sleeper() noexcept;
  void note_failure(Peer& peer, const char* what, ucs_status_t status) noexcept;
  void start_closing(Peer& peer) noexcept;
  void part_from(Peer& peer) noexcept;
  void drop_worker(Peer& peer) noexcept;
  void close_endpoint(Peer& peer) noexcept;
  void close_failed();
  bool closed(const Peer& peer) const noexcept { return !peer.close_in_flight && peer.operations == nullptr; }
  void reap_closing();
  void destroy_keys(Peer& peer) noexcept;
  void destroy_workers() noexcept;

  // Operations (ucx_operations.cpp).
  void issue_get(Operation& operation, const RemoteRegion& region, void* destination, RemoteAddress source,
                 std::size_t bytes);
  void issue_put(Operation& operation, const RemoteRegion& region, RemoteAddress destination,
                 const void* source, std::size_t bytes);
  void issue_atomic(Operation& operation, const RemoteRegion& region, const AtomicOperation& wanted,
                    RemoteAddress word);
  template <typename Issue>
  void start(RemoteAddress at, std::uint64_t* previous, Completion& completion, Issue issue);
  template <typename Issue>
  bool start_locked(FinishedOperation& finished, RemoteAddress at, const Issue& issue);
  ucp_request_param_t native_parameters(Operation& operation) const noexcept;
  void expect_request(Operation& operation, ucs_status_ptr_t request) noexcept;
  Operation& take_operation(Peer& peer, Completion* completion, std::uint64_t* previous,
                            FlushCounter::Epoch epoch);
  void release_operation(Operation& operation) noexcept;
  static bool done(const Operation& operation) noexcept;
  static Status status_of(const Operation& operation) noexcept;
  void settle(Operation& operation, ucs_status_t status) noexcept;
  void end_if_done(Operation& operation) noexcept;
  void end_unanswered(Peer& peer) noexcept;
  void abandon_operations(Peer& peer) noexcept;
  static void finish(const FinishedOperation& finished) noexcept;
  void require_flush(Operation& operation) noexcept;
  void issue_flush(Peer& peer) noexcept;
  void finish_flush(Peer& peer, ucs_status_t status) noexcept;
  void issue_wanted_flushes() noexcept;

  // Operations that are served in software (ucx_service.cpp).
  void ask_transfer(Operation& operation, ServiceKind kind, RemoteAddress at, const std::byte* source,
                    std::size_t bytes);
  void ask_atomic(Operation& operation, const AtomicOperation& wanted, RemoteAddress at);
  void ask(Operation& operation, ServiceHeader& header, const std::byte* bytes);
  void post_service(Peer& peer, Operation* operation, const ServiceHeader& header, const std::byte* bytes);
  void finish_service(ServiceFrame& sent, ucs_status_t status) noexcept;
  void pack_service(Peer& peer, const ServiceHeader& header, const std::byte* bytes, std::size_t attached);
  void post_pack();
  void finish_pack(ServicePack& sent, ucs_status_t status) noexcept;
  void take_service(const ServiceHeader& header, const std::byte* payload, std::size_t bytes);
  void serve(Peer& peer, const ServiceHeader& asked, const std::byte* payload, std::size_t bytes);
  void send_answers();
  void take_answer(Peer& peer, const ServiceHeader& answer, const std::byte* payload, std::size_t bytes);

  // Frames (ucx_frames.cpp).
  void post(Peer& peer, FrameKind kind, HandlerId handler, const void* payload, std::size_t bytes);
  void finish_post(OutgoingFrame& sent, ucs_status_t status) noexcept;
  void receive(const std::byte* wire, std::size_t bytes);
  void receive_in_order(Peer& peer, const FrameHeader& header, const std::byte* payload);
  void keep(const FrameHeader& header, const std::byte* payload);
  void refuse(Rank source, const char* reason) noexcept;
  void accept_hello(Rank source, const std::byte* payload);
  void greet(Peer& peer, const Hello& hello);
  void send_welcomes();
  void deliver_frame(const FrameHeader& header, const std::byte* payload);
  void map_region(OwnRegion& own, const RegionMemory& memory);
  void accept_region(Peer& peer, const std::byte* payload, std::size_t bytes);

  const UcpLibrary& ucp_;
  const Rank rank_;
  const Rank size_;
  const JobSecret secret_;
  TransportEvents& events_;
  const SteadyClock clock_;

  ucp_context_h context_ = nullptr;
  UcxResources resources_;
  bool native_ = false;  ///< get, put and atomics are UCX's own; else ranks serve each other
  std::string address_;
  Digest address_digest_{};
  std::vector<std::unique_ptr<Peer>> peers_;  ///< never changes

  std::mutex lock_;                     ///< guards all below, and every call of UCX
  std::optional<UcxWorkers> workers_;   ///< there as long as the context
  std::vector<OwnRegion> own_regions_;  ///< by id
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_operations_;
  std::vector<std::unique_ptr<OutgoingFrame>> free_frames_;
  std::vector<std::unique_ptr<ServiceFrame>> free_service_frames_;
  std::vector<std::unique_ptr<ServicePack>> free_packs_;
  std::unique_ptr<ServicePack> open_pack_;  ///< is being filled
  bool batching_ = false;                   ///< several are being issued: pack services, flush afterwards
  std::vector<DueAnswer> answers_due_;      ///< requests arrive inside UCX, answers are sent after it
  std::vector<Peer*> flush_wanted_;
  std::vector<Peer*> welcomes_due_;  ///< hellos arrive inside UCX, answers are sent after it
  std::vector<Peer*> failing_;       ///< failures are noticed inside UCX, endpoints are closed after it
  std::vector<Peer*> closing_;
  Arrivals arrivals_;
  bool asleep_ = false;  ///< the poller may sleep on the descriptor; UCX must be told to wake it
  bool worked_ = false;  ///< UCX has called back since the last poll()
  std::uint64_t refusals_ = 0;

  Arrivals delivery_;        ///< the poller's own
  bool destroying_ = false;  ///< handlers are no longer called
};

}  // namespace craton::fabric::ucx
