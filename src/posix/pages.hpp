/// \file
/// Sizes of x86-64 memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::posix {

inline constexpr std::size_t page_bytes = 4096;
inline constexpr std::size_t kibi = 1024;
inline constexpr std::size_t mebi = kibi * kibi;

constexpr std::uintptr_t page_down(std::uintptr_t address) noexcept {
  return address / page_bytes * page_bytes;
}

/// Also of a size: whole pages.
constexpr std::uintptr_t page_up(std::uintptr_t address) noexcept {
  return page_down(address + page_bytes - 1);
}

}  // namespace craton::posix
