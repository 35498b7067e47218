/// \file
/// The bare baseline of messages inside a node: one ring of fixed cells in shared memory, one producer, one
/// consumer, nothing else. It waits as the fabric does: 20 us of looking, then a futex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/function_ref.hpp"

namespace craton::bench {

/// A counter that one side advances and the other waits for. In shared memory, all zero at the start.
class SharedCounter {
 public:
  std::uint32_t load() const noexcept { return value_.load(std::memory_order_acquire); }
  /// Sets it and wakes the other side if that sleeps.
  void publish(std::uint32_t value) noexcept;
  /// Returns once the counter differs from `seen`, with what it is then.
  std::uint32_t wait_beyond(std::uint32_t seen) noexcept;

 private:
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};

struct SharedRing {
  static constexpr std::uint32_t cells = 1024;  ///< a power of two: 64 KiB, as the fabric's rings
  static constexpr std::size_t cell_bytes = 64;

  /// Waits for room, copies the payload in and publishes it. One thread at a time. \param bytes up to
  /// cell_bytes
  void push(const void* payload, std::size_t bytes) noexcept;
  /// Waits until something has arrived and hands each cell of it to `consume`. One thread.
  void pop(FunctionRef<void(const unsigned char*)> consume) noexcept;

  alignas(64) SharedCounter produced;
  alignas(64) SharedCounter consumed;
  /// The producer's last look at `consumed`: it looks again only when the ring seems full.
  alignas(64) std::uint32_t consumed_seen = 0;
  alignas(64) unsigned char cell[cells][cell_bytes];
};

}  // namespace craton::bench
