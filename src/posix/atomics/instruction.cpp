#include "posix/atomics/instruction.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "posix/atomics/decoder.hpp"

namespace craton::posix {
namespace {

const ZydisDecoder& decoder() {
  static const ZydisDecoder made = [] {
    ZydisDecoder decoder;
    const ZyanStatus status = ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    CRATON_ASSERT(ZYAN_SUCCESS(status));
    return decoder;
  }();
  return made;
}

bool has(const ZydisDecodedInstruction& raw, ZydisInstructionAttributes attribute) noexcept {
  return (raw.attributes & attribute) != 0;
}

bool has_memory(const ZydisDecodedInstruction& raw) noexcept {
  return has(raw, ZYDIS_ATTRIB_HAS_MODRM) && raw.raw.modrm.mod != 3;
}

/// Its operand is at a distance from the instruction that follows.
bool is_distant(const ZydisDecodedInstruction& raw) noexcept {
  return has_memory(raw) && raw.raw.modrm.mod == 0 && raw.raw.modrm.rm == 5;
}

/// Leaves memory as it is, and is at a small distance from the stack pointer.
bool is_fence_on_stack(const ZydisDecodedInstruction& raw) noexcept {
  constexpr ZyanI64 far_bytes = 4096;
  if (!has(raw, ZYDIS_ATTRIB_HAS_LOCK) || !has_memory(raw) || raw.raw.imm[0].size == 0) return false;
  const bool is_base_rsp = raw.raw.modrm.rm == 4 && raw.raw.sib.base == rsp && raw.raw.rex.B == 0 &&
                           raw.raw.sib.index == 4 && raw.raw.rex.X == 0;
  if (!is_base_rsp || raw.raw.disp.value < -far_bytes || raw.raw.disp.value > far_bytes) return false;
  if (has(raw, ZYDIS_ATTRIB_HAS_SEGMENT)) return false;
  const ZyanI64 operand = raw.raw.imm[0].value.s;
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_XOR:
      return operand == 0;
    default:
      return false;
  }
}

SiteKind kind_of(const ZydisDecodedInstruction& raw) noexcept {
  if (raw.mnemonic == ZYDIS_MNEMONIC_MFENCE || is_fence_on_stack(raw)) return SiteKind::flush;
  if (has(raw, ZYDIS_ATTRIB_HAS_LOCK)) return SiteKind::atomic;
  return raw.mnemonic == ZYDIS_MNEMONIC_XCHG && has_memory(raw) ? SiteKind::atomic : SiteKind::none;
}

/// jcc, and not loop or jrcxz.
bool is_plain_condition(const ZydisDecodedInstruction& raw) noexcept {
  const auto upper = static_cast<std::uint8_t>(raw.opcode & 0xf0);
  return raw.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT ? upper == 0x70
                                                    : raw.opcode_map == ZYDIS_OPCODE_MAP_0F && upper == 0x80;
}

void set_flow(Instruction& instruction, const ZydisDecodedInstruction& raw) noexcept {
  instruction.is_movable = true;
  const bool is_direct = raw.raw.imm[0].size != 0 && raw.raw.imm[0].is_relative;
  if (is_direct) instruction.target = instruction.end() + raw.raw.imm[0].value.u;
  switch (raw.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
      instruction.flow = Flow::conditional;
      instruction.condition = raw.opcode & 0x0f;
      instruction.is_movable = is_plain_condition(raw);
      return;
    case ZYDIS_CATEGORY_UNCOND_BR:
      if (is_direct) {
        instruction.flow = raw.mnemonic == ZYDIS_MNEMONIC_JMP ? Flow::jump : Flow::conditional;
        instruction.is_movable = raw.mnemonic == ZYDIS_MNEMONIC_JMP;
        return;
      }
      instruction.flow = is_distant(raw) ? Flow::slot : Flow::indirect;
      return;
    case ZYDIS_CATEGORY_CALL:
      // What it pushes is an address that unwinders look up.
      instruction.flow = Flow::call;
      instruction.is_movable = false;
      return;
    case ZYDIS_CATEGORY_RET:
      instruction.flow = Flow::away;
      return;
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_CET:  // an end of a branch must stay where branches go
    case ZYDIS_CATEGORY_SYSTEM:
      instruction.is_movable = false;
      break;
    default:
      break;
  }
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
      instruction.flow = Flow::away;
      instruction.is_movable = false;
      return;
    default:
      break;
  }
  if (is_direct) {  // xbegin
    instruction.flow = Flow::conditional;
    instruction.is_movable = false;
  }
}

void set_references(Instruction& instruction, const ZydisDecodedInstruction& raw) noexcept {
  const auto& encoded = raw.raw;
  if (is_distant(raw)) {
    instruction.refers_to[0] = instruction.end() + static_cast<std::uint64_t>(encoded.disp.value);
    instruction.distance_at = encoded.disp.offset;
    if (raw.address_width != 64) instruction.is_movable = false;
  } else if (encoded.disp.size == 32) {
    instruction.refers_to[0] = static_cast<std::uint64_t>(encoded.disp.value);
  }
  if (encoded.imm[0].size >= 32 && !encoded.imm[0].is_relative)
    instruction.refers_to[1] = encoded.imm[0].value.u;
}

bool leaves_no_flag(ZydisMnemonic mnemonic) noexcept {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_ADD:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_AND:
    case ZYDIS_MNEMONIC_OR:
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_NEG:
    case ZYDIS_MNEMONIC_CMPXCHG:
    case ZYDIS_MNEMONIC_XADD:
      return true;
    default:
      return false;
  }
}

bool is_bit_operation(ZydisMnemonic mnemonic) noexcept {
  return mnemonic == ZYDIS_MNEMONIC_BTC || mnemonic == ZYDIS_MNEMONIC_BTR || mnemonic == ZYDIS_MNEMONIC_BTS;
}

void set_encoding(Site& site, const ZydisDecodedInstruction& raw) noexcept {
  const auto& encoded = raw.raw;
  if (has(raw, ZYDIS_ATTRIB_HAS_REX))
    site.rex = static_cast<std::uint8_t>(0x40 | (encoded.rex.W << 3) | (encoded.rex.R << 2));
  site.is_operand16 = has(raw, ZYDIS_ATTRIB_HAS_OPERANDSIZE);
  site.is_two_byte = raw.opcode_map == ZYDIS_OPCODE_MAP_0F;
  site.opcode = raw.opcode;
  site.register_field = encoded.modrm.reg;
  site.immediate_bytes = encoded.imm[0].size / 8;
  std::memcpy(site.immediate.data(),
              reinterpret_cast<const void*>(site.instruction.address + encoded.imm[0].offset),
              site.immediate_bytes);
}

}  // namespace

Register number_of(ZydisRegister name) noexcept {
  if (name == ZYDIS_REGISTER_NONE) return no_register;
  if (name == ZYDIS_REGISTER_RIP || name == ZYDIS_REGISTER_EIP) return instruction_pointer;
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
  return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15
             ? static_cast<Register>(whole - ZYDIS_REGISTER_RAX)
             : no_register;
}

namespace {

/// A load into general registers or flags that its encoding shows in full.
bool is_plain_load(const DecodedWhole& whole) noexcept {
  const ZydisDecodedInstruction& raw = whole.raw;
  if (raw.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY || raw.opcode_map > ZYDIS_OPCODE_MAP_0F) return false;
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD:
    case ZYDIS_MNEMONIC_CMP:
    case ZYDIS_MNEMONIC_TEST:
      return has(raw, ZYDIS_ATTRIB_HAS_MODRM);
    default:
      return false;
  }
}

}  // namespace

MemoryOperand operand_of(const DecodedWhole& whole, const ZydisDecodedOperand& operand,
                         std::uintptr_t end) noexcept {
  const ZydisDecodedOperandMem& memory = operand.mem;
  MemoryOperand made;
  made.base = number_of(memory.base);
  made.index = number_of(memory.index);
  made.scale = memory.scale;
  made.displacement = memory.disp.has_displacement ? memory.disp.value : 0;
  if (made.base == instruction_pointer) made.displacement += static_cast<std::int64_t>(end);
  if (memory.segment == ZYDIS_REGISTER_FS) made.segment = SegmentBase::fs;
  if (memory.segment == ZYDIS_REGISTER_GS) made.segment = SegmentBase::gs;
  made.is_address32 = whole.raw.address_width == 32;
  made.bytes = static_cast<std::uint8_t>(operand.size / 8);
  return made;
}

bool decode_whole(std::uintptr_t at, std::size_t bytes_most, DecodedWhole& into) noexcept {
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), reinterpret_cast<const void*>(at), bytes_most,
                                             &into.raw, into.operands.data()));
}

std::uintptr_t read_instructions(const AddressRange& range, FunctionRef<void(const Instruction&)> visit) {
  const ZydisDecoder& with = decoder();
  ZydisDecodedInstruction raw;
  std::uintptr_t at = range.begin;
  for (; at < range.end; at += raw.length) {
    const ZyanStatus status = ZydisDecoderDecodeInstruction(&with, nullptr, reinterpret_cast<const void*>(at),
                                                            range.end - at, &raw);
    if (!ZYAN_SUCCESS(status)) return at;
    Instruction instruction;
    instruction.address = at;
    instruction.length = raw.length;
    instruction.site = kind_of(raw);
    set_flow(instruction, raw);
    set_references(instruction, raw);
    visit(instruction);
  }
  return at;
}

Decoded decode(const AddressRange& range) {
  Decoded decoded;
  decoded.instructions.reserve((range.end - range.begin) / 4);
  decoded.end = read_instructions(
      range, [&](const Instruction& instruction) { decoded.instructions.push_back(instruction); });
  return decoded;
}

bool may_hold_sites(const AddressRange& range) noexcept {
  const auto* const code = reinterpret_cast<const std::uint8_t*>(range.begin);
  const auto* const end = reinterpret_cast<const std::uint8_t*>(range.end);
  // lock; xchg of bytes and of words; the second byte of mfence.
  return std::any_of(code, end, [](std::uint8_t byte) {
    return byte == 0xf0 || byte == 0x86 || byte == 0x87 || byte == 0xae;
  });
}

Site decode_site(const Instruction& instruction) {
  Site site;
  site.instruction = instruction;
  DecodedWhole whole;
  const bool is_known = decode_whole(instruction.address, instruction.length, whole);
  CRATON_ASSERT(is_known);
  const auto& [raw, operands] = whole;
  if (raw.mnemonic == ZYDIS_MNEMONIC_MFENCE) return site;
  set_encoding(site, raw);
  site.keeps_flags = !leaves_no_flag(raw.mnemonic);
  for (std::size_t i = 0; i < raw.operand_count; ++i) {
    const ZydisDecodedOperand& operand = operands[i];
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      site.has_operand = true;
      site.operand = operand_of(whole, operand, instruction.end());
    } else if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      const Register number = number_of(operand.reg.value);
      if (number >= general_registers) continue;
      site.registers = static_cast<std::uint16_t>(site.registers | (1U << number));
      if (is_bit_operation(raw.mnemonic)) site.operand.bit_offset = number;
      if (number == rsp) site.problem = "it changes or stores the stack pointer";
    }
  }
  if (instruction.site == SiteKind::look) {
    if (!is_plain_load(whole)) site.problem = "it can be done in its place only";
    return site;
  }
  if (!site.has_operand || raw.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
      raw.opcode_map > ZYDIS_OPCODE_MAP_0F)
    site.problem = "its encoding is not known";
  return site;
}

bool loads_for(const Instruction& instruction, const Site& site) {
  if (instruction.site != SiteKind::none || !site.is_compare_exchange()) return false;
  DecodedWhole whole;
  const bool is_known = decode_whole(instruction.address, instruction.length, whole);
  CRATON_ASSERT(is_known);
  const auto& [raw, operands] = whole;
  const bool is_load = raw.mnemonic == ZYDIS_MNEMONIC_MOV || raw.mnemonic == ZYDIS_MNEMONIC_MOVZX ||
                       raw.mnemonic == ZYDIS_MNEMONIC_MOVSX;
  if (!is_load || raw.operand_count < 2 || operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER ||
      operands[1].type != ZYDIS_OPERAND_TYPE_MEMORY)
    return false;
  return operand_of(whole, operands[1], instruction.end()) == site.operand;
}

bool is_filler(const AddressRange& range) noexcept {
  for (std::uintptr_t at = range.begin; at < range.end;) {
    ZydisDecodedInstruction raw;
    const ZyanStatus status = ZydisDecoderDecodeInstruction(
        &decoder(), nullptr, reinterpret_cast<const void*>(at), range.end - at, &raw);
    if (!ZYAN_SUCCESS(status)) return false;
    if (raw.mnemonic != ZYDIS_MNEMONIC_NOP && raw.mnemonic != ZYDIS_MNEMONIC_INT3) return false;
    at += raw.length;
  }
  return true;
}

}  // namespace craton::posix
