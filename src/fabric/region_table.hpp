/// \file
/// What a rank knows of every rank's regions. Read without a lock by the hot paths; written while a region is
/// registered or withdrawn, which is collective, so that nobody uses an entry that is being written.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "fabric/types.hpp"

namespace craton::fabric {

/// One rank's part of a region.
struct RegionPart {
  std::byte* direct = nullptr;          ///< where this rank can load and store it, or null
  std::byte* direct_atomics = nullptr;  ///< `direct` if its atomics are executed by CPUs, else null
  std::uint64_t bytes = 0;

  // RegionTable::sever may clear the pointers at any time.
  std::byte* load_direct() const noexcept { return __atomic_load_n(&direct, __ATOMIC_RELAXED); }
  std::byte* load_direct_atomics() const noexcept {
    return __atomic_load_n(&direct_atomics, __ATOMIC_RELAXED);
  }
};

class RegionTable {
 public:
  explicit RegionTable(Rank size) : size_(size) {}

  /// The part of `rank`, or null if the region is not registered.
  const RegionPart* find(Rank rank, RegionId region) const noexcept {
    if (region >= max_regions) [[unlikely]]
      return nullptr;
    const RegionPart* parts = parts_[region].load(std::memory_order_acquire);
    return parts == nullptr ? nullptr : parts + rank;
  }

  /// Makes a region known. \param parts one a rank
  void publish(RegionId region, std::vector<RegionPart> parts);
  /// Makes a dead rank's parts unmapped for new operations, so that they end with peer_lost. Any thread.
  void sever(Rank rank) noexcept;
  /// Forgets a region. Nobody may use it any more.
  void withdraw(RegionId region) noexcept;
  Rank size() const noexcept { return size_; }

 private:
  const Rank size_;
  std::mutex lock_;  ///< held while entries change
  std::array<std::atomic<RegionPart*>, max_regions> parts_{};
  std::array<std::unique_ptr<std::vector<RegionPart>>, max_regions> owned_{};
};

}  // namespace craton::fabric
