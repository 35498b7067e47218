#include "posix/atomics/reduction.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "posix/atomics/code_reader.hpp"
#include "posix/atomics/decoder.hpp"

namespace craton::posix {
namespace {

/// Instructions that are followed, each way.
constexpr int instructions_most = 24;
constexpr std::size_t vector_registers = 16;

using Operation = Arithmetic::Operation;

std::span<const ZydisDecodedOperand> visible(const DecodedWhole& whole) noexcept {
  return {whole.operands.data(), whole.raw.operand_count_visible};
}

/// A set of general and vector registers.
class RegisterSet {
 public:
  void add(ZydisRegister name) noexcept { bits_ |= bit_of(name); }
  void remove(ZydisRegister name) noexcept { bits_ &= ~bit_of(name); }
  bool has(ZydisRegister name) const noexcept { return (bits_ & bit_of(name)) != 0; }

 private:
  static std::uint64_t bit_of(ZydisRegister name) noexcept {
    const Register number = number_of(name);
    if (number < general_registers) return std::uint64_t{1} << number;
    const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
    if (whole < ZYDIS_REGISTER_ZMM0 || whole > ZYDIS_REGISTER_ZMM31) return 0;
    return std::uint64_t{1} << (general_registers + static_cast<unsigned>(whole - ZYDIS_REGISTER_ZMM0));
  }

  std::uint64_t bits_ = 0;
};

/// What registers hold on the way from a failed exchange back to it.
class Retry {
 public:
  Retry(const Site& site, const Frame& frame) : frame_(frame), bytes_(site.operand.bytes) {
    general_.fill(Value::before);
    vectors_.fill(Value::before);
    general_[rax] = Value::found;
    written_.add(ZYDIS_REGISTER_RAX);
  }

  /// \returns whether the instruction is understood
  bool follow(const DecodedWhole& whole) noexcept {
    const auto operands = visible(whole);
    // Others have masks and rounding modes.
    if (whole.raw.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
        whole.raw.encoding != ZYDIS_INSTRUCTION_ENCODING_VEX)
      return false;
    switch (whole.raw.mnemonic) {
      case ZYDIS_MNEMONIC_NOP:
        return true;
      case ZYDIS_MNEMONIC_MOV:
      case ZYDIS_MNEMONIC_MOVQ:
      case ZYDIS_MNEMONIC_MOVD:
      case ZYDIS_MNEMONIC_VMOVQ:
      case ZYDIS_MNEMONIC_VMOVD:
      case ZYDIS_MNEMONIC_MOVAPS:
      case ZYDIS_MNEMONIC_MOVAPD:
      case ZYDIS_MNEMONIC_MOVDQA:
      case ZYDIS_MNEMONIC_VMOVAPS:
      case ZYDIS_MNEMONIC_VMOVAPD:
      case ZYDIS_MNEMONIC_VMOVDQA:
        return operands.size() == 2 && set(operands[0], value_of(operands[1]));
      case ZYDIS_MNEMONIC_LEA:
        return whole.raw.address_width == 64 && follow_lea(operands);
      case ZYDIS_MNEMONIC_ADD:
        return compute(operands, {.operation = Operation::add, .is_floating = false, .bytes = bytes_});
      case ZYDIS_MNEMONIC_IMUL:
        return compute(operands, {.operation = Operation::multiply, .is_floating = false, .bytes = bytes_});
      case ZYDIS_MNEMONIC_AND:
        return compute(operands, {.operation = Operation::bit_and, .is_floating = false, .bytes = bytes_});
      case ZYDIS_MNEMONIC_OR:
        return compute(operands, {.operation = Operation::bit_or, .is_floating = false, .bytes = bytes_});
      case ZYDIS_MNEMONIC_XOR:
        return compute(operands, {.operation = Operation::bit_xor, .is_floating = false, .bytes = bytes_});
      case ZYDIS_MNEMONIC_ADDSD:
      case ZYDIS_MNEMONIC_VADDSD:
        return compute(operands, {.operation = Operation::add, .is_floating = true, .bytes = 8});
      case ZYDIS_MNEMONIC_ADDSS:
      case ZYDIS_MNEMONIC_VADDSS:
        return compute(operands, {.operation = Operation::add, .is_floating = true, .bytes = 4});
      case ZYDIS_MNEMONIC_MULSD:
      case ZYDIS_MNEMONIC_VMULSD:
        return compute(operands, {.operation = Operation::multiply, .is_floating = true, .bytes = 8});
      case ZYDIS_MNEMONIC_MULSS:
      case ZYDIS_MNEMONIC_VMULSS:
        return compute(operands, {.operation = Operation::multiply, .is_floating = true, .bytes = 4});
      default:
        return false;
    }
  }

  /// Whether the exchange would now put the result in the place of what was found.
  bool offers(Register offered) const noexcept {
    return general_[rax] == Value::found && general_[offered] == Value::result && results_ == 1;
  }
  /// What this way has written, and the exchange.
  const RegisterSet& written() const noexcept { return written_; }
  const Arithmetic& arithmetic() const noexcept { return arithmetic_; }

 private:
  enum class Value : std::uint8_t {
    before,  ///< made of what registers and the frame held before
    found,   ///< what the exchange found
    result,  ///< of the operation on what was found and something from before
    unknown,
  };

  /// Where a register's value is kept; null: in none.
  Value* place_of(ZydisRegister name) noexcept {
    const Register number = number_of(name);
    if (number < general_registers) return number == rsp ? nullptr : &general_[number];
    if (name >= ZYDIS_REGISTER_XMM0 && name < ZYDIS_REGISTER_XMM0 + static_cast<int>(vector_registers))
      return &vectors_[static_cast<std::size_t>(name - ZYDIS_REGISTER_XMM0)];
    return nullptr;
  }
  bool is_general(const ZydisDecodedOperand& operand) const noexcept {
    return number_of(operand.reg.value) < general_registers;
  }
  /// Of the whole number, not of a part of it.
  Value value_of(const ZydisDecodedOperand& operand) noexcept {
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return Value::before;
    if (is_memory(operand)) return frame_.holds(operand) ? Value::before : Value::unknown;
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return Value::unknown;
    const Value* const value = place_of(operand.reg.value);
    if (value == nullptr) return Value::unknown;
    if (is_general(operand) && operand.size != 8U * bytes_ && *value != Value::before) return Value::unknown;
    return *value;
  }
  bool set(const ZydisDecodedOperand& operand, Value value) noexcept {
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER) return false;
    Value* const place = place_of(operand.reg.value);
    if (place == nullptr) return false;
    if (is_general(operand) && operand.size < 32) return false;  // the rest of it stays
    if (is_general(operand) && operand.size != 8U * bytes_ && value != Value::before) value = Value::unknown;
    *place = value;
    written_.add(operand.reg.value);
    return true;
  }
  Value combine(Value left, Value right, const Arithmetic& arithmetic) noexcept {
    if (left == Value::before && right == Value::before) return Value::before;
    const bool is_result =
        (left == Value::found && right == Value::before) || (left == Value::before && right == Value::found);
    if (!is_result || arithmetic.bytes != bytes_) return Value::unknown;
    arithmetic_ = arithmetic;
    ++results_;
    return Value::result;
  }
  bool compute(std::span<const ZydisDecodedOperand> operands, const Arithmetic& arithmetic) noexcept {
    if (operands.size() < 2) return false;
    const Value left = value_of(operands[operands.size() - 2]);
    const Value sum = combine(left, value_of(operands.back()), arithmetic);
    // A number of the code's is nobody's part.
    const bool is_counted = sum == Value::result && operands.back().type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    return !is_counted && set(operands[0], sum);
  }
  bool follow_lea(std::span<const ZydisDecodedOperand> operands) noexcept {
    const ZydisDecodedOperandMem& sum = operands[1].mem;
    const auto part = [&](ZydisRegister name) {
      if (name == ZYDIS_REGISTER_NONE) return Value::before;
      const Value* const value = place_of(name);
      return value == nullptr ? Value::unknown : *value;
    };
    if (sum.base == ZYDIS_REGISTER_NONE || sum.index == ZYDIS_REGISTER_NONE || sum.scale != 1) return false;
    return set(operands[0], combine(part(sum.base), part(sum.index),
                                    {.operation = Operation::add, .is_floating = false, .bytes = bytes_}));
  }

  const Frame& frame_;
  const std::uint8_t bytes_;
  std::array<Value, general_registers> general_;
  std::array<Value, vector_registers> vectors_;
  RegisterSet written_;
  Arithmetic arithmetic_;
  int results_ = 0;
};

/// What `lock` makes of it; nothing for other instructions, and those that also give what was there.
std::optional<Operation> operation_at_once(ZydisMnemonic mnemonic) noexcept {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
      return Operation::add;
    case ZYDIS_MNEMONIC_AND:
      return Operation::bit_and;
    case ZYDIS_MNEMONIC_OR:
      return Operation::bit_or;
    case ZYDIS_MNEMONIC_XOR:
      return Operation::bit_xor;
    default:
      return std::nullopt;
  }
}

/// Follows a failed exchange back to it. \param written gets what then holds another value than it would
/// \returns the operation, if it is nothing else
std::optional<Arithmetic> follow_retry(const CodeReader& reader, const Frame& frame, const Site& site,
                                       Register offered, std::uintptr_t at, RegisterSet& written) {
  Retry retry(site, frame);
  DecodedWhole whole;
  for (int step = 0; step < instructions_most; ++step) {
    if (at == site.instruction.address) {
      written = retry.written();
      return retry.offers(offered) ? std::optional(retry.arithmetic()) : std::nullopt;
    }
    if (!reader.read(at, whole)) return std::nullopt;
    if (whole.raw.mnemonic == ZYDIS_MNEMONIC_JMP && CodeReader::target(at, whole) != 0) {
      at = CodeReader::target(at, whole);
      continue;
    }
    if (!retry.follow(whole)) return std::nullopt;
    at += whole.raw.length;
  }
  return std::nullopt;
}

/// Whether an instruction on the way to the others concerns this thread alone, whatever its flags are.
bool is_private(const DecodedWhole& whole, const Frame& frame) noexcept {
  const ZydisDecodedInstruction& raw = whole.raw;
  if (raw.cpu_flags != nullptr && raw.cpu_flags->tested != 0) return false;
  if ((raw.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0) return false;
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_MFENCE:
    case ZYDIS_MNEMONIC_SFENCE:
    case ZYDIS_MNEMONIC_LFENCE:
      return false;
    default:
      break;
  }
  switch (raw.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_SYSTEM:
      return false;
    default:
      break;
  }
  // With those that are not written: of string instructions, of push and pop.
  return std::all_of(
      whole.operands.begin(), whole.operands.begin() + raw.operand_count,
      [&](const ZydisDecodedOperand& operand) { return !is_memory(operand) || frame.holds(operand); });
}

/// Whether an instruction uses what one of the registers holds. Takes out those that it gives other values.
bool uses(const DecodedWhole& whole, RegisterSet& registers) noexcept {
  const std::span<const ZydisDecodedOperand> all(whole.operands.data(), whole.raw.operand_count);
  for (const ZydisDecodedOperand& operand : all) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
        (registers.has(operand.mem.base) || registers.has(operand.mem.index)))
      return true;
    const bool is_read = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER && is_read && registers.has(operand.reg.value))
      return true;
  }
  for (const ZydisDecodedOperand& operand : all) {
    // The upper half of a general register becomes zero.
    const bool is_whole = operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.size >= 32 &&
                          number_of(operand.reg.value) < general_registers;
    if (is_whole && operand.actions == ZYDIS_OPERAND_ACTION_WRITE) registers.remove(operand.reg.value);
  }
  return false;
}

/// What a function must leave as it was: the caller may go on with it.
bool holds_kept(const RegisterSet& registers) noexcept {
  constexpr std::array kept = {ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_R12,
                               ZYDIS_REGISTER_R13, ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15};
  return std::any_of(kept.begin(), kept.end(), [&](ZydisRegister name) { return registers.has(name); });
}

/// Where the thread meets others after an instruction, before it does anything that they could see.
/// \param written registers that hold other values than they would: nothing may come of them
std::optional<Reduction::Meeting> next_meeting(const CodeReader& reader, const Frame& frame,
                                               std::uintptr_t at, std::uintptr_t barrier,
                                               RegisterSet written) {
  DecodedWhole whole;
  for (int step = 0; step < instructions_most && reader.read(at, whole); ++step) {
    switch (whole.raw.mnemonic) {
      case ZYDIS_MNEMONIC_RET:
        return Reduction::Meeting::end;
      case ZYDIS_MNEMONIC_CALL:
        if (holds_kept(written)) return std::nullopt;
        return reader.leads_to(at, whole, {&barrier, 1}) ? std::optional(Reduction::Meeting::barrier)
                                                         : std::nullopt;
      case ZYDIS_MNEMONIC_JMP:
        if (reader.leads_to(at, whole, {&barrier, 1}) && !holds_kept(written))
          return Reduction::Meeting::barrier;
        at = CodeReader::target(at, whole);
        if (at == 0) return std::nullopt;
        continue;
      default:
        break;
    }
    if (!is_private(whole, frame) || uses(whole, written)) return std::nullopt;
    at += whole.raw.length;
  }
  return std::nullopt;
}

}  // namespace

Reduction find_reduction(const CodeMap& map, const Site& site, const void* barrier) {
  if (barrier == nullptr || site.instruction.site != SiteKind::atomic || site.problem != nullptr) return {};
  const CodeReader reader(map);
  const AddressRange* const function = map.function_at(site.instruction.address);
  const Frame frame(reader, function);
  DecodedWhole whole;
  if (function == nullptr || !reader.read(site.instruction.address, whole)) return {};
  if (site.operand.base == rsp) return {};  // its own

  Reduction found;
  RegisterSet written;
  std::uintptr_t after = site.instruction.end();
  if (whole.raw.mnemonic == ZYDIS_MNEMONIC_CMPXCHG) {
    found.offered = number_of(whole.operands[1].reg.value);
    DecodedWhole branch;
    if (site.operand.bytes < 4 || !reader.read(after, branch) || branch.raw.mnemonic != ZYDIS_MNEMONIC_JNZ)
      return {};
    const auto arithmetic =
        follow_retry(reader, frame, site, found.offered, CodeReader::target(after, branch), written);
    if (!arithmetic) return {};
    found.way = Reduction::Way::retried;
    found.arithmetic = *arithmetic;
    after += branch.raw.length;
  } else {
    const std::optional<Operation> operation = operation_at_once(whole.raw.mnemonic);
    // A number that the code itself has is no thread's part of a sum, but counts threads: others may wait.
    if (!operation || whole.operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER) return {};
    found.way = Reduction::Way::at_once;
    found.arithmetic = {.operation = *operation, .is_floating = false, .bytes = site.operand.bytes};
  }
  const auto meeting = next_meeting(reader, frame, after, reinterpret_cast<std::uintptr_t>(barrier), written);
  if (!meeting) return {};
  found.meeting = *meeting;
  found.function = function->begin;
  return found;
}

}  // namespace craton::posix
