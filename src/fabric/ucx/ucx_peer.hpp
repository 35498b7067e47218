/// \file
/// What the UCX transport keeps for each peer and for each operation and frame in flight. All of it is
/// guarded by the transport's lock but where a member says otherwise.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "fabric/completion.hpp"
#include "fabric/flush_counter.hpp"
#include "fabric/types.hpp"
#include "fabric/ucx/frame.hpp"
#include "fabric/ucx/frame_proof.hpp"
#include "fabric/ucx/service.hpp"

namespace craton::fabric::ucx {

class UcxTransport;
struct Peer;

/// A one-sided operation in flight. It is complete when `requests` is 0 and so is `answers_due`, or the peer
/// is dead.
struct Operation {
  UcxTransport* transport = nullptr;
  Peer* peer = nullptr;
  Completion* completion = nullptr;  ///< null once abandoned, or when nobody waits
  std::uint64_t* previous = nullptr;
  std::uint64_t operand = 0;  ///< atomics: UCX reads and writes these two, never the caller's memory
  std::uint64_t reply = 0;
  std::byte* destination = nullptr;  ///< of a served get
  std::uint64_t offset = 0;          ///< of its bytes in the region
  std::uint64_t bytes = 0;
  std::uint32_t index = 0;       ///< in UcxTransport::operations_
  std::uint32_t generation = 0;  ///< how often it was reused
  std::uint32_t requests = 0;    ///< what UCX has not given back: its requests, flushes; and the issuing call
  std::uint32_t answers_due = 0;  ///< served: parts that the peer has not answered
  FlushCounter::Epoch epoch = 0;
  bool failed = false;
  Operation* before = nullptr;  ///< neighbours in Peer::operations
  Operation* after = nullptr;
};

/// The end of an operation, on its way to its Completion.
struct FinishedOperation {
  Peer* peer;
  Completion* completion;
  std::uint64_t* previous;
  std::uint64_t reply;
  FlushCounter::Epoch epoch;
  Status status;
};

/// Frames that UCX has not taken yet.
template <typename Frame>
class FramesInFlight {
 public:
  Frame& add(std::unique_ptr<Frame> frame) {
    frame->place = frames_.size();
    return *frames_.emplace_back(std::move(frame));
  }
  std::unique_ptr<Frame> take(const Frame& frame) noexcept {
    const std::size_t place = frame.place;
    std::swap(frames_[place], frames_.back());
    frames_[place]->place = place;
    std::unique_ptr<Frame> taken = std::move(frames_.back());
    frames_.pop_back();
    return taken;
  }
  void clear() noexcept { frames_.clear(); }

 private:
  std::vector<std::unique_ptr<Frame>> frames_;
};

/// A frame that UCX has not taken yet. It is reused.
struct OutgoingFrame {
  UcxTransport* transport;
  Peer* peer;
  std::size_t place;  ///< in Peer::frames
  std::size_t bytes;
  alignas(8) std::byte wire[max_frame_bytes];
};

/// A service message that UCX has not taken yet. It is reused.
struct ServiceFrame {
  UcxTransport* transport = nullptr;
  Peer* peer = nullptr;
  Operation* operation = nullptr;  ///< waits for it; null for answers
  std::size_t place = 0;           ///< in Peer::service_frames
  ServiceHeader header{};
};

/// Several service messages to one peer on their way as one. It is reused.
struct ServicePack {
  UcxTransport* transport;
  Peer* peer;
  std::size_t place;  ///< in Peer::packs
  std::size_t bytes;
  alignas(8) std::byte wire[max_pack_bytes];
};

/// A peer's part of a region.
struct RemoteRegion {
  std::uint64_t base;
  std::uint64_t bytes;
  ucp_rkey_h key;  ///< null if operations on it are served
};

struct Peer {
  Peer(UcxTransport& its_transport, Rank its_rank) : transport(its_transport), rank(its_rank) {}

  UcxTransport& transport;
  const Rank rank;
  ucp_ep_h endpoint = nullptr;

  // Wiring.
  std::atomic<bool> connected{false};  ///< written under the lock
  bool hello_accepted = false;
  bool welcomed = false;
  std::optional<Digest> address_digest;  ///< known once connect() was called
  std::optional<Hello> early_hello;      ///< arrived before that
  std::uint64_t send_token = 0;
  std::uint64_t receive_token = 0;

  // Messages.
  std::uint64_t next_to_send = 0;
  std::uint64_t next_to_deliver = 0;
  std::map<std::uint64_t, std::vector<std::byte>> early_frames;
  std::atomic<std::size_t> backlog_bytes{0};  ///< of frames that UCX has not taken; written under the lock

  /// By region, oldest first: a fast peer may announce the next region of an id before this rank has
  /// withdrawn the last one.
  std::unordered_map<RegionId, std::deque<RemoteRegion>> regions;

  // Operations.
  FlushCounter in_flight;                         ///< used without the lock
  Operation* operations = nullptr;                ///< all in flight
  std::atomic<std::uint32_t> operation_count{0};  ///< of them; written under the lock
  std::vector<Operation*> unflushed;              ///< wait for a flush that has not been issued
  std::vector<Operation*> flushing;               ///< wait for the flush in flight
  bool flush_in_flight = false;
  bool flush_wanted = false;  ///< is in UcxTransport::flush_wanted_

  // What UCX has not taken.
  FramesInFlight<OutgoingFrame> frames;
  FramesInFlight<ServiceFrame> service_frames;
  FramesInFlight<ServicePack> packs;

  // The end.
  std::atomic<bool> dead{false};  ///< by what UCX says or disconnect() was told; written under the lock
  std::atomic<bool> disconnected{false};  ///< by disconnect(); written under the lock
  std::string cause;                      ///< what UCX said
  bool farewell_sent = false;
  bool farewell_received = false;
  bool close_in_flight = false;  ///< UCX has not called back
  TimeNs close_deadline_ns = 0;
};

}  // namespace craton::fabric::ucx
