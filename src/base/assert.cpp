#include "base/assert.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/line_writer.hpp"
#include "base/ring_log.hpp"

namespace craton::assertion {

void Operand::set_signed(std::int64_t value) noexcept {
  LineWriter writer(text_, sizeof text_ - 1);
  writer.append_signed(value);
  text_[writer.text().size()] = '\0';
}

void Operand::set_unsigned(std::uint64_t value) noexcept {
  LineWriter writer(text_, sizeof text_ - 1);
  writer.append_unsigned(value);
  text_[writer.text().size()] = '\0';
}

void Operand::set_floating(double value) noexcept {
  // The shortest form has 24 characters at most, and is made without allocation.
  *std::to_chars(text_, text_ + sizeof text_ - 1, value).ptr = '\0';
}

void Operand::set_pointer(std::uintptr_t value) noexcept {
  LineWriter writer(text_, sizeof text_ - 1);
  writer.append("0x");
  writer.append_unsigned(value, 16);
  text_[writer.text().size()] = '\0';
}

void fail(const char* file, int line, const char* expression, const char* left, const char* right) noexcept {
  char buffer[1024];
  LineWriter writer(buffer, sizeof buffer);
  writer.append(file);
  writer.append(":");
  writer.append_signed(line);
  writer.append(": assertion failed: ");
  writer.append(expression);
  if (left != nullptr) {
    writer.append(" [");
    writer.append(left);
    if (right != nullptr) {
      writer.append(", ");
      writer.append(right);
    }
    writer.append("]");
  }
  process_log().write({writer.text()});
  write_fully(STDERR_FILENO, writer.text());
  write_fully(STDERR_FILENO, "\n");
  std::abort();
}

}  // namespace craton::assertion
