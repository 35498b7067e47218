/// \file
/// Places of the program, by a bit each: see lease_segment_acquire.cpp.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace craton::coherence {

/// The place of an acquire that the program knows nothing of.
inline constexpr std::uint32_t no_place = 0x68656172U;
/// Of all those that learn of what was handed on otherwise than by a lock or a barrier.
inline constexpr std::uint32_t no_site = ~std::uint32_t{0};

/// A set of places.
using SiteBits = std::uint64_t;

/// Numbers places in the order in which this rank comes to them. The first 64 have a bit of their own: two
/// that share one are taken for each other, and where one is the end of a phase after which nothing is needed
/// of what was written in it, that moves all of it in vain. Later ones share those bits.
/// Threads: any.
class Sites {
 public:
  SiteBits bit_of(std::uint32_t site) noexcept {
    const std::uint64_t key = std::uint64_t{site} + 1;
    // 2^32 divided by the golden ratio: neighbouring numbers are far from each other.
    const std::size_t first = (site * 0x9e3779b9U) >> (32U - count_bits);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::size_t at = (first + i) % keys_.size();
      std::uint64_t there = keys_[at].load(std::memory_order_relaxed);
      const bool is_new =
          there == 0 && keys_[at].compare_exchange_strong(there, key, std::memory_order_relaxed);
      if (is_new || there == key) return SiteBits{1} << at;
    }
    return SiteBits{1} << first;
  }

  /// Places that have a bit, and the number of one of them.
  static constexpr std::size_t most = 64;
  static std::size_t index_of(SiteBits bit) noexcept {
    return static_cast<std::size_t>(std::countr_zero(bit));
  }
  /// Places, coarser: where one of a few will do.
  static constexpr unsigned places = 8;
  static std::uint8_t place_of(SiteBits bit) noexcept {
    return static_cast<std::uint8_t>(index_of(bit) % places);
  }

 private:
  static constexpr unsigned count_bits = 6;
  static_assert(most == std::size_t{1} << count_bits);
  std::array<std::atomic<std::uint64_t>, most> keys_{};
};

}  // namespace craton::coherence
