/// \file
/// A barrier over messages: dissemination, ceil(log2 size) rounds of one message a rank (Hensgen, Finkel and
/// Manber, 1988). Orders everything before it at any rank before everything after it at any rank, given
/// completed operations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fabric/fabric.hpp"

namespace craton::fabric {

/// One thread a rank waits in it at a time. Made on every rank before any rank waits.
class Barrier {
 public:
  /// \param handler the id that carries its messages, used by nothing else
  Barrier(Fabric& fabric, HandlerId handler);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// Blocks until every rank is here. After timed_out or peer_lost the barrier cannot be used again.
  Status wait(TimeNs deadline_ns = no_deadline);
  /// How many times this rank has come here; for messages about who is missing.
  std::uint64_t arrivals() const noexcept { return arrivals_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t max_rounds = 12;  ///< log2 of max_ranks
  static void arrived(void* context, Rank source, const std::byte* payload, std::size_t bytes) noexcept;

  Fabric& fabric_;
  const HandlerId handler_;
  std::atomic<std::uint64_t> arrivals_{0};
  std::array<std::atomic<std::uint64_t>, max_rounds> received_{};  ///< messages by round
};

}  // namespace craton::fabric
