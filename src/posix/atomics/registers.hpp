/// \file
/// The registers of the program at an atomic instruction, as they are saved, and where its operand lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace craton::posix {

/// General registers by their numbers in instructions.
enum Register : std::uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
  no_register,
  instruction_pointer,
};
inline constexpr std::size_t general_registers = 16;

/// Carry, parity, adjust, zero, sign, overflow: what arithmetic changes.
inline constexpr std::uint64_t arithmetic_flags = 0x8d5;

/// The code that saves and restores them (entry.cpp) and the code made for sites know this layout.
struct Registers {
  std::array<std::uint64_t, general_registers> general;
  std::uint64_t flags;
};
static_assert(sizeof(Registers) == 136);

enum class SegmentBase : std::uint8_t { none, fs, gs };

/// An operand in memory.
struct MemoryOperand {
  Register base = no_register;
  Register index = no_register;
  std::uint8_t scale = 1;
  SegmentBase segment = SegmentBase::none;
  bool is_address32 = false;      ///< the sum counts modulo 2^32
  std::int64_t displacement = 0;  ///< from an instruction pointer: the address itself
  /// Of bt* with an offset of bits in a register, which reaches beyond the operand: that register.
  Register bit_offset = no_register;
  std::uint8_t bytes = 0;

  bool operator==(const MemoryOperand&) const = default;
};

/// Any thread; async-signal-safe.
std::uintptr_t address_of(const MemoryOperand& operand, const Registers& registers) noexcept;

}  // namespace craton::posix
