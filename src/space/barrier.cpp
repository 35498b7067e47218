#include "space/barrier.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"

namespace craton::space {

namespace {
constexpr std::size_t from_parent = 0;  // the origins of signatures; children from 1 on
}

Barrier::Barrier(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::HandlerId first_handler,
                 unsigned threads, std::size_t notice_capacity)
    : fabric_(fabric),
      protocol_(protocol),
      handler_(first_handler),
      threads_(threads),
      notice_capacity_(notice_capacity) {
  fabric_.set_handler(handler_, &Barrier::arrived, this);
}

void Barrier::wait(std::uint32_t site) {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_threads_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_threads_.store(0, std::memory_order_relaxed);
    meet_ranks(site);
    generation_.store(generation + 1, std::memory_order_release);
    if (threads_ > 1) fabric_.notify();
    return;
  }
  const auto met = [&] {
    return generation_.load(std::memory_order_acquire) != generation || fabric_.lost_ranks() != 0;
  };
  const fabric::Status waited = fabric_.wait_until(met);
  if (waited != fabric::Status::ok || generation_.load() == generation) coherence::throw_lost(fabric_);
}

/// By the last thread of the rank to arrive.
void Barrier::meet_ranks(std::uint32_t site) {
  coherence::Signature signature = protocol_.release_to_all();
  for (fabric::Rank number = 0; number < children_at_most && child(number) < fabric_.size(); ++number)
    signature.merge(take(1 + number));
  if (fabric_.rank() != 0) {
    send((fabric_.rank() - 1) / children_at_most, signature);
    signature = take(from_parent);
  }
  for (fabric::Rank number = 0; number < children_at_most && child(number) < fabric_.size(); ++number)
    send(child(number), signature);
  protocol_.acquire_from_all(signature, site);
}

void Barrier::send(fabric::Rank to, const coherence::Signature& signature) {
  std::vector<std::byte> bytes(signature.encoded_bytes());
  signature.encode(bytes.data());
  std::array<std::byte, fabric::max_message_bytes> message;
  Piece piece{.generation = generation_.load(std::memory_order_relaxed),
              .offset = 0,
              .total_bytes = static_cast<std::uint32_t>(bytes.size())};
  while (piece.offset < piece.total_bytes) {
    const std::size_t count = std::min(bytes.size() - piece.offset, message.size() - sizeof piece);
    std::memcpy(message.data(), &piece, sizeof piece);
    std::memcpy(message.data() + sizeof piece, bytes.data() + piece.offset, count);
    if (fabric_.send(to, handler_, message.data(), sizeof piece + count) != fabric::Status::ok)
      coherence::throw_lost(fabric_);
    piece.offset += static_cast<std::uint32_t>(count);
  }
}

coherence::Signature Barrier::take(std::size_t origin) {
  Arrival& arrival = arrivals_[origin][generation_.load(std::memory_order_relaxed) % 2];
  const auto here = [&] {
    return arrival.whole.load(std::memory_order_acquire) || fabric_.lost_ranks() != 0;
  };
  const fabric::Status waited = fabric_.wait_until(here);
  if (waited != fabric::Status::ok || !arrival.whole.load()) coherence::throw_lost(fabric_);
  coherence::Signature signature(notice_capacity_);
  const bool well_formed = signature.merge_encoded(arrival.bytes);
  CRATON_ASSERT(well_formed);
  arrival.bytes.clear();
  arrival.received = 0;
  arrival.whole.store(false, std::memory_order_release);
  return signature;
}

void Barrier::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& barrier = *static_cast<Barrier*>(self);
  Piece piece{};
  CRATON_ASSERT(bytes > sizeof piece);
  std::memcpy(&piece, payload, sizeof piece);
  const std::size_t count = bytes - sizeof piece;
  CRATON_ASSERT(piece.offset + count <= piece.total_bytes);
  const bool by_child = source > barrier.fabric_.rank();
  const std::size_t origin = by_child ? 1 + (source - barrier.child(0)) : from_parent;
  CRATON_ASSERT(origin < origins);
  Arrival& arrival = barrier.arrivals_[origin][piece.generation % 2];
  CRATON_ASSERT(!arrival.whole.load());
  arrival.bytes.resize(piece.total_bytes);
  std::memcpy(arrival.bytes.data() + piece.offset, payload + sizeof piece, count);
  arrival.received += count;
  if (arrival.received == piece.total_bytes) arrival.whole.store(true, std::memory_order_release);
}

}  // namespace craton::space
