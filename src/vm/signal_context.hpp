/// \file
/// What the interrupted context of a signal handler tells of the access that faulted, by processor.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace craton::vm {

struct FaultingAccess {
  const void* instruction;
  bool write;
  bool executes;  ///< the instruction itself could not be fetched
};

inline FaultingAccess faulting_access(const void* context) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  // The page fault's error code: bit 1 write, bit 4 instruction fetch.
  const auto error = static_cast<std::uint64_t>(machine.gregs[REG_ERR]);
  return {.instruction = reinterpret_cast<const void*>(machine.gregs[REG_RIP]),
          .write = (error & 2U) != 0,
          .executes = (error & 16U) != 0};
#elif defined(__aarch64__)
  // The exception syndrome is in a record of the extension area. Class 0x20, 0x21: instruction abort; data
  // aborts have WnR at bit 6, which cache maintenance (bit 8) sets as well.
  constexpr std::uint32_t esr_record = 0x45535201;
  std::uint64_t syndrome = 0;
  const auto* at = reinterpret_cast<const std::byte*>(&machine.__reserved);
  const std::byte* const end = at + sizeof machine.__reserved;
  while (at + 16 <= end) {
    const auto magic = *reinterpret_cast<const std::uint32_t*>(at);
    const auto bytes = *reinterpret_cast<const std::uint32_t*>(at + 4);
    if (magic == esr_record) syndrome = *reinterpret_cast<const std::uint64_t*>(at + 8);
    if (magic == 0 || bytes == 0) break;
    at += bytes;
  }
  const std::uint64_t kind = syndrome >> 26U;
  return {.instruction = reinterpret_cast<const void*>(machine.pc),
          .write = (syndrome & (1U << 6U)) != 0 && (syndrome & (1U << 8U)) == 0,
          .executes = kind == 0x20 || kind == 0x21};
#else
#error "faulting_access is not written for this processor"
#endif
}

}  // namespace craton::vm
