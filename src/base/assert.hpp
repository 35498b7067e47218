/// \file
/// Assertions that print their operands. `CRATON_ASSERT` stays on in release builds; `CRATON_ASSERT_SLOW` is
/// for checks that cost more than a few nanoseconds and is on in debug builds and under the simulator. Both
/// may be used on signal and fault paths: a failure formats on the stack and calls only write and abort.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace craton::assertion {

/// One operand as text, in a fixed buffer so that a failing assertion never allocates.
class Operand {
 public:
  template <typename T>
  explicit Operand(const T& value) noexcept {
    if constexpr (std::is_same_v<T, bool>) {
      set(value ? "true" : "false");
    } else if constexpr (std::is_enum_v<T>) {
      set_signed(static_cast<std::int64_t>(value));
    } else if constexpr (std::signed_integral<T>) {
      set_signed(value);
    } else if constexpr (std::unsigned_integral<T>) {
      set_unsigned(value);
    } else if constexpr (std::floating_point<T>) {
      set_floating(static_cast<double>(value));
    } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
      set("nullptr");
    } else if constexpr (std::is_pointer_v<T>) {
      set_pointer(reinterpret_cast<std::uintptr_t>(value));
    } else if constexpr (std::convertible_to<T, std::string_view>) {
      set(value);
    } else {
      set("?");
    }
  }
  const char* text() const noexcept { return text_; }

 private:
  void set(std::string_view text) noexcept {
    const std::size_t length = text.size() < sizeof text_ - 1 ? text.size() : sizeof text_ - 1;
    std::memcpy(text_, text.data(), length);
    text_[length] = '\0';
  }
  void set_signed(std::int64_t value) noexcept;
  void set_unsigned(std::uint64_t value) noexcept;
  void set_floating(double value) noexcept;
  void set_pointer(std::uintptr_t value) noexcept;

  char text_[64];
};

/// Writes `file:line: assertion failed: expression [left, right]` to standard error and to the ring log, then
/// aborts. Async-signal-safe.
[[noreturn]] void fail(const char* file, int line, const char* expression, const char* left,
                       const char* right) noexcept;

/// The left side of a comparison, kept so that both sides can be printed.
template <typename L>
struct Left {
  const L& value;
};

template <typename L, typename R>
struct Comparison {
  bool holds;
  const L& left;
  const R& right;
};

struct Capture {
  template <typename L>
  Left<L> operator<<(const L& value) const noexcept {
    return {value};
  }
};

/// Integers of different signedness, which std::cmp_* compares by value: an assertion like `size == 0` then
/// neither warns nor errs.
template <typename T>
concept PlainInteger =
    std::integral<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
    !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;
template <typename L, typename R>
concept MixedSigns = PlainInteger<L> && PlainInteger<R> && std::is_signed_v<L>
!= std::is_signed_v<R>;

// NOLINTBEGIN(bugprone-macro-parentheses)
#define CRATON_ASSERTION_OPERATOR(op, by_value)                                   \
  template <typename L, typename R>                                               \
  constexpr Comparison<L, R> operator op(Left<L> left, const R& right) noexcept { \
    if constexpr (MixedSigns<L, R>) {                                             \
      return {by_value(left.value, right), left.value, right};                    \
    } else {                                                                      \
      return {static_cast<bool>(left.value op right), left.value, right};         \
    }                                                                             \
  }
CRATON_ASSERTION_OPERATOR(==, std::cmp_equal)
CRATON_ASSERTION_OPERATOR(!=, std::cmp_not_equal)
CRATON_ASSERTION_OPERATOR(<, std::cmp_less)
CRATON_ASSERTION_OPERATOR(<=, std::cmp_less_equal)
CRATON_ASSERTION_OPERATOR(>, std::cmp_greater)
CRATON_ASSERTION_OPERATOR(>=, std::cmp_greater_equal)
#undef CRATON_ASSERTION_OPERATOR
// NOLINTEND(bugprone-macro-parentheses)

template <typename L, typename R>
constexpr bool holds(const Comparison<L, R>& comparison) noexcept {
  return comparison.holds;
}
template <typename L>
constexpr bool holds(const Left<L>& left) noexcept {
  return static_cast<bool>(left.value);
}

template <typename L, typename R>
[[noreturn, gnu::cold, gnu::noinline]] void fail_with(const char* file, int line, const char* expression,
                                                      const Comparison<L, R>& comparison) noexcept {
  fail(file, line, expression, Operand(comparison.left).text(), Operand(comparison.right).text());
}
template <typename L>
[[noreturn, gnu::cold, gnu::noinline]] void fail_with(const char* file, int line, const char* expression,
                                                      const Left<L>& left) noexcept {
  fail(file, line, expression, Operand(left.value).text(), nullptr);
}

/// Takes the comparison as an argument so that temporaries in it live until the operands are printed.
template <typename Checked>
inline void check(const Checked& checked, const char* file, int line, const char* expression) noexcept {
  if (!holds(checked)) [[unlikely]]
    fail_with(file, line, expression, checked);
}

}  // namespace craton::assertion

/// `CRATON_ASSERT(a <= b)`: one comparison, or one value that converts to bool. `&&` is two assertions.
#define CRATON_ASSERT(...) \
  ::craton::assertion::check(::craton::assertion::Capture{} << __VA_ARGS__, __FILE__, __LINE__, #__VA_ARGS__)

#if defined(CRATON_SLOW_ASSERTIONS)
#define CRATON_ASSERT_SLOW(...) CRATON_ASSERT(__VA_ARGS__)
#else
#define CRATON_ASSERT_SLOW(...) static_cast<void>(sizeof(::craton::assertion::Capture{} << __VA_ARGS__))
#endif
