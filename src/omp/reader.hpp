/// \file
/// Reads the values of OMP_* variables.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace craton::omp {

/// What is left of a value while it is read. White space between its parts means nothing.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) { skip(); }

  bool is_at_end() const noexcept { return rest_.empty(); }
  bool take(char mark) noexcept {
    if (rest_.empty() || rest_[0] != mark) return false;
    rest_.remove_prefix(1);
    skip();
    return true;
  }
  /// A word, in any case.
  bool take_word(std::string_view word) noexcept {
    if (rest_.size() < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (std::tolower(static_cast<unsigned char>(rest_[i])) != word[i]) return false;
    }
    rest_.remove_prefix(word.size());
    skip();
    return true;
  }
  /// A number that may begin with a plus.
  std::optional<std::uint64_t> take_number() noexcept {
    take_sign('+');
    return take_digits();
  }
  /// A number that may have a sign.
  std::optional<std::int64_t> take_signed() noexcept {
    const bool is_negative = take_sign('-');
    const auto number = is_negative ? take_digits() : take_number();
    constexpr std::uint64_t most = std::uint64_t{1} << 31U;
    if (!number || *number > most) return std::nullopt;
    return is_negative ? -static_cast<std::int64_t>(*number) : static_cast<std::int64_t>(*number);
  }

 private:
  /// Behind which the number follows at once.
  bool take_sign(char sign) noexcept {
    if (rest_.empty() || rest_[0] != sign) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::uint64_t> take_digits() noexcept {
    std::size_t digits = 0;
    std::uint64_t number = 0;
    for (; digits < rest_.size() && std::isdigit(static_cast<unsigned char>(rest_[digits])) != 0; ++digits) {
      if (number > (~std::uint64_t{0} - 9) / 10) return std::nullopt;
      number = number * 10 + static_cast<std::uint64_t>(rest_[digits] - '0');
    }
    if (digits == 0) return std::nullopt;
    rest_.remove_prefix(digits);
    skip();
    return number;
  }
  void skip() noexcept {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

}  // namespace craton::omp
