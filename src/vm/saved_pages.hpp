/// \file
/// What memory holds before something else is mapped over it, for as much of it as there is: a gigabyte that
/// a program has declared and not touched yet is neither read nor copied.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace craton::vm {

class SavedPages {
 public:
  /// Nothing.
  SavedPages() = default;
  /// Of whole pages of this process, that nobody writes meanwhile; reads those that were touched, and those
  /// of a file. \param zero_filled which of all memory is zero bytes as long as it was not touched:
  /// anonymous, private to this process, in whole pages. Where the kernel does not say what was touched (no
  /// /proc), it is read all. Costs 8 bytes read for each untouched page. Does not block. \throws
  /// std::bad_alloc
  SavedPages(std::span<const std::byte> memory, std::span<const std::span<const std::byte>> zero_filled);

  /// Writes what is not zero where it was. What is there instead now is zero bytes, and writable.
  void restore() const noexcept;
  /// How much was saved.
  std::size_t bytes() const noexcept { return bytes_.size(); }

 private:
  std::vector<std::byte*> pages_;
  std::vector<std::byte> bytes_;  ///< of these, one after the other
};

}  // namespace craton::vm
