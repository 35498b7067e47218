/// \file
/// Machine instructions as far as patching is concerned: how long they are, where they go on, what they point
/// at, whether they may be moved, and which of them are atomic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/function_ref.hpp"
#include "posix/atomics/code_map.hpp"
#include "posix/atomics/registers.hpp"

namespace craton::posix {

/// Where control goes after an instruction.
enum class Flow : std::uint8_t {
  next,
  jump,         ///< to `target`
  conditional,  ///< to `target` or on
  indirect,     ///< a jump to what a register or memory says
  slot,         ///< a jump to what a fixed place of memory says, as those of .plt
  call,         ///< and then on
  away,         ///< nowhere that we know of: ret, ud2, hlt
};

enum class SiteKind : std::uint8_t {
  none,
  atomic,
  flush,
  look,  ///< a plain load of a thread that waits (looks.hpp)
};

struct Instruction {
  std::uintptr_t address = 0;
  std::uint8_t length = 0;
  Flow flow = Flow::next;
  SiteKind site = SiteKind::none;
  bool is_patient = false;       ///< a look: nothing ends its loop but what others do
  bool is_movable = false;       ///< it does the same elsewhere, if its distance or its target is changed
  std::uint8_t condition = 0;    ///< of Flow::conditional, as opcodes number them
  std::uint8_t distance_at = 0;  ///< where in it the distance to its operand is; 0: nowhere
  std::uintptr_t target = 0;     ///< of a direct branch or call; 0: none
  std::array<std::uintptr_t, 2> refers_to{};  ///< addresses that it names otherwise; 0: none

  std::uintptr_t end() const noexcept { return address + length; }
  bool goes_on() const noexcept {
    return flow == Flow::next || flow == Flow::conditional || flow == Flow::call;
  }
};

/// What making code for a site takes beside the above.
struct Site {
  Instruction instruction;
  MemoryOperand operand;  ///< unless it is mfence
  bool has_operand = false;
  bool keeps_flags = true;      ///< it reads flags, or leaves some of them as they were
  std::uint16_t registers = 0;  ///< a bit for each general register that it reads or changes
  // Its encoding, less prefixes, operand and displacement.
  std::uint8_t rex = 0;  ///< 0: none
  bool is_operand16 = false;
  bool is_two_byte = false;  ///< after the escape 0f
  std::uint8_t opcode = 0;
  std::uint8_t register_field = 0;
  std::uint8_t immediate_bytes = 0;
  std::array<std::uint8_t, 8> immediate{};
  const char* problem = nullptr;  ///< why it cannot be done elsewhere; null: it can

  bool is_exchange() const noexcept { return !is_two_byte && (opcode & 0xfe) == 0x86; }
  bool is_compare_exchange() const noexcept { return is_two_byte && (opcode & 0xfe) == 0xb0; }
};

struct Decoded {
  std::vector<Instruction> instructions;
  std::uintptr_t end = 0;  ///< how far it could be read; less than asked for where bytes are no instruction
};

/// Reads instructions one after the other. \returns how far it could
std::uintptr_t read_instructions(const AddressRange& range, FunctionRef<void(const Instruction&)> visit);
/// Keeps them.
Decoded decode(const AddressRange& range);
/// Whether a range can hold an atomic instruction at all; much faster than decode().
bool may_hold_sites(const AddressRange& range) noexcept;
Site decode_site(const Instruction& instruction);
/// Whether `instruction` loads a register from the place that `site`, a compare-exchange, may store to soon
/// after it: as far as can be told without knowing what registers hold.
bool loads_for(const Instruction& instruction, const Site& site);
/// Whether a range holds nothing but what fills gaps between functions.
bool is_filler(const AddressRange& range) noexcept;

}  // namespace craton::posix
