#include "posix/atomics/registers.hpp"

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace craton::posix {
namespace {

std::uintptr_t fs_base() noexcept {
  std::uintptr_t base = 0;
  __asm__("movq %%fs:0, %0" : "=r"(base));  // the ABI of thread-local storage keeps it there
  return base;
}

std::uintptr_t gs_base() noexcept {
  std::uintptr_t base = 0;
  ::syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
  return base;
}

std::int64_t sign_extended(std::uint64_t value, std::size_t bytes) noexcept {
  const auto unused = static_cast<unsigned>(64 - 8 * bytes);
  return static_cast<std::int64_t>(value << unused) >> unused;
}

}  // namespace

std::uintptr_t address_of(const MemoryOperand& operand, const Registers& registers) noexcept {
  auto address = static_cast<std::uint64_t>(operand.displacement);
  if (operand.base < general_registers) address += registers.general[operand.base];
  if (operand.index < general_registers) address += registers.general[operand.index] * operand.scale;
  if (operand.bit_offset < general_registers) {
    const std::int64_t bits = sign_extended(registers.general[operand.bit_offset], operand.bytes);
    const std::int64_t width = 8 * operand.bytes;
    const std::int64_t word = bits >= 0 ? bits / width : -((-(bits + 1)) / width) - 1;  // rounds down
    address += static_cast<std::uint64_t>(word * operand.bytes);
  }
  if (operand.is_address32) address &= 0xffffffff;
  if (operand.segment == SegmentBase::fs) address += fs_base();
  if (operand.segment == SegmentBase::gs) address += gs_base();
  return address;
}

}  // namespace craton::posix
