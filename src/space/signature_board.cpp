#include "space/signature_board.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"

namespace craton::space {

namespace {

constexpr std::size_t turn_at = sizeof(std::uint64_t);
constexpr std::size_t ring_at = fabric::line_bytes;
constexpr std::size_t least_ring_bytes = std::size_t{256} * 1024;

// The head: where the signature begins, and how long it is. Positions count on until 2^40, which the ring, a
// power of two, divides.
constexpr unsigned size_bits = 24;
constexpr std::uint64_t position_mask = ~std::uint64_t{0} >> size_bits;
constexpr std::uint64_t head_of(std::uint64_t position, std::size_t bytes) noexcept {
  return position << size_bits | bytes;
}
constexpr std::uint64_t position_of(std::uint64_t head) noexcept {
  return head >> size_bits;
}
constexpr std::size_t bytes_of(std::uint64_t head) noexcept {
  return head & ((std::uint64_t{1} << size_bits) - 1);
}

}  // namespace

SignatureBoard::SignatureBoard(fabric::Fabric& fabric, fabric::RegionId region, std::size_t notice_capacity,
                               std::uint64_t shown_bytes)
    : fabric_(fabric),
      region_(region),
      notice_capacity_(notice_capacity),
      max_bytes_(coherence::Signature::head_bytes + notice_capacity * sizeof(coherence::WriteNotice)),
      ring_bytes_(std::bit_ceil(std::max(least_ring_bytes, 8 * max_bytes_))),
      memory_("craton signatures", ring_at + ring_bytes_),
      first_(shown_bytes),
      next_(shown_bytes) {
  CRATON_ASSERT(2 * max_bytes_ < std::size_t{1} << size_bits);
  fabric_.register_region(region_, memory_);
}

void SignatureBoard::close() {
  fabric_.unregister_region(region_);
}

void SignatureBoard::show(const coherence::Signature& signature) {
  const std::size_t bytes = signature.encoded_bytes();
  CRATON_ASSERT(bytes <= max_bytes_);
  // None lies across the end.
  if (next_ % ring_bytes_ + bytes > ring_bytes_) next_ += ring_bytes_ - next_ % ring_bytes_;
  signature.encode(memory_.data() + ring_at + next_ % ring_bytes_);
  first_ = next_;
  next_ += bytes;
  set_head();
}

bool SignatureBoard::show_more(coherence::Timestamp min_write_ts, std::uint64_t barriers,
                               std::span<const coherence::WriteNotice> news) {
  const std::size_t bytes = coherence::Signature::head_bytes + news.size_bytes();
  // After one that ends with the ring the next begins at its start.
  if (next_ == first_ || next_ % ring_bytes_ == 0 || next_ % ring_bytes_ + bytes > ring_bytes_ ||
      next_ - first_ + bytes > 2 * max_bytes_)
    return false;
  coherence::Signature::encode(min_write_ts, barriers, news, memory_.data() + ring_at + next_ % ring_bytes_);
  next_ += bytes;
  set_head();
  return true;
}

void SignatureBoard::set_head() noexcept {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data())).store(head_of(first_, next_ - first_));
}

void SignatureBoard::set_turn(std::uint64_t turn) {
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_.data() + turn_at)).store(turn);
}

void SignatureBoard::get_turns(std::span<std::uint64_t> turns) {
  get_words(turns, turn_at);
}

void SignatureBoard::get_versions(std::span<std::uint64_t> versions) {
  get_words(versions, 0);
}

void SignatureBoard::get_words(std::span<std::uint64_t> words, std::uint64_t offset) {
  CRATON_ASSERT(words.size() == fabric_.size());
  fabric::Completion completion;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    fabric_.get(&words[rank], {.rank = rank, .region = region_, .offset = offset}, sizeof words[rank],
                completion);
  coherence::wait_for(fabric_, completion);
}

coherence::Signature SignatureBoard::look(fabric::Rank rank, std::uint64_t& version) {
  coherence::Signature signature(notice_capacity_);
  std::vector<std::byte> bytes;
  const auto get = [&](void* to, std::uint64_t offset, std::size_t count) {
    fabric::Completion completion;
    fabric_.get(to, {.rank = rank, .region = region_, .offset = offset}, count, completion);
    coherence::wait_for(fabric_, completion);
  };
  std::uint64_t head = 0;
  get(&head, 0, sizeof head);
  for (;;) {
    if (head == version) return signature;  // perhaps that nothing was ever released there
    // What was added since, where it is still the same that is added to.
    const std::size_t seen = position_of(head) == position_of(version) ? bytes_of(version) : 0;
    bytes.resize(bytes_of(head) - seen);
    get(bytes.data(), ring_at + position_of(head) % ring_bytes_ + seen, bytes.size());
    std::uint64_t now = 0;
    get(&now, 0, sizeof now);
    // The writer may be at the one after `now`, and may have skipped the end of the ring for it.
    const std::uint64_t written_to = position_of(now) + bytes_of(now) + 2 * max_bytes_;
    if (((written_to - position_of(head)) & position_mask) <= ring_bytes_) {
      const bool whole = signature.merge_encoded(bytes);
      CRATON_ASSERT(whole);
      version = head;
      return signature;
    }
    head = now;
  }
}

}  // namespace craton::space
