/// \file
/// Reads single instructions of an object's code, wherever control goes: for who follows it.
#pragma once

#include <cstdint>
#include <span>

#include "posix/atomics/code_map.hpp"
#include "posix/atomics/decoder.hpp"

namespace craton::posix {

/// Whether an operand is read or written, and not only its address taken.
inline bool is_memory(const ZydisDecodedOperand& operand) noexcept {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.type != ZYDIS_MEMOP_TYPE_AGEN;
}

/// Of the code of an object. Finds the ends of calls that go by the linker's table once the loader has filled
/// it.
class CodeReader {
 public:
  explicit CodeReader(const CodeMap& map) : map_(map) {}

  bool read(std::uintptr_t at, DecodedWhole& into) const noexcept;
  /// Of a direct branch or call; 0: it is none.
  static std::uintptr_t target(std::uintptr_t at, const DecodedWhole& whole) noexcept {
    const auto& immediate = whole.raw.raw.imm[0];
    return immediate.size != 0 && immediate.is_relative ? at + whole.raw.length + immediate.value.u : 0;
  }
  /// Whether a jump or call leads to one of some functions: directly, or to code that jumps there, also by an
  /// entry of a table.
  bool leads_to(std::uintptr_t at, const DecodedWhole& whole,
                std::span<const std::uintptr_t> functions) const noexcept;

 private:
  std::uintptr_t passed_on_to(std::uintptr_t stub_at) const noexcept;

  const CodeMap& map_;
};

/// Memory that is the thread's own: by the stack pointer, or by a frame pointer.
class Frame {
 public:
  /// \param function null: of which nothing is known
  Frame(const CodeReader& reader, const AddressRange* function) noexcept;
  bool holds(const ZydisDecodedOperand& operand) const noexcept;

 private:
  bool has_pointer_ = false;
};

}  // namespace craton::posix
