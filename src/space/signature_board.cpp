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
  CRATON_ASSERT(turns.size() == fabric_.size());
  fabric::Completion completion;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    fabric_.get(&turns[rank], {.rank = rank, .region = region_, .offset = turn_at}, sizeof turns[rank],
                completion);
  coherence::wait_for(fabric_, completion);
}

bool SignatureBoard::look(std::span<View> views) {
  get_heads(views);
  struct Reading {
    View* view;
    std::uint64_t head;
    std::vector<std::byte> bytes;
  };
  std::vector<Reading> readings;
  for (View& view : views) {
    view.signature = coherence::Signature(notice_capacity_);  // perhaps nothing was ever released there
    if (view.now != view.version) readings.push_back({.view = &view, .head = view.now, .bytes = {}});
  }
  const bool is_news = !readings.empty();
  while (!readings.empty()) {
    fabric::Completion completion;
    for (Reading& reading : readings) {
      // What was added since, where it is still the same that is added to.
      const std::uint64_t version = reading.view->version;
      const std::size_t seen = position_of(reading.head) == position_of(version) ? bytes_of(version) : 0;
      reading.bytes.resize(bytes_of(reading.head) - seen);
      fabric_.get(reading.bytes.data(),
                  {.rank = reading.view->rank,
                   .region = region_,
                   .offset = ring_at + position_of(reading.head) % ring_bytes_ + seen},
                  reading.bytes.size(), completion);
    }
    coherence::wait_for(fabric_, completion);
    fabric::Completion looked_again;
    for (Reading& reading : readings) get_head(*reading.view, looked_again);
    coherence::wait_for(fabric_, looked_again);
    std::erase_if(readings, [&](Reading& reading) {
      View& view = *reading.view;
      // The writer may be at the one after it, and may have skipped the end of the ring for it.
      const std::uint64_t written_to = position_of(view.now) + bytes_of(view.now) + 2 * max_bytes_;
      if (((written_to - position_of(reading.head)) & position_mask) > ring_bytes_) {
        reading.head = view.now;
        return false;
      }
      const bool whole = view.signature.merge_encoded(reading.bytes);
      CRATON_ASSERT(whole);
      view.now = reading.head;
      return true;
    });
  }
  return is_news;
}

void SignatureBoard::get_heads(std::span<View> views) {
  fabric::Completion completion;
  for (View& view : views) get_head(view, completion);
  coherence::wait_for(fabric_, completion);
}

void SignatureBoard::get_head(View& view, fabric::Completion& completion) {
  fabric_.get(&view.now, {.rank = view.rank, .region = region_, .offset = 0}, sizeof view.now, completion);
}

}  // namespace craton::space
