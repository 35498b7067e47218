/// \file
/// Bytes on their way into a socket, in order: small frames gathered in blocks, large payloads borrowed from
/// where they lie, all handed to the kernel in as few calls as possible.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace craton::fabric::tcp {

/// Not for several threads: its connection locks.
class SendQueue {
 public:
  static constexpr std::size_t block_bytes = 64 * 1024;
  /// What is at most handed to the kernel in one call.
  static constexpr std::size_t max_pieces = 64;

  bool empty() const noexcept { return queued_bytes_ == 0; }
  std::size_t queued_bytes() const noexcept { return queued_bytes_; }

  /// Appends a copy.
  void copy(std::span<const std::byte> bytes);
  /// Appends without copying; the bytes stay until they are sent or the queue is cleared.
  void borrow(std::span<const std::byte> bytes);
  /// The front of the queue. \returns how many entries of `pieces` it filled
  std::size_t front(std::array<iovec, max_pieces>& pieces) const noexcept;
  /// The kernel took this many bytes from the front.
  void consume(std::size_t bytes) noexcept;
  void clear() noexcept;

 private:
  struct Piece {
    const std::byte* first;
    std::size_t bytes;
    std::unique_ptr<std::byte[]> block;  ///< owned, or null if borrowed
    std::size_t block_used;              ///< of an owned block
  };

  std::deque<Piece> pieces_;
  std::unique_ptr<std::byte[]> spare_;  ///< one block kept, so that a steady trickle allocates nothing
  std::size_t queued_bytes_ = 0;
};

}  // namespace craton::fabric::tcp
