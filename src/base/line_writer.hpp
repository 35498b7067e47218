/// \file
/// Text put together in a fixed buffer, for fault and signal paths: no allocation, no C library. What does
/// not fit is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace craton {

/// Does not own its buffer and does not terminate the text.
class LineWriter {
 public:
  LineWriter(char* buffer, std::size_t capacity) noexcept : buffer_(buffer), capacity_(capacity) {}

  void append(std::string_view text) noexcept;
  void append_unsigned(std::uint64_t number, unsigned base = 10, std::size_t digits_least = 1) noexcept;
  void append_signed(std::int64_t number) noexcept;

  std::string_view text() const noexcept { return {buffer_, length_}; }

 private:
  char* buffer_;
  std::size_t capacity_;
  std::size_t length_ = 0;
};

/// write(2) until all is written. Async-signal-safe; blocks as the descriptor does. \returns false on an
/// error
bool write_fully(int fd, std::string_view text) noexcept;

}  // namespace craton
