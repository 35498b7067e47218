/// \file
/// What the files that know Zydis share: instruction.cpp, which has it, and those that follow code.
#pragma once

#include <Zydis/Zydis.h>

#include <array>
#include <cstdint>

#include "posix/atomics/registers.hpp"

namespace craton::posix {

struct DecodedWhole {
  ZydisDecodedInstruction raw;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
};

/// The instruction at `at`, of at most so many bytes. \returns whether there is one
bool decode_whole(std::uintptr_t at, std::size_t bytes_most, DecodedWhole& into) noexcept;
/// The general register that a name is or is a part of; no_register: none.
Register number_of(ZydisRegister name) noexcept;
/// An operand in memory, of an instruction that ends at `end`.
MemoryOperand operand_of(const DecodedWhole& whole, const ZydisDecodedOperand& operand,
                         std::uintptr_t end) noexcept;

}  // namespace craton::posix
