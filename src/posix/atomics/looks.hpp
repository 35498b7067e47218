/// \file
/// Loads of threads that wait for others in a loop of the program's own: `while (!flag);`. Atomic loads are
/// plain instructions, but such a loop gives them away, since compilers leave no load in it that could be
/// made once before it.
///
/// A loop waits if it stores nothing, calls nothing but functions that let time pass (`pauses`), has no
/// atomic instruction or fence, and
///  - goes the same way each time, not counting, and ends by conditions on what it loads from addresses that
///    it does not change: if it did not end at once, only others can end it; or
///  - lets time pass, by `pause` or such a call: then it may also count how often it looks.
///
/// Places of the function's own frame count as registers: code that is not optimised has all there.
///
/// Its looks are the loads from addresses that it does not change. Compilers copy the first of them before
/// the loop: what loads the same place there, or anywhere in the function if that is at a fixed address, is a
/// look too.
///
/// Not found are loops of more than 128 bytes, of 640 where they pause, and those that work, or call
/// functions, between two looks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "posix/atomics/code_map.hpp"
#include "posix/atomics/code_reader.hpp"
#include "posix/atomics/instruction.hpp"

namespace craton::posix {

/// A look as far as the bytes of a function tell before it is known where its instructions begin.
struct SupposedLook {
  std::uintptr_t address;
  std::uintptr_t branch;  ///< back, at the end of the loop
  bool is_patient;        ///< see Instruction
};

/// In the functions of an object. Reads only, as find_reduction().
class LookFinder {
 public:
  /// \param pauses addresses of functions that do nothing but let time pass, or let other threads run
  LookFinder(const CodeMap& map, std::span<const std::uintptr_t> pauses);
  LookFinder(const LookFinder&) = delete;
  LookFinder& operator=(const LookFinder&) = delete;
  ~LookFinder();

  /// The looks of the loops that wait in a function, perhaps several times, without the copies before them,
  /// and some that are none. Some ten nanoseconds a byte.
  std::vector<SupposedLook> find(const AddressRange& function);
  /// Marks in a function's instructions those of `looks` that are looks, and their copies (SiteKind::look).
  void mark(std::span<const SupposedLook> looks, std::vector<Instruction>& function) const;

 private:
  class Loop;

  const CodeReader reader_;
  const std::unique_ptr<Loop> loop_;  // the one that is being looked at
};

}  // namespace craton::posix
