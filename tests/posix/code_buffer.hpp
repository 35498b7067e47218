/// \file
/// An object for patching that a test writes itself: code and a few words that it reads, in the lowest 2 GiB.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "posix/atomics/patch.hpp"

namespace craton::posix {

/// Memory in the lowest 2 GiB, so that any operand can reach it.
class LowMemory {
 public:
  explicit LowMemory(std::size_t bytes);
  LowMemory(const LowMemory&) = delete;
  LowMemory& operator=(const LowMemory&) = delete;
  ~LowMemory();

  std::uintptr_t begin() const noexcept { return begin_; }
  std::uintptr_t end() const noexcept { return begin_ + bytes_; }
  std::span<std::byte> bytes() const noexcept { return {reinterpret_cast<std::byte*>(begin_), bytes_}; }

 private:
  std::uintptr_t begin_;
  std::size_t bytes_;
};

class CodeBuffer {
 public:
  explicit CodeBuffer(std::size_t bytes);

  std::uintptr_t here() const noexcept { return here_; }
  void add(std::initializer_list<unsigned> bytes);
  void add(std::span<const std::uint8_t> bytes);
  template <typename Value>
  void add_value(Value value) {
    add(std::span(reinterpret_cast<const std::uint8_t*>(&value), sizeof value));
  }
  void align(std::size_t to);
  /// Back to Machine::run.
  void add_exit();

  /// What follows up to end_function() is a function.
  std::uintptr_t begin_function();
  void end_function();

  /// The object so far. Its code can be run from here on, and written no more.
  CodeMap finish();

 private:
  LowMemory memory_;
  std::uintptr_t here_;
  std::uintptr_t exit_;
  CodeMap map_;
};

/// What a report says, for messages.
std::string text_of(const PatchReport& report);

}  // namespace craton::posix
