#if defined(CRATON_HAVE_UCX)

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.hpp"
#include "fabric/ucx/ucx_transport.hpp"
#include "fabric/words.hpp"

namespace craton::fabric::ucx {

namespace {

std::atomic_ref<std::uint64_t> word_at(std::byte* place) noexcept {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place));
}

bool is_word(const ServiceHeader& header) noexcept {
  return header.bytes == 8 && header.offset % 8 == 0;
}

std::uint64_t execute(const ServiceHeader& asked, std::byte* place) noexcept {
  const std::atomic_ref<std::uint64_t> word = word_at(place);
  switch (asked.atomic) {
    case AtomicKind::fetch_add:
      return word.fetch_add(asked.first);
    case AtomicKind::swap:
      return word.exchange(asked.first);
    case AtomicKind::compare_exchange:
      break;
  }
  std::uint64_t seen = asked.first;
  word.compare_exchange_strong(seen, asked.second);
  return seen;
}

}  // namespace

// ---- Asking

/// Asks for a transfer, in parts. \param source what a put stores
void UcxTransport::ask_transfer(Operation& operation, ServiceKind kind, RemoteAddress at,
                                const std::byte* source, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(bytes - done, max_part_bytes);
    ServiceHeader header{};
    header.offset = at.offset + done;
    header.bytes = static_cast<std::uint32_t>(part);
    header.region = at.region;
    header.kind = kind;
    ask(operation, header, kind == ServiceKind::put ? source + done : nullptr);
    done += part;
  }
}

void UcxTransport::ask_atomic(Operation& operation, const AtomicOperation& wanted, RemoteAddress at) {
  ServiceHeader header{};
  header.offset = at.offset;
  header.bytes = sizeof(std::uint64_t);
  header.region = at.region;
  header.first = wanted.first;
  header.second = wanted.second;
  header.kind = ServiceKind::atomic;
  header.atomic = wanted.kind;
  ask(operation, header, nullptr);
}

void UcxTransport::ask(Operation& operation, ServiceHeader& header, const std::byte* bytes) {
  header.operation = (std::uint64_t{operation.generation} << 32) | operation.index;
  ++operation.answers_due;
  const std::size_t attached = bytes == nullptr ? 0 : header.bytes;
  // What is copied into a pack, UCX need not give back: the operation waits for the answer alone.
  if (batching_ && attached <= max_packed_part_bytes) {
    return pack_service(*operation.peer, header, bytes, attached);
  }
  post_service(*operation.peer, &operation, header, bytes);
}

/// Sends a header and, if `bytes` is not null, the bytes it speaks of, which stay where they are until UCX is
/// done.
void UcxTransport::post_service(Peer& peer, Operation* operation, const ServiceHeader& header,
                                const std::byte* bytes) {
  if (peer.endpoint == nullptr) return;
  std::unique_ptr<ServiceFrame> frame;
  if (free_service_frames_.empty()) {
    frame = std::make_unique<ServiceFrame>();
  } else {
    frame = std::move(free_service_frames_.back());
    free_service_frames_.pop_back();
  }
  *frame = {.transport = this, .peer = &peer, .operation = operation, .header = header};
  frame->header.token = peer.send_token;
  frame->header.source = static_cast<std::uint16_t>(rank_);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.cb.send = &UcxTransport::service_sent;
  ServiceFrame& sent = peer.service_frames.add(std::move(frame));
  parameters.user_data = &sent;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      ucp_.ucp_am_send_nbx(peer.endpoint, service_message_id, &sent.header, sizeof sent.header, bytes,
                           bytes == nullptr ? 0 : header.bytes, &parameters);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    sent.operation = nullptr;  // it has not been told to wait for this
    finish_service(sent, UCS_PTR_STATUS(request));
    return;
  }
  if (operation != nullptr) ++operation->requests;
  wake_sleeper();
}

void UcxTransport::finish_service(ServiceFrame& sent, ucs_status_t status) noexcept {
  std::unique_ptr<ServiceFrame> frame = sent.peer->service_frames.take(sent);
  if (status != UCS_OK) note_failure(*frame->peer, "an operation", status);
  if (frame->operation != nullptr) settle(*frame->operation, status);
  if (free_service_frames_.size() < max_idle_frames) free_service_frames_.push_back(std::move(frame));
}

void UcxTransport::service_sent(void* request, ucs_status_t status, void* frame) {
  auto& sent = *static_cast<ServiceFrame*>(frame);
  UcxTransport& transport = *sent.transport;
  transport.worked_ = true;
  transport.finish_service(sent, status);
  transport.ucp_.ucp_request_free(request);
}

// ---- Packs

/// Adds a message to the pack that is being filled, and sends that first if it is another peer's or full.
void UcxTransport::pack_service(Peer& peer, const ServiceHeader& header, const std::byte* bytes,
                                std::size_t attached) {
  const std::size_t room = sizeof header + (attached + 7) / 8 * 8;
  if (open_pack_ != nullptr && (open_pack_->peer != &peer || open_pack_->bytes + room > max_pack_bytes)) {
    post_pack();
  }
  if (open_pack_ == nullptr) {
    if (free_packs_.empty()) {
      open_pack_ = std::make_unique<ServicePack>();
    } else {
      open_pack_ = std::move(free_packs_.back());
      free_packs_.pop_back();
    }
    open_pack_->transport = this;
    open_pack_->peer = &peer;
    open_pack_->bytes = 0;
  }
  ServiceHeader packed = header;
  packed.token = peer.send_token;
  packed.source = static_cast<std::uint16_t>(rank_);
  packed.attached = static_cast<std::uint32_t>(attached);
  std::byte* const end = open_pack_->wire + open_pack_->bytes;
  std::memcpy(end, &packed, sizeof packed);
  if (header.kind == ServiceKind::answer && words_of_a_line(header.offset, attached)) {
    copy_words_in(end + sizeof packed, bytes, attached);
  } else if (attached != 0) {
    std::memcpy(end + sizeof packed, bytes, attached);
  }
  open_pack_->bytes += room;
}

void UcxTransport::post_pack() {
  if (open_pack_ == nullptr) return;
  Peer& peer = *open_pack_->peer;
  ServicePack& sent = peer.packs.add(std::move(open_pack_));
  if (peer.endpoint == nullptr) return finish_pack(sent, UCS_OK);  // it is dead: so is what was packed
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.cb.send = &UcxTransport::pack_sent;
  parameters.user_data = &sent;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  const ucs_status_ptr_t request =
      ucp_.ucp_am_send_nbx(peer.endpoint, service_pack_id, nullptr, 0, sent.wire, sent.bytes, &parameters);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    finish_pack(sent, UCS_PTR_STATUS(request));
  } else {
    wake_sleeper();
  }
}

void UcxTransport::finish_pack(ServicePack& sent, ucs_status_t status) noexcept {
  std::unique_ptr<ServicePack> pack = sent.peer->packs.take(sent);
  if (status != UCS_OK) note_failure(*pack->peer, "an operation", status);
  if (free_packs_.size() < max_idle_frames) free_packs_.push_back(std::move(pack));
}

void UcxTransport::pack_sent(void* request, ucs_status_t status, void* pack) {
  auto& sent = *static_cast<ServicePack*>(pack);
  UcxTransport& transport = *sent.transport;
  transport.worked_ = true;
  transport.finish_pack(sent, status);
  transport.ucp_.ucp_request_free(request);
}

// ---- Serving and taking answers, inside ucp_worker_progress

ucs_status_t UcxTransport::service_arrived(void* transport, const void* header, std::size_t header_bytes,
                                           void* payload, std::size_t bytes,
                                           const ucp_am_recv_param_t* parameters) {
  auto& self = *static_cast<UcxTransport*>(transport);
  self.worked_ = true;
  ServiceHeader service;
  if (header_bytes != sizeof service || (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self.refuse(self.size_, "it is no service frame");
    return UCS_OK;
  }
  std::memcpy(&service, header, sizeof service);
  self.take_service(service, static_cast<const std::byte*>(payload), bytes);
  return UCS_OK;
}

ucs_status_t UcxTransport::pack_arrived(void* transport, const void* /*header*/, std::size_t /*header_bytes*/,
                                        void* payload, std::size_t bytes,
                                        const ucp_am_recv_param_t* parameters) {
  auto& self = *static_cast<UcxTransport*>(transport);
  self.worked_ = true;
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    self.refuse(self.size_, "it is sent by rendezvous");
    return UCS_OK;
  }
  const auto* at = static_cast<const std::byte*>(payload);
  for (std::size_t left = bytes; left != 0;) {
    ServiceHeader service;
    if (left >= sizeof service) std::memcpy(&service, at, sizeof service);
    if (left < sizeof service || service.attached > left - sizeof service) {
      self.refuse(self.size_, "it is no pack of service frames");
      break;
    }
    self.take_service(service, at + sizeof service, service.attached);
    const std::size_t taken = std::min(left, sizeof service + (std::size_t{service.attached} + 7) / 8 * 8);
    at += taken;
    left -= taken;
  }
  return UCS_OK;
}

/// One request or answer, from whoever it may be.
void UcxTransport::take_service(const ServiceHeader& header, const std::byte* payload, std::size_t bytes) {
  if (header.source >= size_) return refuse(size_, "its source is no rank of the job");
  Peer& peer = *peers_[header.source];
  if (!peer.address_digest || header.token != peer.receive_token) {
    refuse(header.source, "its sender has not proved to know the job's secret");
  } else if (header.kind == ServiceKind::answer) {
    take_answer(peer, header, payload, bytes);
  } else {
    serve(peer, header, payload, bytes);
  }
}

void UcxTransport::serve(Peer& peer, const ServiceHeader& asked, const std::byte* payload,
                         std::size_t bytes) {
  const OwnRegion* const region = asked.region < own_regions_.size() ? &own_regions_[asked.region] : nullptr;
  if (region == nullptr || region->data == nullptr || asked.bytes > max_part_bytes ||
      asked.offset > region->bytes || asked.bytes > region->bytes - asked.offset) {
    return refuse(peer.rank, "it asks for memory that is no part of a region");
  }
  std::byte* const place = region->data + asked.offset;
  ServiceHeader answer = asked;
  answer.kind = ServiceKind::answer;
  const std::byte* answered = nullptr;
  switch (asked.kind) {
    case ServiceKind::put:
      if (bytes != asked.bytes) return refuse(peer.rank, "its length is not what it says");
      if (is_word(asked)) {
        std::uint64_t value = 0;
        std::memcpy(&value, payload, sizeof value);
        word_at(place).store(value, std::memory_order_release);
      } else if (words_of_a_line(asked.offset, bytes)) {
        copy_words_out(place, payload, bytes);
      } else {
        std::memcpy(place, payload, bytes);
      }
      break;
    case ServiceKind::get:
      if (is_word(asked)) {
        answer.first = word_at(place).load(std::memory_order_acquire);
      } else {
        answered = place;
      }
      break;
    case ServiceKind::atomic:
      if (!is_word(asked)) return refuse(peer.rank, "its atomic is not on a word");
      answer.first = execute(asked, place);
      break;
    default:
      return refuse(peer.rank, "it asks for nothing known");
  }
  answers_due_.push_back({&peer, answer, answered});
}

void UcxTransport::send_answers() {
  const bool several = answers_due_.size() > 1;
  for (const DueAnswer& due : answers_due_) {
    if (due.peer->dead) continue;
    const std::size_t attached = due.bytes == nullptr ? 0 : due.header.bytes;
    if (several && attached <= max_packed_part_bytes) {
      pack_service(*due.peer, due.header, due.bytes, attached);
    } else {
      post_service(*due.peer, nullptr, due.header, due.bytes);
    }
  }
  post_pack();
  answers_due_.clear();
}

void UcxTransport::take_answer(Peer& peer, const ServiceHeader& answer, const std::byte* payload,
                               std::size_t bytes) {
  const auto index = static_cast<std::uint32_t>(answer.operation);
  Operation* const operation = index < operations_.size() ? operations_[index].get() : nullptr;
  if (operation == nullptr || operation->generation != answer.operation >> 32 || operation->peer != &peer ||
      operation->answers_due == 0) {
    return refuse(peer.rank, "it answers nothing that was asked");
  }
  if (operation->destination != nullptr) {
    const std::uint64_t at = answer.offset - operation->offset;
    if (at > operation->bytes || answer.bytes > operation->bytes - at ||
        (bytes != answer.bytes && !is_word(answer))) {
      return refuse(peer.rank, "it answers another question");
    }
    if (is_word(answer)) {
      std::memcpy(operation->destination + at, &answer.first, sizeof answer.first);
    } else {
      std::memcpy(operation->destination + at, payload, bytes);
    }
  }
  operation->reply = answer.first;
  --operation->answers_due;
  end_if_done(*operation);
}

}  // namespace craton::fabric::ucx

#endif
