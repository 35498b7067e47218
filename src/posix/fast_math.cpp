#include "posix/fast_math.hpp"

#include <dlfcn.h>
#include <link.h>
#include <xmmintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace craton::posix {

namespace {

/// What the constructor of crtfastmath.o sets in the control register; 0 for any other function. That one is:
///     [endbr64]   stmxcsr d(%rsp)   orl $bits, d(%rsp)   ldmxcsr d(%rsp)   ret
std::uint32_t bits_that_are_set_by(const unsigned char* code) noexcept {
  constexpr unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr unsigned char store[] = {0x0f, 0xae, 0x5c, 0x24};
  constexpr unsigned char change[] = {0x81, 0x4c, 0x24};
  constexpr unsigned char load[] = {0x0f, 0xae, 0x54, 0x24};
  constexpr unsigned char leave = 0xc3;
  const auto take = [&code](const auto& expected) {
    if (std::memcmp(code, expected, sizeof expected) != 0) return false;
    code += sizeof expected;
    return true;
  };
  static_cast<void>(take(landing));
  if (!take(store)) return 0;
  const unsigned char distance = *code++;
  if (!take(change) || *code++ != distance) return 0;
  std::uint32_t bits = 0;
  std::memcpy(&bits, code, sizeof bits);
  code += sizeof bits;
  return take(load) && *code++ == distance && *code == leave ? bits : 0;
}

}  // namespace

void follow_fast_math() noexcept {
  void* const executable = ::dlopen(nullptr, RTLD_LAZY);
  if (executable == nullptr) return;
  const auto& map = *static_cast<const link_map*>(executable);
  std::uintptr_t constructors = 0;
  std::size_t bytes = 0;
  for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_INIT_ARRAY) constructors = map.l_addr + entry->d_un.d_ptr;
    if (entry->d_tag == DT_INIT_ARRAYSZ) bytes = entry->d_un.d_val;
  }
  for (std::size_t at = 0; constructors != 0 && at < bytes; at += sizeof(void*)) {
    const unsigned char* code = nullptr;
    std::memcpy(&code, reinterpret_cast<const void*>(constructors + at), sizeof code);
    if (code != nullptr) _mm_setcsr(_mm_getcsr() | bits_that_are_set_by(code));
  }
  ::dlclose(executable);
}

}  // namespace craton::posix
