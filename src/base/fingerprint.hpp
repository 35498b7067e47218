/// \file
/// A hash of what must be the same on all ranks: they exchange it, and compare 8 bytes instead of all of it.
/// FNV-1a with 64 bits. Not for keys that others choose: whoever wants equal values can make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace craton {

class Fingerprint {
 public:
  Fingerprint& add(const void* bytes, std::size_t count) noexcept {
    const auto* const each = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < count; ++i) value_ = (value_ ^ each[i]) * 0x100000001b3U;
    return *this;
  }
  Fingerprint& add(std::uint64_t number) noexcept { return add(&number, sizeof number); }
  /// With its length, so that "a", "bc" is not "ab", "c".
  Fingerprint& add(std::string_view text) noexcept {
    return add(text.data(), text.size()).add(std::uint64_t{text.size()});
  }
  std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace craton
