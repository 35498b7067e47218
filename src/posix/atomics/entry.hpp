/// \file
/// The way from patched code into C++ and back. Code made for a site comes here by
///
///     leave the red zone (128 bytes); push the SiteRecord; call entry_for_sites()
///
/// and finds all registers changed as the operation changes them, and nothing else: general registers, flags,
/// x87, vector and mask registers, errno.
#pragma once

#include <cstdint>

#include "posix/atomics/instruction.hpp"
#include "posix/atomics/reduction.hpp"
#include "posix/atomics/registers.hpp"
#include "posix/atomics/shared_memory.hpp"

namespace craton::posix {

/// What the ABI lets functions use below their stack pointer.
inline constexpr std::int32_t red_zone_bytes = 128;

/// What there is to know of a site when the program comes to it. Lives for ever.
struct SiteRecord {
  std::uintptr_t address = 0;
  std::uint8_t length = 0;
  SiteKind kind = SiteKind::none;
  bool is_exchange = false;
  bool is_patient = false;  ///< Instruction::is_patient
  MemoryOperand operand;
  Perform perform = nullptr;  ///< made for the instruction, with a PerformState; null: none can be
  std::uintptr_t copy = 0;    ///< of a look that traps, without `perform`: where the instruction itself is
  const SharedMemory* shared = nullptr;
  Reduction reduction;
};

/// What the code that performs an instruction works on. It reads only `before`, and changes in `after` only
/// what the instruction changes.
struct PerformState {
  Registers before;
  Registers after;
};

/// Instead of an operation in shared memory, that of a reduction: puts off the thread's part, or takes the
/// step towards it that is next. \returns false where the operation is to be done after all
bool put_off(const SiteRecord& site, PerformState& state, void* target) noexcept;

/// Where code made for sites calls. Any thread.
/// \throws Error not_supported where the processor or the system has no XSAVE
const void* entry_for_sites();

/// A look; one without `perform` is still to be done afterwards.
void serve_look(const SiteRecord& site, Registers& registers) noexcept;

/// The operation of an atomic site; on private memory and where the block is native, without the hook.
void serve_atomic(const SiteRecord& site, Registers& registers) noexcept;

}  // namespace craton::posix
