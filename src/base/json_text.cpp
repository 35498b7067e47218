#include "base/json_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace craton {

namespace {

/// The length of the character with which `text`, which is not empty, begins; 0: it is none. RFC 3629: no
/// more bytes than it takes, no halves of UTF-16's pairs, nothing beyond U+10FFFF. The second byte tells.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  const auto goes_on = [](char letter) { return (static_cast<unsigned char>(letter) & 0xc0U) == 0x80; };
  return std::all_of(text.begin() + 2, text.begin() + static_cast<std::ptrdiff_t>(bytes), goes_on) ? bytes
                                                                                                   : 0;
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const char letter = text.front();
    if (bytes == 0) {
      escaped += "\\ufffd";
    } else if (letter == '"' || letter == '\\') {
      escaped += fmt::format("\\{}", letter);
    } else if (bytes == 1 && static_cast<unsigned char>(letter) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      escaped += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return escaped;
}

}  // namespace craton
