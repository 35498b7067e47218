#include "fabric/barrier.hpp"

#include <cstring>

#include "base/assert.hpp"

namespace craton::fabric {

Barrier::Barrier(Fabric& fabric, HandlerId handler) : fabric_(fabric), handler_(handler) {
  fabric_.set_handler(handler_, &Barrier::arrived, this);
}

void Barrier::arrived(void* context, Rank /*source*/, const std::byte* payload, std::size_t bytes) noexcept {
  CRATON_ASSERT(bytes == sizeof(std::uint32_t));
  std::uint32_t round = 0;
  std::memcpy(&round, payload, sizeof round);
  CRATON_ASSERT(round < max_rounds);
  static_cast<Barrier*>(context)->received_[round].fetch_add(1, std::memory_order_release);
}

// In round k a rank tells the one 2^k above it and hears from the one 2^k below. A rank can be one barrier
// ahead of its neighbour at most, and each round has one sender, so counting messages by round is enough.
Status Barrier::wait(TimeNs deadline_ns) {
  const std::uint64_t number = arrivals_.fetch_add(1, std::memory_order_relaxed) + 1;
  const Rank size = fabric_.size();
  std::uint32_t round = 0;
  for (std::uint64_t distance = 1; distance < size; distance *= 2, ++round) {
    const auto target = static_cast<Rank>((fabric_.rank() + distance) % size);
    if (const Status sent = fabric_.send(target, handler_, &round, sizeof round); sent != Status::ok)
      return sent;
    const std::atomic<std::uint64_t>& received = received_[round];
    const Status waited = fabric_.wait_until(
        [&] { return received.load(std::memory_order_acquire) >= number || fabric_.lost_ranks() != 0; },
        deadline_ns);
    if (waited != Status::ok) return waited;
    if (received.load(std::memory_order_acquire) < number) return Status::peer_lost;
  }
  return Status::ok;
}

}  // namespace craton::fabric
