#include "posix/atomics/site_code.hpp"

#include <bit>

namespace craton::posix {
namespace {

/// The address of the operand, and what it is compared by; saved on the stack while they are used.
constexpr Register address_register = rcx;
constexpr Register scratch_register = rdx;

// Opcodes of `register, memory` with 64 bits.
constexpr unsigned opcode_add = 0x03;
constexpr unsigned opcode_subtract = 0x2b;
constexpr unsigned opcode_compare = 0x3b;

constexpr std::int32_t before_at(Register name) noexcept {
  return static_cast<std::int32_t>(offsetof(PerformState, before)) + 8 * name;
}
constexpr std::int32_t after_at(Register name) noexcept {
  return static_cast<std::int32_t>(offsetof(PerformState, after)) + 8 * name;
}
constexpr auto flags_before_at =
    static_cast<std::int32_t>(offsetof(PerformState, before) + offsetof(Registers, flags));
constexpr auto flags_after_at =
    static_cast<std::int32_t>(offsetof(PerformState, after) + offsetof(Registers, flags));

bool uses(const Site& site, Register name) noexcept {
  return (site.registers >> name & 1) != 0;
}

template <typename Action>
void for_each_register(const Site& site, Action&& action) {
  for (unsigned i = 0; i < general_registers; ++i)
    if (uses(site, static_cast<Register>(i))) action(static_cast<Register>(i));
}

/// Those of a site that a function must give back.
std::vector<Register> preserved_registers(const Site& site) {
  std::vector<Register> preserved;
  for_each_register(site, [&](Register name) {
    if (name == rbx || name == rbp || name >= r12) preserved.push_back(name);
  });
  return preserved;
}

}  // namespace

SiteCode::SiteCode(Assembler& code, const SharedMemory& shared, const void* entry) : code_(code) {
  entry_ = add_literal(reinterpret_cast<std::uintptr_t>(entry));
  for (const SharedRange& range : shared.ranges) {
    ranges_.push_back({.begin = add_literal(range.begin),
                       .bytes = add_literal(range.end - range.begin),
                       .native_blocks = add_literal(reinterpret_cast<std::uintptr_t>(range.native_blocks)),
                       .block_shift = range.block_shift,
                       .has_native_blocks = range.native_blocks != nullptr});
  }
}

std::uintptr_t SiteCode::add_literal(std::uint64_t value) {
  code_.align(8, 0xcc);
  const std::uintptr_t at = code_.here();
  code_.value(value);
  return at;
}

std::uintptr_t SiteCode::add_perform(const Site& site) {
  code_.align(16, 0xcc);
  const std::uintptr_t begin = code_.here();
  // Registers of the function itself, which the instruction does not use. The target's has a number below 8,
  // since an instruction on ah to bh can have no prefix that would reach the others.
  const Register target = uses(site, rdi) ? rsi : rdi;
  const Register state = uses(site, r11) ? r10 : r11;
  const std::vector<Register> preserved = preserved_registers(site);
  code_.bytes({0xf3, 0x0f, 0x1e, 0xfa});  // endbr64
  for (const Register name : preserved) code_.push(name);
  code_.move(state, rdi);
  if (target == rdi) code_.move(rdi, rsi);
  code_.load(rax, state, flags_before_at);
  code_.byte(0x25);  // and eax, immediate
  code_.value(static_cast<std::uint32_t>(arithmetic_flags));
  code_.push(rax);
  for_each_register(site, [&](Register name) { code_.load(name, state, before_at(name)); });
  const Register bits = site.operand.bit_offset;
  if (bits < general_registers) {  // the target is the word that the bit is in
    code_.bytes({0x48U | (bits >= r8 ? 1U : 0U), 0x83, 0xe0U | (bits & 7U), site.operand.bytes * 8U - 1});
  }
  code_.byte(0x9d);  // popfq
  if (site.is_operand16) code_.byte(0x66);
  if (site.instruction.site != SiteKind::look) code_.byte(0xf0);  // lock
  if (site.rex != 0) code_.byte(site.rex);
  if (site.is_two_byte) code_.byte(0x0f);
  code_.byte(site.opcode);
  code_.byte(static_cast<unsigned>(site.register_field) << 3 | target);
  code_.bytes(std::span(site.immediate).first(site.immediate_bytes));
  for_each_register(site, [&](Register name) {
    if (name != bits) code_.store(name, state, after_at(name));
  });
  code_.byte(0x9c);  // pushfq
  code_.pop(rax);
  code_.byte(0x25);  // and eax, immediate
  code_.value(static_cast<std::uint32_t>(arithmetic_flags));
  code_.load(rcx, state, flags_before_at);
  code_.bytes({0x48, 0x81, 0xe1});  // and rcx, immediate
  code_.value(~static_cast<std::uint32_t>(arithmetic_flags));
  code_.bytes({0x48, 0x09, 0xc8});  // or rax, rcx
  code_.store(rax, state, flags_after_at);
  for (auto name = preserved.rbegin(); name != preserved.rend(); ++name) code_.pop(*name);
  code_.byte(0xc3);
  return begin;
}

std::uintptr_t SiteCode::add_trampoline(std::span<const Step> steps, std::uintptr_t resume) {
  std::vector<std::uintptr_t> records(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].site != nullptr) records[i] = add_literal(reinterpret_cast<std::uintptr_t>(steps[i].record));
  code_.align(16, 0xcc);
  const std::uintptr_t begin = code_.here();
  std::vector<Aside> asides;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Instruction& instruction = steps[i].instruction;
    if (steps[i].site == nullptr) {
      add_moved(instruction);
    } else if (instruction.site == SiteKind::flush) {
      code_.add_to_stack_pointer(-red_zone_bytes);
      add_call(records[i]);
      add_copy(instruction);
    } else {
      asides.push_back(add_access(*steps[i].site, records[i]));
    }
  }
  if (steps.back().instruction.goes_on()) code_.jump_to(resume);
  for (const Aside& aside : asides) add_aside(aside);
  return begin;
}

std::uintptr_t SiteCode::add_continuation(const Instruction& instruction) {
  code_.align(16, 0xcc);
  const std::uintptr_t begin = code_.here();
  add_copy(instruction);
  code_.jump_to(instruction.end());
  return begin;
}

void SiteCode::add_copy(const Instruction& instruction) {
  const std::span original(reinterpret_cast<const std::uint8_t*>(instruction.address), instruction.length);
  if (instruction.distance_at == 0) {
    code_.bytes(original);
    return;
  }
  const std::size_t after = instruction.length - instruction.distance_at - sizeof(std::int32_t);
  code_.bytes(original.first(instruction.distance_at));
  code_.distance_to(instruction.refers_to[0], after);
  code_.bytes(original.last(after));
}

void SiteCode::add_moved(const Instruction& instruction) {
  switch (instruction.flow) {
    case Flow::jump:
      code_.jump_to(instruction.target);
      return;
    case Flow::conditional:
      code_.jump_to_if(instruction.condition, instruction.target);
      return;
    default:
      add_copy(instruction);
      return;
  }
}

void SiteCode::add_call(std::uintptr_t record) {
  code_.indirect(6, record);  // push
  code_.indirect(2, entry_);  // call
  code_.add_to_stack_pointer(red_zone_bytes + 8);
}

/// The address of a site's operand, from the program's registers; keeps the flags in ax where the site does.
void SiteCode::add_address(const Site& site) {
  const MemoryOperand& operand = site.operand;
  const std::int64_t saved_bytes = site.keeps_flags ? 24 : 16;
  code_.add_to_stack_pointer(-red_zone_bytes);
  code_.push(address_register);
  code_.push(scratch_register);
  if (site.keeps_flags) code_.push(rax);
  code_.load_address(address_register, operand, red_zone_bytes + saved_bytes);
  if (operand.bit_offset < general_registers) {
    if (operand.bit_offset == address_register) {
      code_.load(scratch_register, rsp, static_cast<std::int32_t>(saved_bytes) - 8);
    } else {
      code_.move(scratch_register, operand.bit_offset);
    }
  }
  if (site.keeps_flags) code_.bytes({0x9f, 0x0f, 0x90, 0xc0});  // lahf; seto al
  if (operand.bit_offset < general_registers) add_bit_offset(site);
  if (operand.segment == SegmentBase::fs) {
    code_.bytes({0x64, 0x48, 0x8b, 0x14, 0x25, 0, 0, 0, 0});  // mov rdx, fs:0
    code_.bytes({0x48, 0x8d, 0x0c, 0x11});                    // lea rcx, [rcx + rdx]
  }
}

/// The bit in rdx may lie in another word than the operand's.
void SiteCode::add_bit_offset(const Site& site) {
  const auto size = static_cast<unsigned>(std::countr_zero(site.operand.bytes));
  if (site.operand.bytes == 2) code_.bytes({0x48, 0x0f, 0xbf, 0xd2});  // movsx rdx, dx
  if (site.operand.bytes == 4) code_.bytes({0x48, 0x63, 0xd2});        // movsxd rdx, edx
  code_.bytes({0x48, 0xc1, 0xfa, size + 3});                           // sar rdx
  code_.bytes({0x48, 0x8d, 0x0c, size << 6 | 0x11});                   // lea rcx, [rcx + rdx * bytes]
  if (site.operand.is_address32) code_.bytes({0x89, 0xc9});            // mov ecx, ecx
}

/// All registers and flags as the program has them; the stack pointer is still below the red zone.
void SiteCode::add_restore(const Site& site) {
  if (site.keeps_flags) {
    code_.bytes({0x04, 0x7f, 0x9e});  // add al, 127 overflows where al was 1; sahf
    code_.pop(rax);
  }
  code_.pop(scratch_register);
  code_.pop(address_register);
}

SiteCode::Aside SiteCode::add_access(const Site& site, std::uintptr_t record) {
  Aside aside{.site = &site, .to_hook = {}, .inside = {}, .native = 0, .resume = 0, .record = record};
  add_address(site);
  for (const RangeLiterals& range : ranges_) {
    code_.move(scratch_register, address_register);
    code_.at_literal(opcode_subtract, scratch_register, range.begin);
    code_.at_literal(opcode_compare, scratch_register, range.bytes);
    const Assembler::Jump jump = code_.jump_if(Condition::below);
    if (range.has_native_blocks && site.instruction.site == SiteKind::atomic) {
      aside.inside.push_back({jump, &range});
    } else {
      aside.to_hook.push_back(jump);
    }
  }
  aside.native = code_.here();
  add_restore(site);
  code_.add_to_stack_pointer(red_zone_bytes);
  const std::uintptr_t at_instruction = code_.here();
  add_copy(site.instruction);
  aside.resume = site.problem == nullptr ? code_.here() : at_instruction;
  return aside;
}

void SiteCode::add_block_test(Register offset, const RangeLiterals& range,
                              std::vector<Assembler::Jump>& to_hook) {
  code_.bytes({0x48, 0xc1, 0xe8U | offset, range.block_shift});  // shr
  code_.at_literal(opcode_add, offset, range.native_blocks);
  code_.bytes({0x80, 0x38U | offset, 0});  // cmp byte [offset], 0
  to_hook.push_back(code_.jump_if(Condition::equal));
}

void SiteCode::add_aside(const Aside& aside) {
  std::vector<Assembler::Jump> to_hook = aside.to_hook;
  for (const Aside::Inside& inside : aside.inside) {
    code_.bind(inside.jump);                                          // rdx: the offset in the range
    code_.bytes({0x48, 0x8d, 0x4a, aside.site->operand.bytes - 1U});  // lea rcx, [rdx + bytes - 1]
    add_block_test(scratch_register, *inside.range, to_hook);
    add_block_test(address_register, *inside.range, to_hook);
    code_.jump_to(aside.native);
  }
  for (const Assembler::Jump& jump : to_hook) code_.bind(jump);
  add_restore(*aside.site);
  add_call(aside.record);
  code_.jump_to(aside.resume);
}

}  // namespace craton::posix
