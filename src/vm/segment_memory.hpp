/// \file
/// The bytes of a segment, mapped twice (DESIGN, decision 1): the system view, of a fabric::RegionMemory, and
/// the application view at an address that is the same on every rank.
///
/// Invariant: nothing but a page table gives access to the application view; as made it allows nothing. It
/// does not exist in forked children (MADV_DONTFORK): there userfaultfd would not guard it, and the pages
/// would show bytes that are out of date.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fabric/region_memory.hpp"
#include "vm/reservation.hpp"

namespace craton::vm {

inline constexpr std::size_t block_bytes_most = std::size_t{4} * 1024 * 1024;

/// \throws Error invalid_argument unless it is a multiple of the page size and at most block_bytes_most
void check_block_bytes(std::size_t block_bytes);

/// What the program has there. Functions that refer to variables of the function around them have their
/// addresses in code that the compiler puts on the stack.
enum class Contents : std::uint8_t { data, data_and_code };

class SegmentMemory {
 public:
  /// \param name shown in /proc/PID/maps and in messages
  /// \param range of exactly block_bytes * blocks bytes
  /// \throws Error out_of_resources, invalid_argument
  SegmentMemory(const std::string& name, AddressRange range, std::size_t block_bytes,
                Contents contents = Contents::data);
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;
  /// After whatever uses the views: page table, fabric.
  ~SegmentMemory();

  const std::string& name() const noexcept { return name_; }
  std::size_t bytes() const noexcept { return range_.bytes(); }
  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::uint64_t blocks() const noexcept { return bytes() / block_bytes_; }
  bool holds_code() const noexcept { return contents_ == Contents::data_and_code; }
  std::byte* system_view() const noexcept { return memory_.data(); }
  std::byte* application_view() const noexcept { return range_.begin(); }
  /// To be registered with the fabric.
  const fabric::RegionMemory& region_memory() const noexcept { return memory_; }

 private:
  std::string name_;
  AddressRange range_;
  std::size_t block_bytes_;
  Contents contents_;
  fabric::RegionMemory memory_;
};

}  // namespace craton::vm
