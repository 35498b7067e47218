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
  const std::uintptr_t direct = target(at, whole);
  if (direct == 0) return false;  // what it goes by may be the program's own, and change
  return is_one(direct) || is_one(passed_on_to(direct));
}

/// Where code jumps at once by an entry of a table of this object; 0: it is other code.
std::uintptr_t CodeReader::passed_on_to(std::uintptr_t stub_at) const noexcept {
  DecodedWhole stub;
  if (read(stub_at, stub) && stub.raw.mnemonic == ZYDIS_MNEMONIC_ENDBR64) stub_at += stub.raw.length;
  if (!read(stub_at, stub) || stub.raw.mnemonic != ZYDIS_MNEMONIC_JMP) return 0;
  const ZydisDecodedOperand& operand = stub.operands[0];
  if (!is_memory(operand) || operand.mem.base != ZYDIS_REGISTER_RIP) return 0;
  const std::uintptr_t place = stub_at + stub.raw.length + static_cast<std::uint64_t>(operand.mem.disp.value);
  std::uintptr_t entry = 0;
  if (!map_.image.holds(place) || !map_.image.holds(place + sizeof entry - 1)) return 0;
  std::memcpy(&entry, reinterpret_cast<const void*>(place), sizeof entry);
  return entry;
}

}  // namespace craton::posix
