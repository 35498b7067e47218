#include "base/line_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace craton {

void LineWriter::append(std::string_view text) noexcept {
  const std::size_t taken = std::min(text.size(), capacity_ - length_);
  if (taken == 0) return;
  std::memcpy(buffer_ + length_, text.data(), taken);
  length_ += taken;
}

void LineWriter::append_unsigned(std::uint64_t number, unsigned base, std::size_t digits_least) noexcept {
  char digits[64];
  std::size_t count = 0;
  do {
    ++count;
    digits[sizeof digits - count] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number != 0 || count < std::min(digits_least, sizeof digits));
  append({digits + sizeof digits - count, count});
}

void LineWriter::append_signed(std::int64_t number) noexcept {
  const auto bits = static_cast<std::uint64_t>(number);
  if (number < 0) append("-");
  append_unsigned(number < 0 ? 0 - bits : bits);
}

bool write_fully(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace craton
