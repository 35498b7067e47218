#include "omp/cancellation.hpp"

#include <algorithm>
#include <cstddef>

#include "omp/task_pool.hpp"
#include "omp/team_host.hpp"
#include "omp/words.hpp"

namespace craton::omp {

namespace {

// Ranks with threads at a barrier are counted below, those with threads at the end above.
constexpr std::uint64_t one_at_barrier = 1;
constexpr std::uint64_t one_at_end = std::uint64_t{1} << 32U;

/// Of two regions, by their numbers: how much later the first one is.
constexpr std::int16_t regions_later(std::uint64_t number, std::uint64_t than) noexcept {
  return static_cast<std::int16_t>(number - than);
}

void raise(std::atomic<std::uint64_t>& word, std::uint64_t value) noexcept {
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_acq_rel)) {
  }
}

}  // namespace

Cancellation::Cancellation(TeamHost& host, TaskPool& tasks)
    : host_(host), tasks_(tasks), is_allowed_(host.may_cancel()) {}

void Cancellation::begin(const Loops::Shape& shape, std::uint32_t region) {
  // Numbers of regions come again. What is there of the next one already stays.
  std::uint32_t ended = region_ + 1;
  cancelled_region_.compare_exchange_strong(ended, 0);
  std::uint64_t share = cancelled_share_.load(std::memory_order_relaxed);
  if (share >> 32U == region_ + std::uint64_t{1}) cancelled_share_.compare_exchange_strong(share, 0);
  shape_ = shape;
  region_ = region;
  meetings_ = 0;
  last_share_ = 0;
  share_.store(0, std::memory_order_relaxed);
  // A rank that was told of the region earlier may have cancelled it already.
  if (shape.ranks != 1) return;
  cancelled_region_.store(0, std::memory_order_relaxed);
  cancelled_share_.store(0, std::memory_order_relaxed);
}

void Cancellation::cancel_region() {
  cancelled_region_.store(region_ + 1, std::memory_order_release);
  tasks_.wake();
  send(0);
}

void Cancellation::cancel_share() {
  const std::uint64_t share = share_id();
  note_share(share);
  send(share);
}

void Cancellation::send(std::uint64_t share) {
  const Message message{.kind = Message::Kind::cancelled,
                        .region = region_.load(std::memory_order_relaxed),
                        .id = share,
                        .value = 0,
                        .part = 0,
                        .meeting = 0,
                        .task = {}};
  for (fabric::Rank rank = 0; rank < shape_.ranks; ++rank) {
    if (rank != shape_.own) host_.send(rank, message);
  }
}

void Cancellation::arrived(const Message& message) noexcept {
  // Late, of a region that has ended.
  if (regions_later(message.region, region_) < 0) return;
  if (message.id != 0) return note_share(message.id);
  note_region(message.region + 1);
  tasks_.wake();
}

// What comes late may be of an earlier region, or meeting, than what is known already.

void Cancellation::note_region(std::uint32_t id) noexcept {
  std::uint32_t seen = cancelled_region_.load(std::memory_order_relaxed);
  while ((seen == 0 || regions_later(id, seen) > 0) &&
         !cancelled_region_.compare_exchange_weak(seen, id, std::memory_order_acq_rel)) {
  }
}
void Cancellation::note_share(std::uint64_t share) noexcept {
  const auto is_later = [share](std::uint64_t than) {
    const std::int16_t later = regions_later(share >> 32U, than >> 32U);
    return than == 0 || (later != 0 ? later > 0 : share > than);
  };
  std::uint64_t seen = cancelled_share_.load(std::memory_order_relaxed);
  while (is_later(seen) && !cancelled_share_.compare_exchange_weak(seen, share, std::memory_order_acq_rel)) {
  }
}

void Cancellation::come(bool is_at_end, std::uint64_t share) noexcept {
  (is_at_end ? is_any_at_end_ : is_any_at_barrier_).store(true, std::memory_order_relaxed);
  if (is_at_end) raise(share_, share);
}

Cancellation::Words Cancellation::tell() {
  const Words own{
      .places = (is_any_at_barrier_.exchange(false, std::memory_order_relaxed) ? one_at_barrier : 0) +
                (is_any_at_end_.exchange(false, std::memory_order_relaxed) ? one_at_end : 0),
      .share = share_.load(std::memory_order_relaxed)};
  if (shape_.ranks == 1) return own;
  host_.fetch_add(offsetof(omp::Words, at_meeting), own.places);
  for (std::uint64_t seen = 0; seen < own.share;) {
    const std::uint64_t before = host_.compare_exchange(offsetof(omp::Words, last_share), seen, own.share);
    if (before == seen) break;
    seen = before;
  }
  return own;
}

/// By rank 0, between the two meetings: nobody adds anything now.
Cancellation::Words Cancellation::collect() {
  Words all;
  const auto take = [&](std::size_t offset, std::uint64_t& value) {
    for (;;) {
      const std::uint64_t before = host_.compare_exchange(offset, value, 0);
      if (before == value) return;
      value = before;
    }
  };
  take(offsetof(omp::Words, at_meeting), all.places);
  take(offsetof(omp::Words, last_share), all.share);
  return all;
}

void Cancellation::settle(const Words& words) noexcept {
  ++meetings_;
  was_any_at_barrier_ = words.places % one_at_end != 0;
  last_share_ = std::max(last_share_, words.share);
  // To those at the barrier.
  if (was_any_at_barrier_ && words.places >= one_at_end)
    cancelled_region_.store(region_ + 1, std::memory_order_release);
}

}  // namespace craton::omp
