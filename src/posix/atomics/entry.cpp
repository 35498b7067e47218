#include "posix/atomics/entry.hpp"

#include <cpuid.h>

#include <bit>
#include <cerrno>
#include <cstddef>

#include "base/error.hpp"

extern "C" {
/// What XSAVE saves, and how many bytes that takes: read by the code below.
[[gnu::visibility("hidden")]] std::uint64_t craton_atomics_state_mask = 0;
[[gnu::visibility("hidden")]] std::uint64_t craton_atomics_state_bytes = 0;
[[gnu::visibility("hidden")]] void craton_atomics_enter_xsave() noexcept;
[[gnu::visibility("hidden")]] void craton_atomics_enter_xsavec() noexcept;
[[gnu::visibility("hidden")]] void craton_atomics_serve(craton::posix::Registers* registers,
                                                        const craton::posix::SiteRecord* site) noexcept;
}

// The stack, from the registers up: Registers, return address, site, red zone, what the program has.
// Backtraces end here, since code made for sites has no unwind tables.
__asm__(R"(
  .macro CRATON_ATOMICS_ENTER name, save
  .pushsection .text
  .hidden \name
  .type \name,@function
  .p2align 4
\name:
  .cfi_startproc
  .cfi_undefined %rip
  endbr64
  pushfq
  pushq %r15
  pushq %r14
  pushq %r13
  pushq %r12
  pushq %r11
  pushq %r10
  pushq %r9
  pushq %r8
  pushq %rdi
  pushq %rsi
  pushq %rbp
  pushq %rsp
  pushq %rbx
  pushq %rdx
  pushq %rcx
  pushq %rax
  cld
  leaq 280(%rsp), %rax
  movq %rax, 32(%rsp)
  movq %rsp, %rbx
  movq %rsp, %rdi
  movq 144(%rsp), %rsi
  subq craton_atomics_state_bytes(%rip), %rsp
  andq $-64, %rsp
  xorl %eax, %eax  # the header: XSAVE does not write all of it
  movq %rax, 512(%rsp)
  movq %rax, 520(%rsp)
  movq %rax, 528(%rsp)
  movq %rax, 536(%rsp)
  movq %rax, 544(%rsp)
  movq %rax, 552(%rsp)
  movq %rax, 560(%rsp)
  movq %rax, 568(%rsp)
  movl craton_atomics_state_mask(%rip), %eax
  movl 4+craton_atomics_state_mask(%rip), %edx
  \save (%rsp)
  testb $1, 512(%rsp)  # x87 and MMX registers are in use: a function expects an empty stack of them
  jz 1f
  fninit
1:
  callq craton_atomics_serve
  movl craton_atomics_state_mask(%rip), %eax
  movl 4+craton_atomics_state_mask(%rip), %edx
  xrstor64 (%rsp)
  movq %rbx, %rsp
  popq %rax
  popq %rcx
  popq %rdx
  popq %rbx
  leaq 8(%rsp), %rsp
  popq %rbp
  popq %rsi
  popq %rdi
  popq %r8
  popq %r9
  popq %r10
  popq %r11
  popq %r12
  popq %r13
  popq %r14
  popq %r15
  popfq
  ret
  .cfi_endproc
  .size \name,.-\name
  .popsection
  .endm
  CRATON_ATOMICS_ENTER craton_atomics_enter_xsave, xsave64
  CRATON_ATOMICS_ENTER craton_atomics_enter_xsavec, xsavec64
)");
static_assert(offsetof(craton::posix::Registers, flags) == 128);

void craton_atomics_serve(craton::posix::Registers* registers,
                          const craton::posix::SiteRecord* site) noexcept {
  using craton::posix::SiteKind;
  const int error = errno;
  if (site->kind == SiteKind::flush) {
    site->shared->hooks.flush();
  } else if (site->kind == SiteKind::look) {
    craton::posix::serve_look(*site, *registers);
  } else {
    craton::posix::serve_atomic(*site, *registers);
  }
  errno = error;
}

namespace craton::posix {
namespace {

// Components of the extended state that the ABI lets functions change.
constexpr std::uint64_t state_legacy = 0x3;    // x87, SSE
constexpr std::uint64_t state_vectors = 0xe4;  // AVX; masks, upper halves and upper registers of AVX-512
constexpr std::uint64_t state_more_general = std::uint64_t{1} << 19;  // r16 to r31 of APX

std::uint64_t enabled_state() noexcept {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

struct Leaf {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Leaf leaf(std::uint32_t number, std::uint32_t part) noexcept {
  Leaf read;
  __cpuid_count(number, part, read.eax, read.ebx, read.ecx, read.edx);
  return read;
}

constexpr std::uint32_t leaf_of_state = 0xd;

/// In the compacted form components follow each other, in the standard form each has its place.
std::uint64_t bytes_of_state(std::uint64_t mask, bool is_compacted) noexcept {
  constexpr std::uint64_t legacy_bytes = 512 + 64;
  std::uint64_t bytes = legacy_bytes;
  for (std::uint32_t i = 2; i < 63; ++i) {
    if ((mask >> i & 1) == 0) continue;
    const Leaf component = leaf(leaf_of_state, i);
    const bool is_aligned = (component.ecx & 2) != 0;
    std::uint64_t begin = component.ebx;
    if (is_compacted) begin = is_aligned ? (bytes + 63) / 64 * 64 : bytes;
    bytes = std::max(bytes, begin + component.eax);
  }
  return bytes;
}

}  // namespace

const void* entry_for_sites() {
  const Leaf features = leaf(1, 0);
  constexpr std::uint32_t osxsave = 1U << 27;
  if ((features.ecx & osxsave) == 0) {
    throw Error(ErrorCode::not_supported,
                {.asked = "cannot send atomic instructions to software",
                 .happened = "the processor or the system has no XSAVE, which keeps the vector registers",
                 .limit = "grep xsave /proc/cpuinfo",
                 .remedy = "use another machine"});
  }
  const std::uint64_t mask = enabled_state() & (state_legacy | state_vectors | state_more_general);
  const bool is_compacted = (leaf(leaf_of_state, 1).eax & 2) != 0;
  craton_atomics_state_mask = mask;
  craton_atomics_state_bytes = bytes_of_state(mask, is_compacted);
  return reinterpret_cast<const void*>(is_compacted ? craton_atomics_enter_xsavec
                                                    : craton_atomics_enter_xsave);
}

namespace {

std::uint64_t turn_of(const SiteRecord& site, const Registers& registers) noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  std::uint64_t turn = site.address;
  for (const std::uint64_t value : registers.general) turn = (std::rotl(turn, 29) ^ value) * odd;
  return turn;
}

}  // namespace

void serve_look(const SiteRecord& site, Registers& registers) noexcept {
  const std::uintptr_t address = address_of(site.operand, registers);
  auto* const target = reinterpret_cast<void*>(address);
  PerformState state{.before = registers, .after = registers};
  if (site.shared->find(address) != nullptr) {
    const Look look{.address = target,
                    .bytes = site.operand.bytes,
                    .is_patient = site.is_patient,
                    .turn = turn_of(site, registers)};
    site.shared->hooks.look(look, site.perform, &state);
  } else if (site.perform != nullptr) {
    site.perform(&state, target);
  }
  registers = state.after;
}

void serve_atomic(const SiteRecord& site, Registers& registers) noexcept {
  const std::uintptr_t address = address_of(site.operand, registers);
  auto* const target = reinterpret_cast<void*>(address);
  PerformState state{.before = registers, .after = registers};
  if (!site.shared->needs_hook(address, site.operand.bytes)) {
    site.perform(&state, target);
  } else if (site.reduction.way == Reduction::Way::none || !put_off(site, state, target)) {
    site.shared->hooks.for_operation(site.is_exchange)(target, site.operand.bytes, site.perform, &state);
  }
  registers = state.after;
}

}  // namespace craton::posix
