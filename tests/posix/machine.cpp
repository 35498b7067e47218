#include "machine.hpp"

#include <cpuid.h>
#include <fmt/format.h>

#include <cstring>

extern "C" {
/// What the code below reads and writes: registers before, registers after, stack, code.
struct CratonTestMachine {
  craton::posix::Registers before;
  craton::posix::Registers after;
  std::uint64_t stack;
  std::uint64_t code;
  std::uint64_t mask;
  craton::posix::VectorState* vectors_before;
  craton::posix::VectorState* vectors_after;
};
[[gnu::visibility("hidden")]] CratonTestMachine craton_test_machine;
[[gnu::visibility("hidden")]] void craton_test_run() noexcept;
[[gnu::visibility("hidden")]] void craton_test_exit() noexcept;
}

__asm__(R"(
  .macro CRATON_TEST_LOAD number, name
  movq \number*8+craton_test_machine(%rip), %\name
  .endm
  .macro CRATON_TEST_STORE number, name
  movq %\name, 136+\number*8+craton_test_machine(%rip)
  .endm
  .pushsection .text
  .hidden craton_test_run
  .hidden craton_test_exit
  .type craton_test_run,@function
  .type craton_test_exit,@function
craton_test_run:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, 272+craton_test_machine(%rip)
  movl 288+craton_test_machine(%rip), %eax
  xorl %edx, %edx
  movq 296+craton_test_machine(%rip), %rcx
  xrstor64 (%rcx)
  pushq 128+craton_test_machine(%rip)
  popfq
  CRATON_TEST_LOAD 0, rax
  CRATON_TEST_LOAD 1, rcx
  CRATON_TEST_LOAD 2, rdx
  CRATON_TEST_LOAD 3, rbx
  CRATON_TEST_LOAD 4, rsp
  CRATON_TEST_LOAD 5, rbp
  CRATON_TEST_LOAD 6, rsi
  CRATON_TEST_LOAD 7, rdi
  CRATON_TEST_LOAD 8, r8
  CRATON_TEST_LOAD 9, r9
  CRATON_TEST_LOAD 10, r10
  CRATON_TEST_LOAD 11, r11
  CRATON_TEST_LOAD 12, r12
  CRATON_TEST_LOAD 13, r13
  CRATON_TEST_LOAD 14, r14
  CRATON_TEST_LOAD 15, r15
  jmpq *280+craton_test_machine(%rip)
craton_test_exit:
  endbr64
  CRATON_TEST_STORE 0, rax
  CRATON_TEST_STORE 1, rcx
  CRATON_TEST_STORE 2, rdx
  CRATON_TEST_STORE 3, rbx
  CRATON_TEST_STORE 4, rsp
  CRATON_TEST_STORE 5, rbp
  CRATON_TEST_STORE 6, rsi
  CRATON_TEST_STORE 7, rdi
  CRATON_TEST_STORE 8, r8
  CRATON_TEST_STORE 9, r9
  CRATON_TEST_STORE 10, r10
  CRATON_TEST_STORE 11, r11
  CRATON_TEST_STORE 12, r12
  CRATON_TEST_STORE 13, r13
  CRATON_TEST_STORE 14, r14
  CRATON_TEST_STORE 15, r15
  movq 272+craton_test_machine(%rip), %rsp
  pushfq
  popq 264+craton_test_machine(%rip)
  cld
  movl 288+craton_test_machine(%rip), %eax
  xorl %edx, %edx
  movq 304+craton_test_machine(%rip), %rcx
  xsave64 (%rcx)
  fninit
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  vzeroupper
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .popsection
)");
static_assert(offsetof(CratonTestMachine, stack) == 272);

namespace craton::posix {
namespace {

constexpr std::uint64_t vector_components = 0xe7;
constexpr std::size_t header_at = 512;

struct Component {
  std::size_t begin;
  std::size_t bytes;
};

Component component(std::uint32_t number) {
  std::uint32_t bytes = 0, begin = 0, ecx = 0, edx = 0;
  __cpuid_count(0xd, number, bytes, begin, ecx, edx);
  return {begin, bytes};
}

std::uint64_t enabled_components() {
  std::uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low & vector_components;
}

template <typename Action>
void for_each_component(Action&& action) {
  action("x87 words", Component{0, 4});
  action("MXCSR", Component{24, 4});
  action("x87 and XMM registers", Component{32, 384});
  for (std::uint32_t i = 2; i < 32; ++i)
    if ((enabled_components() >> i & 1) != 0) action("component", component(i));
}

}  // namespace

VectorState VectorState::random(std::mt19937_64& engine) {
  VectorState state;
  for_each_component([&](const char* /*name*/, Component part) {
    for (std::size_t i = 0; i < part.bytes; ++i)
      state.bytes[part.begin + i] = static_cast<std::byte>(engine());
  });
  const auto set = [&](std::size_t at, auto value) { std::memcpy(&state.bytes[at], &value, sizeof value); };
  set(0, std::uint16_t{0x27f});                         // double precision, which is not the default
  set(2, std::uint16_t{0x3000});                        // top of the stack at 6
  set(4, static_cast<std::uint16_t>(engine() & 0xff));  // registers in use
  set(24, static_cast<std::uint32_t>(0x1f80 | (engine() % 4) << 13));  // any rounding
  for (std::size_t i = 0; i < 8; ++i) std::memset(&state.bytes[32 + 16 * i + 10], 0, 6);
  set(header_at, enabled_components());
  return state;
}

std::string VectorState::difference_from(const VectorState& other) const {
  std::string found;
  for_each_component([&](const char* name, Component part) {
    for (std::size_t i = part.begin; i < part.begin + part.bytes; ++i) {
      if (bytes[i] == other.bytes[i] || !found.empty()) continue;
      found = fmt::format("{} at byte {}: {:02x} and {:02x}", name, i, static_cast<unsigned>(bytes[i]),
                          static_cast<unsigned>(other.bytes[i]));
    }
  });
  return found;
}

void Machine::run(std::uintptr_t code) {
  CratonTestMachine& machine = craton_test_machine;
  machine.before = before;
  machine.code = code;
  machine.mask = enabled_components();
  machine.vectors_before = &vectors_before;
  machine.vectors_after = &vectors_after;
  // XSAVE leaves what it does not write, and writes the bits of what it did.
  std::memset(vectors_after.bytes.data(), 0, vectors_after.bytes.size());
  craton_test_run();
  after = machine.after;
}

std::uintptr_t Machine::exit_address() {
  return reinterpret_cast<std::uintptr_t>(&craton_test_exit);
}

}  // namespace craton::posix
