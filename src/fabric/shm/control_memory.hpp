/// \file
/// What a rank shows its node's neighbours: its doorbell and one inbound message ring for each of them.
///
///   [ControlHeader: doorbell, pending bits][RingHeader|records] × neighbours, in order of rank, this rank
///   included
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "fabric/progress.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/shm/message_ring.hpp"

namespace craton::fabric::shm {

inline constexpr std::size_t max_neighbours = 1024;  ///< ranks of one node

struct ControlHeader {
  Doorbell doorbell;
  /// Bit i: neighbour i has written its ring since the rank last looked.
  alignas(64) std::array<std::atomic<std::uint64_t>, max_neighbours / 64> pending{};
};

/// Finds the parts of a mapped control memory; used by its owner and by its neighbours.
class ControlView {
 public:
  ControlView() = default;
  ControlView(std::byte* memory, std::uint64_t ring_bytes) : memory_(memory), ring_bytes_(ring_bytes) {}

  static std::size_t bytes(std::size_t neighbours, std::uint64_t ring_bytes) {
    return sizeof(ControlHeader) + neighbours * (sizeof(RingHeader) + ring_bytes);
  }
  /// Makes fresh memory into control memory; its owner, once.
  void construct(std::size_t neighbours) {
    new (memory_) ControlHeader;
    for (std::size_t i = 0; i < neighbours; ++i) new (ring_at(i)) RingHeader;
  }
  ControlHeader& header() const noexcept { return *reinterpret_cast<ControlHeader*>(memory_); }
  RingProducer producer(std::size_t neighbour) const {
    return {ring_header(neighbour), ring_at(neighbour) + sizeof(RingHeader), ring_bytes_};
  }
  RingConsumer consumer(std::size_t neighbour) const {
    return {ring_header(neighbour), ring_at(neighbour) + sizeof(RingHeader), ring_bytes_};
  }

 private:
  std::byte* ring_at(std::size_t neighbour) const noexcept {
    return memory_ + sizeof(ControlHeader) + neighbour * (sizeof(RingHeader) + ring_bytes_);
  }
  RingHeader* ring_header(std::size_t neighbour) const noexcept {
    return reinterpret_cast<RingHeader*>(ring_at(neighbour));
  }

  std::byte* memory_ = nullptr;
  std::uint64_t ring_bytes_ = 0;
};

}  // namespace craton::fabric::shm
