#if defined(CRATON_HAVE_UCX)

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/ring_log.hpp"
#include "fabric/ucx/ucx_transport.hpp"

namespace craton::fabric::ucx {

namespace {

std::string_view text_of(const UcpLibrary& ucp, ucs_status_t status) noexcept {
  return ucp.ucs_status_string(status);
}

}  // namespace

// ---- Sending

bool UcxTransport::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes,
                        bool may_refuse) {
  Peer& peer = *peers_[target];
  const std::lock_guard lock(lock_);
  if (peer.dead) return true;  // what is sent to the dead is dropped
  if (may_refuse && peer.backlog_bytes >= refuse_backlog_bytes) return false;
  post(peer, FrameKind::message, handler, payload, bytes);
  return true;
}

/// Copies and sends a frame; UCX may keep it for a while. Needs the lock.
void UcxTransport::post(Peer& peer, FrameKind kind, HandlerId handler, const void* payload,
                        std::size_t bytes) {
  CRATON_ASSERT(bytes <= max_payload_bytes);
  CRATON_ASSERT(handler < max_handlers);
  CRATON_ASSERT(peer.backlog_bytes < max_backlog_bytes);
  std::unique_ptr<OutgoingFrame> frame;
  if (free_frames_.empty()) {
    frame = std::make_unique<OutgoingFrame>();
  } else {
    frame = std::move(free_frames_.back());
    free_frames_.pop_back();
  }
  const bool in_sequence = kind != FrameKind::hello;
  const FrameHeader header{.token = in_sequence ? peer.send_token : 0,
                           .sequence = in_sequence ? peer.next_to_send++ : 0,
                           .payload_bytes = static_cast<std::uint32_t>(bytes),
                           .source = static_cast<std::uint16_t>(rank_),
                           .kind = kind,
                           .handler = static_cast<std::uint8_t>(handler)};
  frame->transport = this;
  frame->peer = &peer;
  frame->bytes = sizeof header + bytes;
  std::memcpy(frame->wire, &header, sizeof header);
  if (bytes != 0) std::memcpy(frame->wire + sizeof header, payload, bytes);
  peer.backlog_bytes += frame->bytes;

  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.cb.send = &UcxTransport::post_ended;
  OutgoingFrame& sent = peer.frames.add(std::move(frame));
  parameters.user_data = &sent;
  // Eager: with a rendezvous the receiver would have to fetch the payload, and order would be lost.
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      ucp_.ucp_am_send_nbx(peer.endpoint, frame_message_id, nullptr, 0, sent.wire, sent.bytes, &parameters);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    wake_sleeper();
  } else {
    finish_post(sent, UCS_PTR_STATUS(request));
  }
}

void UcxTransport::finish_post(OutgoingFrame& sent, ucs_status_t status) noexcept {
  std::unique_ptr<OutgoingFrame> frame = sent.peer->frames.take(sent);
  frame->peer->backlog_bytes -= frame->bytes;
  if (status != UCS_OK) note_failure(*frame->peer, "a message", status);
  if (free_frames_.size() < max_idle_frames) free_frames_.push_back(std::move(frame));
}

void UcxTransport::post_ended(void* request, ucs_status_t status, void* frame) {
  auto& sent = *static_cast<OutgoingFrame*>(frame);
  UcxTransport& transport = *sent.transport;
  transport.worked_ = true;
  transport.finish_post(sent, status);
  transport.ucp_.ucp_request_free(request);
}

// ---- Receiving, inside ucp_worker_progress

ucs_status_t UcxTransport::frame_arrived(void* transport, const void* /*header*/,
                                         std::size_t /*header_bytes*/, void* payload, std::size_t bytes,
                                         const ucp_am_recv_param_t* parameters) {
  auto& self = *static_cast<UcxTransport*>(transport);
  self.worked_ = true;
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self.refuse(self.size_, "it is sent by rendezvous");
  } else {
    self.receive(static_cast<const std::byte*>(payload), bytes);
  }
  return UCS_OK;  // UCX may take its buffer back
}

void UcxTransport::receive(const std::byte* wire, std::size_t bytes) {
  FrameHeader header;
  if (bytes < sizeof header || bytes > max_frame_bytes) return refuse(size_, "its length is out of range");
  std::memcpy(&header, wire, sizeof header);
  const std::byte* const payload = wire + sizeof header;
  if (header.source >= size_) return refuse(size_, "its source is no rank of the job");
  if (header.payload_bytes != bytes - sizeof header)
    return refuse(header.source, "its length is not what it says");
  if (header.kind == FrameKind::hello) {
    // Checked at once, so that who does not know the secret cannot make this rank keep anything.
    if (header.payload_bytes != sizeof(Hello)) return refuse(header.source, "it is no hello");
    accept_hello(header.source, payload);
    return;
  }
  Peer& peer = *peers_[header.source];
  if (!peer.address_digest || header.token != peer.receive_token) {
    return refuse(header.source, "its sender has not proved to know the job's secret");
  }
  receive_in_order(peer, header, payload);
}

void UcxTransport::receive_in_order(Peer& peer, const FrameHeader& header, const std::byte* payload) {
  if (header.sequence < peer.next_to_deliver) return refuse(peer.rank, "it has been here before");
  if (header.sequence > peer.next_to_deliver) {
    if (peer.early_frames.size() >= max_early_frames)
      return refuse(peer.rank, "too many frames came before it");
    std::vector<std::byte> wire(sizeof header + header.payload_bytes);
    std::memcpy(wire.data(), &header, sizeof header);
    std::memcpy(wire.data() + sizeof header, payload, header.payload_bytes);
    peer.early_frames.emplace(header.sequence, std::move(wire));
    return;
  }
  keep(header, payload);
  ++peer.next_to_deliver;
  while (!peer.early_frames.empty() && peer.early_frames.begin()->first == peer.next_to_deliver) {
    const std::vector<std::byte>& wire = peer.early_frames.begin()->second;
    FrameHeader early;
    std::memcpy(&early, wire.data(), sizeof early);
    keep(early, wire.data() + sizeof early);
    ++peer.next_to_deliver;
    peer.early_frames.erase(peer.early_frames.begin());
  }
}

/// Copies a frame for deliver(). A farewell counts at once: the end of the connection may come in the same
/// progress.
void UcxTransport::keep(const FrameHeader& header, const std::byte* payload) {
  if (header.kind == FrameKind::farewell) peers_[header.source]->farewell_received = true;
  const std::size_t first_word = arrivals_.words.size();
  arrivals_.words.resize(first_word + (header.payload_bytes + 7) / 8);
  if (header.payload_bytes != 0) {
    std::memcpy(arrivals_.words.data() + first_word, payload, header.payload_bytes);
  }
  arrivals_.frames.push_back({header, first_word});
}

/// \param source the rank that a frame claims to come from, or size_ if it claims none
void UcxTransport::refuse(Rank source, const char* reason) noexcept {
  if (++refusals_ > max_logged_refusals) return;
  if (source < size_) {
    process_log().write({"ucx: dropped a frame that claims to come from rank ", source, ": ", reason});
  } else {
    process_log().write({"ucx: dropped a frame: ", reason});
  }
}

// ---- Wiring. connect() and a peer's hello come in either order.

void UcxTransport::accept_hello(Rank source, const std::byte* payload) {
  Hello hello;
  std::memcpy(&hello, payload, sizeof hello);
  const FrameProof proof(secret_, source, hello.address_digest, rank_, address_digest_);
  if (!proof.accepts(hello)) return refuse(source, "its hello does not prove to know the job's secret");
  Peer& peer = *peers_[source];
  if (peer.address_digest) {
    greet(peer, hello);
  } else {
    peer.early_hello = hello;
  }
}

/// Takes a proven hello of a peer whose address is known, and answers it.
void UcxTransport::greet(Peer& peer, const Hello& hello) {
  if (hello.address_digest != *peer.address_digest)
    return refuse(peer.rank, "its hello is of another address");
  if (peer.hello_accepted || peer.dead) return;
  peer.hello_accepted = true;
  peer.connected.store(peer.welcomed, std::memory_order_release);
  welcomes_due_.push_back(&peer);
}

void UcxTransport::send_welcomes() {
  for (Peer* peer : welcomes_due_) {
    if (!peer->dead) post(*peer, FrameKind::welcome, wake_handler, nullptr, 0);
  }
  welcomes_due_.clear();
}

// ---- Delivering, in poll(), without the lock

void UcxTransport::deliver_frame(const FrameHeader& header, const std::byte* payload) {
  Peer& peer = *peers_[header.source];
  switch (header.kind) {
    case FrameKind::message:
      // What a peer sent before its connection ended is delivered, but nothing after it was declared dead.
      if (destroying_ || peer.disconnected) return;
      events_.message_arrived(header.source, header.handler, payload, header.payload_bytes);
      return;
    case FrameKind::region:
      accept_region(peer, payload, header.payload_bytes);
      return;
    case FrameKind::welcome: {
      const std::lock_guard lock(lock_);
      peer.welcomed = true;
      peer.connected.store(peer.hello_accepted, std::memory_order_release);
      return;
    }
    case FrameKind::farewell:
      if (!destroying_) events_.peer_left(peer.rank);
      return;
    case FrameKind::hello:
      break;
  }
  const std::lock_guard lock(lock_);
  refuse(header.source, "it is of no known kind");
}

// ---- Regions

void UcxTransport::announce_region(Rank target, RegionId region, const RegionMemory& memory) {
  CRATON_ASSERT(region < max_regions);
  Peer& peer = *peers_[target];
  const std::lock_guard lock(lock_);
  if (region >= own_regions_.size()) own_regions_.resize(region + 1);
  OwnRegion& own = own_regions_[region];
  if (own.data == nullptr) {
    if (native_) map_region(own, memory);
    own.data = memory.data();
    own.bytes = memory.bytes();
  }
  if (peer.dead) return;
  const RegionAnnouncement announcement{.base = reinterpret_cast<std::uint64_t>(memory.data()),
                                        .bytes = memory.bytes(),
                                        .region = region,
                                        .key_bytes = static_cast<std::uint32_t>(own.packed_key.size())};
  std::vector<std::byte> payload(sizeof announcement + own.packed_key.size());
  std::memcpy(payload.data(), &announcement, sizeof announcement);
  std::copy(own.packed_key.begin(), own.packed_key.end(), payload.begin() + sizeof announcement);
  post(peer, FrameKind::region, wake_handler, payload.data(), payload.size());
}

void UcxTransport::map_region(OwnRegion& own, const RegionMemory& memory) {
  const auto fail = [this, &memory](ucs_status_t status) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = "cannot register " + std::to_string(memory.bytes()) + " bytes of memory with UCX",
                 .happened = std::string(text_of(ucp_, status)),
                 .limit = "ulimit -l",
                 .remedy = "raise the limit of locked memory"});
  };
  ucp_mem_map_params_t parameters{};
  parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  parameters.address = memory.data();
  parameters.length = memory.bytes();
  ucs_status_t status = ucp_.ucp_mem_map(context_, &parameters, &own.handle);
  if (status != UCS_OK) {
    own.handle = nullptr;
    fail(status);
  }
  void* key = nullptr;
  std::size_t key_bytes = 0;
  status = ucp_.ucp_rkey_pack(context_, own.handle, &key, &key_bytes);
  if (status == UCS_OK && sizeof(RegionAnnouncement) + key_bytes > max_payload_bytes) {
    ucp_.ucp_rkey_buffer_release(key);
    status = UCS_ERR_EXCEEDS_LIMIT;
  }
  if (status != UCS_OK) {
    ucp_.ucp_mem_unmap(context_, std::exchange(own.handle, nullptr));
    fail(status);
  }
  const auto* const first = static_cast<const std::byte*>(key);
  own.packed_key.assign(first, first + key_bytes);
  ucp_.ucp_rkey_buffer_release(key);
}

void UcxTransport::accept_region(Peer& peer, const std::byte* payload, std::size_t bytes) {
  RegionAnnouncement announcement{};
  {
    const std::lock_guard lock(lock_);
    if (destroying_ || peer.dead) return;
    if (bytes >= sizeof announcement) std::memcpy(&announcement, payload, sizeof announcement);
    if (bytes < sizeof announcement || announcement.region >= max_regions ||
        announcement.key_bytes != bytes - sizeof announcement) {
      return refuse(peer.rank, "it announces no region");
    }
    RemoteRegion region{announcement.base, announcement.bytes, nullptr};
    if (native_) {
      const ucs_status_t status =
          ucp_.ucp_ep_rkey_unpack(peer.endpoint, payload + sizeof announcement, &region.key);
      if (status != UCS_OK) return note_failure(peer, "the key of a region", status);
    }
    peer.regions[announcement.region].push_back(region);
  }
  events_.region_announced(peer.rank, announcement.region, announcement.bytes, nullptr);
}

void UcxTransport::withdraw_region(RegionId region) {
  const std::lock_guard lock(lock_);
  for (const std::unique_ptr<Peer>& peer : peers_) {
    const auto found = peer->regions.find(region);
    if (found == peer->regions.end()) continue;
    const ucp_rkey_h key = found->second.front().key;
    if (key != nullptr) ucp_.ucp_rkey_destroy(key);
    found->second.pop_front();
    if (found->second.empty()) peer->regions.erase(found);
  }
  if (region >= own_regions_.size()) return;
  if (own_regions_[region].handle != nullptr) ucp_.ucp_mem_unmap(context_, own_regions_[region].handle);
  own_regions_[region] = {};
}

}  // namespace craton::fabric::ucx

#endif
