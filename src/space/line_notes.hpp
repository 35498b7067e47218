/// \file
/// What the last atomic instruction on each line of a stack left there, so that the next one, of any rank,
/// sees whether a plain store came between: those no rank is told of. The notes on a line lie in the strong
/// block that orders the instructions on it (owned_atomics.hpp), which goes to whoever runs the next.
///
/// Between try_lock() and unlock() one thread of all ranks at a time, which need not have the block all the
/// time. What is forgotten, where there are too many lines, counts as changed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace craton::space {

/// All zero bytes at first.
class LineNotes {
 public:
  static constexpr std::size_t line_bytes = 64;

  /// Begins with a store, so that the block comes to be written at once.
  /// \returns whether this thread has it; else `turns`, the first bytes of the block, change before it is
  /// free
  bool try_lock(std::uint64_t& turns) noexcept {
    turns = std::atomic_ref(turns_).fetch_or(1);
    return turns % 2 == 0;
  }
  /// Of who needs no notes, and no lock.
  void pass() noexcept { std::atomic_ref(turns_).fetch_add(2); }
  void unlock() noexcept { std::atomic_ref(turns_).fetch_add(1); }

  /// Of an instruction that found `before` and left `after`, at most 8 bytes of a line.
  /// \returns whether the one before it had left what it found
  bool note(std::uintptr_t address, std::uint64_t before, std::uint64_t after, std::size_t bytes) noexcept {
    Note& note = note_on(address / line_bytes);
    const std::size_t offset = address % line_bytes;
    const std::uint64_t mask = ((std::uint64_t{1} << bytes) - 1) << offset;
    std::byte* const left = note.left.data() + offset;
    const bool is_as_left = (note.known & mask) == mask && std::memcmp(left, &before, bytes) == 0;
    note.known |= mask;
    std::memcpy(left, &after, bytes);
    return is_as_left;
  }

 private:
  struct Note {
    std::uint64_t known;                     ///< a bit for each byte of the line
    std::array<std::byte, line_bytes> left;  ///< by the last instruction on each byte
  };
  static constexpr std::size_t most = 50;

  Note& note_on(std::uint64_t line) noexcept {
    const auto end = lines_.begin() + used_;
    auto at = std::find(lines_.begin(), end, line);
    if (at == end) {
      const bool is_full = used_ == most;
      at = is_full ? lines_.begin() + next_++ % most : end;
      if (!is_full) ++used_;
      *at = line;
      notes_[static_cast<std::size_t>(at - lines_.begin())] = {};
    }
    return notes_[static_cast<std::size_t>(at - lines_.begin())];
  }

  std::uint64_t turns_;  ///< odd: locked
  std::uint32_t used_;
  std::uint32_t next_;  ///< to be forgotten
  std::array<std::uint64_t, most> lines_;
  std::array<Note, most> notes_;
};

}  // namespace craton::space
