/// \file
/// Writes machine code: bytes in a row that know at which address they will lie. Only what trampolines need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "posix/atomics/registers.hpp"

namespace craton::posix {

enum class Condition : std::uint8_t { below = 2, equal = 4 };

class Assembler {
 public:
  /// A distance that is filled in later.
  struct Jump {
    std::size_t at;
  };

  explicit Assembler(std::uintptr_t base) : base_(base) {}

  std::uintptr_t here() const noexcept { return base_ + code_.size(); }
  std::span<const std::uint8_t> code() const noexcept { return code_; }
  /// False when a distance did not fit; the code is of no use then.
  bool fits() const noexcept { return fits_; }
  void forget_misfit() noexcept { fits_ = true; }

  void byte(unsigned value) { code_.push_back(static_cast<std::uint8_t>(value)); }
  void bytes(std::initializer_list<unsigned> values) {
    for (const unsigned value : values) byte(value);
  }
  void bytes(std::span<const std::uint8_t> values) {
    code_.insert(code_.end(), values.begin(), values.end());
  }
  template <typename Value>
  void value(Value number) {
    std::uint8_t raw[sizeof number];
    std::memcpy(raw, &number, sizeof number);
    bytes(std::span<const std::uint8_t>(raw));
  }
  void align(std::size_t to, unsigned with) {
    while (here() % to != 0) byte(with);
  }
  /// The distance from its own end, and from `after` bytes behind that.
  void distance_to(std::uintptr_t target, std::size_t after = 0) {
    value(as_distance(target - (here() + 4 + after)));
  }

  // Instructions.
  void push(Register name) {
    if (name >= r8) byte(0x41);
    byte(0x50U + (name & 7U));
  }
  void pop(Register name) {
    if (name >= r8) byte(0x41);
    byte(0x58U + (name & 7U));
  }
  /// Moves the stack pointer, and keeps the flags.
  void add_to_stack_pointer(std::int32_t bytes_more) {
    bytes({0x48, 0x8d, 0xa4, 0x24});
    value(bytes_more);
  }
  void move(Register to, Register from) {
    bytes({0x48U | upper(from, 4) | upper(to, 1), 0x89, 0xc0U | field(from) | (to & 7U)});
  }
  void move_constant(Register to, std::uint64_t number) {
    bytes({0x48U | upper(to, 1), 0xb8U + (to & 7U)});
    value(number);
  }
  void load(Register to, Register base, std::int32_t displacement) { at_base(0x8b, to, base, displacement); }
  void store(Register from, Register base, std::int32_t displacement) {
    at_base(0x89, from, base, displacement);
  }
  /// An instruction with a 64-bit register and an operand in memory at a fixed address.
  void at_literal(unsigned opcode, Register name, std::uintptr_t literal) {
    bytes({0x48U | upper(name, 4), opcode, 0x05U | field(name)});
    distance_to(literal);
  }
  /// call and push of what lies at a fixed address, by their extension of opcode ff.
  void indirect(unsigned extension, std::uintptr_t literal) {
    bytes({0xff, 0x05U | (extension << 3)});
    distance_to(literal);
  }
  /// The sum of an operand's base, index and displacement, without its segment.
  /// \param stack_bytes by how much the stack pointer is below that of the program
  void load_address(Register to, const MemoryOperand& operand, std::int64_t stack_bytes) {
    if (operand.base == instruction_pointer) {
      const auto address = static_cast<std::uint64_t>(operand.displacement);
      move_constant(to, operand.is_address32 ? address & 0xffffffff : address);
      return;
    }
    const std::int64_t displacement = operand.displacement + (operand.base == rsp ? stack_bytes : 0);
    const bool has_base = operand.base < general_registers;
    const bool has_index = operand.index < general_registers;
    const unsigned base = has_base ? static_cast<unsigned>(operand.base) : 5U;  // with mod 00: none
    const unsigned index = has_index ? static_cast<unsigned>(operand.index) : 4U;
    unsigned scale = 0;
    while ((1U << scale) < operand.scale) ++scale;
    if (operand.is_address32) byte(0x67);
    byte(0x48U | upper(to, 4) | (index >= 8 ? 2U : 0U) | (base >= 8 ? 1U : 0U));
    bytes({0x8d, (has_base ? 0x80U : 0U) | field(to) | 4U, (scale << 6) | ((index & 7U) << 3) | (base & 7U)});
    value(as_distance(static_cast<std::uint64_t>(displacement)));
  }

  Jump jump_if(Condition condition) {
    bytes({0x0f, 0x80U | static_cast<unsigned>(condition)});
    return open();
  }
  Jump jump() {
    byte(0xe9);
    return open();
  }
  void jump_to(std::uintptr_t target) {
    byte(0xe9);
    distance_to(target);
  }
  void jump_to_if(unsigned condition, std::uintptr_t target) {
    bytes({0x0f, 0x80U | condition});
    distance_to(target);
  }
  /// Lets a jump lead here.
  void bind(Jump jump) {
    const auto distance = static_cast<std::int32_t>(code_.size() - jump.at - 4);
    std::memcpy(code_.data() + jump.at, &distance, sizeof distance);
  }

 private:
  static unsigned upper(Register name, unsigned bit) noexcept { return name >= r8 ? bit : 0U; }
  static unsigned field(Register name) noexcept { return (name & 7U) << 3; }
  void at_base(unsigned opcode, Register name, Register base, std::int32_t displacement) {
    bytes({0x48U | upper(name, 4) | upper(base, 1), opcode, 0x80U | field(name) | (base & 7U)});
    if ((base & 7) == rsp) byte(0x24);
    value(displacement);
  }
  Jump open() {
    value(std::int32_t{0});
    return {code_.size() - 4};
  }
  std::int32_t as_distance(std::uint64_t value) {
    const auto wide = static_cast<std::int64_t>(value);
    if (wide < INT32_MIN || wide > INT32_MAX) fits_ = false;
    return static_cast<std::int32_t>(wide);
  }

  std::uintptr_t base_;
  std::vector<std::uint8_t> code_;
  bool fits_ = true;
};

}  // namespace craton::posix
