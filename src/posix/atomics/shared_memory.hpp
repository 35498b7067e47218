/// \file
/// What software atomics need to know of the program's shared memory: where it lies, and who makes an
/// operation on it atomic. Patched instructions (patch.hpp) and libatomic's functions (libatomic.hpp) ask it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/function_ref.hpp"

namespace craton::posix {

struct Reduction;

/// More ranges than these are refused.
inline constexpr std::size_t shared_ranges_most = 8;

/// Addresses that the program shares with other ranks, and perhaps some that it does not: hooks find out. An
/// operation belongs to the range that holds its first byte.
struct SharedRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  /// A byte for each block of `1 << block_shift` bytes from `begin` on, and one more that stays 0. Where it
  /// is not 0 the instruction itself is right at the moment, since a block that is lost meanwhile faults:
  /// no hook is called then. All blocks that the operation touches must say so. Null: always the hook.
  const std::uint8_t* native_blocks = nullptr;
  unsigned block_shift = 0;
};

/// Does the operation on the bytes at `target` instead of those at its own address: atomically, and for any
/// alignment that the instruction allows. Each call starts from what the program had, so a hook may try on
/// copies; the program sees the results of the last.
using Perform = void (*)(void* state, void* target);

/// Of a thread that waits.
struct Look {
  void* address;
  std::size_t bytes;
  bool is_patient;  ///< nothing ends its loop but what others do: it may wait inside the hook for that
  /// Of the place in the code, and of what all registers hold: the same in each turn of a loop that only
  /// waits, and hardly ever when the thread comes to the loop again.
  std::uint64_t turn;
};

/// Called on the thread of the program, on its stack, with its signal mask, also inside of its signal
/// handlers. They may block and take faults, keep errno or not, and must neither throw nor leave by longjmp.
struct AtomicHooks {
  /// An atomic operation on `bytes` at `address`, which lie in a shared range. Must call `perform` on bytes
  /// that hold the value, at least once.
  void (*atomic)(void* address, std::size_t bytes, Perform perform, void* state) = nullptr;
  /// A fence: mfence, or what compilers make instead of it.
  void (*flush)() = nullptr;
  /// An atomic operation on an object of any size, which no instruction could do: calls `body`, which loads
  /// and stores it in place, while no other rank is inside for the same address.
  void (*locked)(void* address, FunctionRef<void()> body) = nullptr;
  /// Whether the calling thread may put off its part of a reduction. Null: no thread ever may.
  bool (*may_put_off)(const Reduction& reduction) = nullptr;
  /// Keeps a part, in the lowest bytes, until the calling thread and the others have met; the variable at
  /// `address` then has it. \returns false where there is no room for it
  bool (*put_off)(void* address, const Reduction& reduction, std::uint64_t part) = nullptr;
  /// As `atomic`, of an exchange, which compilers make of a sequentially consistent store as well. Null:
  /// `atomic`.
  void (*exchange)(void* address, std::size_t bytes, Perform perform, void* state) = nullptr;
  /// A look of a thread that waits in a loop of the program's (looks.hpp), the first byte of which lies in a
  /// shared range. Must call `perform` as `atomic` must, or is called before the load where that is null.
  /// Null: no looks are sought.
  void (*look)(const Look& look, Perform perform, void* state) = nullptr;

  auto for_operation(bool is_exchange) const noexcept {
    return is_exchange && exchange != nullptr ? exchange : atomic;
  }
};

struct SharedMemory {
  std::vector<SharedRange> ranges;
  AtomicHooks hooks;
  const void* barrier = nullptr;  ///< the function in which threads meet; null: parts are never put off
  /// Functions that do nothing but let time pass or other threads run: sched_yield, usleep and so on.
  std::vector<std::uintptr_t> pauses{};

  /// The range that holds an address; null if it is private.
  const SharedRange* find(std::uintptr_t address) const noexcept {
    for (const SharedRange& range : ranges)
      if (address - range.begin < range.end - range.begin) return &range;
    return nullptr;
  }
  /// Whether the hook must do an operation on these bytes.
  bool needs_hook(std::uintptr_t address, std::size_t bytes) const noexcept {
    const SharedRange* const range = find(address);
    if (range == nullptr) return false;
    if (range->native_blocks == nullptr) return true;
    const auto is_native = [range](std::uintptr_t byte) {
      return range->native_blocks[(byte - range->begin) >> range->block_shift] != 0;
    };
    return !is_native(address) || !is_native(address + bytes - 1);
  }
};

}  // namespace craton::posix
