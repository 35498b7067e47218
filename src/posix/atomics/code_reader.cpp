#include "posix/atomics/code_reader.hpp"

#include <algorithm>
#include <cstring>

namespace craton::posix {

bool CodeReader::read(std::uintptr_t at, DecodedWhole& into) const noexcept {
  const auto holds = [at](const CodeMap::Segment& segment) { return segment.holds(at); };
  const auto segment = std::find_if(map_.code.begin(), map_.code.end(), holds);
  return segment != map_.code.end() && decode_whole(at, segment->end - at, into);
}

bool CodeReader::leads_to(std::uintptr_t at, const DecodedWhole& whole,
                          std::span<const std::uintptr_t> functions) const noexcept {
  const auto is_one = [functions](std::uintptr_t function) {
    return std::find(functions.begin(), functions.end(), function) != functions.end();
  };
  std::uintptr_t to = target(at, whole);  // what it goes by otherwise may be the program's own, and change
  constexpr int hops_most = 3;
  for (int hop = 0; to != 0 && !is_one(to) && hop < hops_most; ++hop) to = passed_on_to(to);
  return to != 0 && is_one(to);
}

/// Where code jumps at once, directly or by an entry of a table of this object; 0: it is other code.
std::uintptr_t CodeReader::passed_on_to(std::uintptr_t stub_at) const noexcept {
  DecodedWhole stub;
  if (read(stub_at, stub) && stub.raw.mnemonic == ZYDIS_MNEMONIC_ENDBR64) stub_at += stub.raw.length;
  if (!read(stub_at, stub) || stub.raw.mnemonic != ZYDIS_MNEMONIC_JMP) return 0;
  if (target(stub_at, stub) != 0) return target(stub_at, stub);
  const ZydisDecodedOperand& operand = stub.operands[0];
  if (!is_memory(operand) || operand.mem.base != ZYDIS_REGISTER_RIP) return 0;
  const std::uintptr_t place = stub_at + stub.raw.length + static_cast<std::uint64_t>(operand.mem.disp.value);
  std::uintptr_t entry = 0;
  if (!map_.image.holds(place) || !map_.image.holds(place + sizeof entry - 1)) return 0;
  std::memcpy(&entry, reinterpret_cast<const void*>(place), sizeof entry);
  return entry;
}

Frame::Frame(const CodeReader& reader, const AddressRange* function) noexcept {
  if (function == nullptr) return;
  DecodedWhole whole;
  std::uintptr_t at = function->begin;
  if (reader.read(at, whole) && whole.raw.mnemonic == ZYDIS_MNEMONIC_ENDBR64) at += whole.raw.length;
  if (!reader.read(at, whole) || whole.raw.mnemonic != ZYDIS_MNEMONIC_PUSH ||
      whole.operands[0].reg.value != ZYDIS_REGISTER_RBP)
    return;
  at += whole.raw.length;
  has_pointer_ = reader.read(at, whole) && whole.raw.mnemonic == ZYDIS_MNEMONIC_MOV &&
                 whole.operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                 whole.operands[0].reg.value == ZYDIS_REGISTER_RBP &&
                 whole.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                 whole.operands[1].reg.value == ZYDIS_REGISTER_RSP;
}

bool Frame::holds(const ZydisDecodedOperand& operand) const noexcept {
  const ZydisDecodedOperandMem& memory = operand.mem;
  if (memory.index != ZYDIS_REGISTER_NONE || memory.segment != ZYDIS_REGISTER_SS) return false;
  return memory.base == ZYDIS_REGISTER_RSP || (has_pointer_ && memory.base == ZYDIS_REGISTER_RBP);
}

}  // namespace craton::posix
