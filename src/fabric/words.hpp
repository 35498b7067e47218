/// \file
/// Copies in which no 8-byte word is torn, for gets and puts that lie in one line (the contract of
/// fabric.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabric/types.hpp"

namespace craton::fabric {

/// Whether the contract promises whole words to a get or put. \param at its address, or its offset in a
/// region
constexpr bool words_of_a_line(std::uintptr_t at, std::size_t bytes) noexcept {
  return bytes != 0 && (at | bytes) % 8 == 0 && at % line_bytes + bytes <= line_bytes;
}

/// \param from words of a line of shared memory, which others may be writing
inline void copy_words_in(void* to, const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t value =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from + i)))
            .load(std::memory_order_acquire);
    std::memcpy(static_cast<std::byte*>(to) + i, &value, 8);
  }
}

/// \param to words of a line of shared memory, which others may be reading
inline void copy_words_out(std::byte* to, const void* from, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; i += 8) {
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(from) + i, 8);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to + i)).store(value, std::memory_order_release);
  }
}

}  // namespace craton::fabric
