#include "fabric/tcp/send_queue.hpp"

#include <algorithm>
#include <utility>

namespace craton::fabric::tcp {

void SendQueue::copy(std::span<const std::byte> bytes) {
  queued_bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (pieces_.empty() || pieces_.back().block == nullptr || pieces_.back().block_used == block_bytes) {
      auto block =
          spare_ != nullptr ? std::move(spare_) : std::make_unique_for_overwrite<std::byte[]>(block_bytes);
      const std::byte* first = block.get();
      pieces_.push_back({.first = first, .bytes = 0, .block = std::move(block), .block_used = 0});
    }
    Piece& last = pieces_.back();
    const std::size_t taken = std::min(bytes.size(), block_bytes - last.block_used);
    std::memcpy(last.block.get() + last.block_used, bytes.data(), taken);
    last.block_used += taken;
    last.bytes += taken;
    bytes = bytes.subspan(taken);
  }
}

void SendQueue::borrow(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  queued_bytes_ += bytes.size();
  pieces_.push_back({.first = bytes.data(), .bytes = bytes.size(), .block = nullptr, .block_used = 0});
}

std::size_t SendQueue::front(std::array<iovec, max_pieces>& pieces) const noexcept {
  std::size_t count = 0;
  for (const Piece& piece : pieces_) {
    if (count == max_pieces) break;
    pieces[count++] = {.iov_base = const_cast<std::byte*>(piece.first), .iov_len = piece.bytes};
  }
  return count;
}

void SendQueue::consume(std::size_t bytes) noexcept {
  queued_bytes_ -= bytes;
  while (bytes != 0) {
    Piece& first = pieces_.front();
    const std::size_t taken = std::min(bytes, first.bytes);
    first.first += taken;
    first.bytes -= taken;
    bytes -= taken;
    if (first.bytes != 0) break;
    if (first.block != nullptr) spare_ = std::move(first.block);
    pieces_.pop_front();
  }
}

void SendQueue::clear() noexcept {
  pieces_.clear();
  queued_bytes_ = 0;
}

}  // namespace craton::fabric::tcp
