/// \file
/// A log for fault and signal paths: a ring of fixed-size lines in memory. Writing takes no lock, allocates
/// nothing and makes no system call (but the clock's, which the vDSO answers); the oldest line is
/// overwritten.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

namespace craton {

/// A piece of a log line: text or a number. Numbers are formatted without the C library.
class LogPiece {
 public:
  constexpr LogPiece(std::string_view text) noexcept : text_(text) {}  // NOLINT(google-explicit-constructor)
  constexpr LogPiece(const char* text) noexcept : text_(text) {}       // NOLINT(google-explicit-constructor)
  template <typename Integer>
  requires std::is_integral_v<Integer>
  constexpr LogPiece(Integer number) noexcept  // NOLINT(google-explicit-constructor)
      : number_(static_cast<std::int64_t>(number)), is_number_(true) {}

  bool is_number() const noexcept { return is_number_; }
  std::string_view text() const noexcept { return text_; }
  std::int64_t number() const noexcept { return number_; }

 private:
  std::string_view text_;
  std::int64_t number_ = 0;
  bool is_number_ = false;
};

/// Any thread may write, from any context; any thread may dump. A line that is being overwritten while it is
/// dumped is left out of the dump.
class RingLog {
 public:
  static constexpr std::size_t line_bytes = 240;
  static constexpr std::size_t lines_held = 512;  ///< a power of two

  /// Appends one line, cut at `line_bytes`. Async-signal-safe.
  void write(std::initializer_list<LogPiece> pieces) noexcept;

  /// Writes the lines held, oldest first, to a descriptor. Async-signal-safe. Returns how many lines it
  /// wrote.
  std::size_t dump(int fd) const noexcept;

  /// Lines lost because their place in the ring was still being written, or already held a newer one.
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t line_words = line_bytes / sizeof(std::uint64_t);

  // Words, not bytes, and atomic, since a line may be read while it is overwritten; the sequence number
  // tells.
  struct Line {
    std::atomic<std::uint64_t> sequence{0};  ///< 2 * number + 1 while written, 2 * number + 2 once whole
    std::atomic<std::int64_t> time_ns{0};
    std::atomic<std::size_t> length{0};  ///< in bytes
    std::array<std::atomic<std::uint64_t>, line_words> words{};
  };
  std::array<Line, lines_held> lines_{};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> dropped_{0};
};

/// The ring log of this process: the operating system forces one on us, since signal handlers and failing
/// assertions have no other way to find it. Constant-initialised.
RingLog& process_log() noexcept;

}  // namespace craton
