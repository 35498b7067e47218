/// \file
/// A bounded ring of messages from one rank to another, in the target's control memory.
///
///   head ─▶ [bytes|handler|kind][payload, padded to 8] [bytes|...][...] ◀─ tail       (indices count bytes,
///   never wrap)
///
/// Invariants: one producer rank (its threads take turns under a lock of theirs), one consumer rank (under
/// its poll lock). A record never wraps: a filler record takes the rest of the ring. The consumer trusts
/// nothing it reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/types.hpp"

namespace craton::fabric::shm {

/// The shared part, followed by `capacity` bytes of records.
struct alignas(64) RingHeader {
  alignas(64) std::atomic<std::uint64_t> tail{0};  ///< written by the producer
  alignas(64) std::atomic<std::uint64_t> head{0};  ///< written by the consumer
  std::atomic<std::uint32_t> producer_waits{0};  ///< set by a producer without room, cleared by the consumer
};

struct RecordHeader {
  std::uint32_t bytes;
  HandlerId handler;
  std::uint16_t kind;
};
static_assert(sizeof(RecordHeader) == 8);

inline constexpr std::uint16_t record_message = 1;
inline constexpr std::uint16_t record_filler = 2;

/// Room that every ring must have, so that the largest message and a filler always fit in an empty one.
inline constexpr std::uint64_t min_ring_bytes = 16 * 1024;
static_assert(min_ring_bytes >= 2 * (max_message_bytes + sizeof(RecordHeader)));

constexpr std::uint64_t record_bytes(std::uint64_t payload_bytes) {
  return sizeof(RecordHeader) + (payload_bytes + 7) / 8 * 8;
}

/// The producer's view of a ring.
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingHeader* header, std::byte* records, std::uint64_t capacity)
      : header_(header), records_(records), capacity_(capacity) {}

  /// \returns false if there is no room; then the consumer has been asked to ring when there is
  bool push(HandlerId handler, const void* payload, std::size_t bytes) noexcept {
    if (has_room(bytes)) {
      write(handler, payload, bytes);
      return true;
    }
    header_->producer_waits.store(
        1);  // sequentially consistent with the consumer's store of head and its look here
    if (!has_room(bytes)) return false;
    write(handler, payload, bytes);
    return true;
  }

  /// How far the consumer was when push() last looked; then freed() tells whether it has gone further.
  std::uint64_t head_seen() const noexcept { return head_seen_; }
  bool freed_since(std::uint64_t head) const noexcept { return header_->head.load() != head; }

 private:
  std::uint64_t filler_bytes(std::uint64_t needed) const noexcept {
    const std::uint64_t to_end = capacity_ - tail_ % capacity_;
    return to_end < needed ? to_end : 0;
  }
  bool has_room(std::size_t bytes) noexcept {
    const std::uint64_t needed = record_bytes(bytes) + filler_bytes(record_bytes(bytes));
    if (tail_ + needed - head_seen_ <= capacity_) return true;
    head_seen_ = header_->head.load();
    return tail_ + needed - head_seen_ <= capacity_;
  }
  void write(HandlerId handler, const void* payload, std::size_t bytes) noexcept {
    if (const std::uint64_t filler = filler_bytes(record_bytes(bytes)); filler != 0) {
      const RecordHeader record{.bytes = static_cast<std::uint32_t>(filler - sizeof(RecordHeader)),
                                .handler = 0,
                                .kind = record_filler};
      std::memcpy(records_ + tail_ % capacity_, &record, sizeof record);
      tail_ += filler;
    }
    std::byte* at = records_ + tail_ % capacity_;
    const RecordHeader record{
        .bytes = static_cast<std::uint32_t>(bytes), .handler = handler, .kind = record_message};
    std::memcpy(at, &record, sizeof record);
    if (bytes != 0) std::memcpy(at + sizeof record, payload, bytes);
    tail_ += record_bytes(bytes);
    header_->tail.store(tail_, std::memory_order_release);
  }

  RingHeader* header_ = nullptr;
  std::byte* records_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t tail_ = 0;       ///< ours alone
  std::uint64_t head_seen_ = 0;  ///< how far the consumer was when we last looked
};

/// The consumer's view of a ring.
class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingHeader* header, const std::byte* records, std::uint64_t capacity)
      : header_(header), records_(records), capacity_(capacity) {}

  enum class Outcome : std::uint8_t { empty, taken, corrupt };

  bool empty() const noexcept { return header_->tail.load() == head_; }

  /// Hands the oldest message to `consume(handler, payload, bytes)`, in place, then frees it.
  template <typename Consume>
  Outcome take(Consume&& consume) {
    for (;;) {
      const std::uint64_t available = header_->tail.load(std::memory_order_acquire) - head_;
      if (available == 0) return Outcome::empty;
      RecordHeader record{};
      const std::byte* at = records_ + head_ % capacity_;
      std::memcpy(&record, at, sizeof record);
      const std::uint64_t whole = record_bytes(record.bytes);
      if (available > capacity_ || whole > available || whole > capacity_ - head_ % capacity_)
        return Outcome::corrupt;
      if (record.kind == record_message) {
        if (record.bytes > max_message_bytes || record.handler >= max_handlers) return Outcome::corrupt;
        consume(record.handler, at + sizeof record, record.bytes);
        release(whole);
        return Outcome::taken;
      }
      if (record.kind != record_filler) return Outcome::corrupt;
      release(whole);
    }
  }

  /// True once for each time the producer found no room: it wants to be rung.
  bool producer_waits() noexcept {
    return header_->producer_waits.load() != 0 && header_->producer_waits.exchange(0) != 0;
  }

 private:
  void release(std::uint64_t bytes) noexcept {
    head_ += bytes;
    header_->head.store(head_);
  }

  RingHeader* header_ = nullptr;
  const std::byte* records_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t head_ = 0;  ///< ours alone
};

}  // namespace craton::fabric::shm
