/// \file
/// How a thread's floating-point arithmetic rounds, whether it flushes to zero, and which exceptions trap:
/// the control bits of MXCSR and the x87 control word. Threads take them over from the one that makes them.
/// x86-64.
#pragma once

#include <xmmintrin.h>

#include <cstdint>

namespace craton::omp {

/// Of the calling thread.
inline std::uint32_t float_control() noexcept {
  constexpr std::uint32_t exceptions_seen = 0x3f;
  std::uint16_t x87 = 0;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (_mm_getcsr() & ~exceptions_seen & 0xffffU) | std::uint32_t{x87} << 16U;
}

/// For the calling thread, from now on; 0: as it is. Forgets the exceptions that it has seen, which would
/// trap.
inline void take_float_control(std::uint32_t control) noexcept {
  if (control == 0 || control == float_control()) return;
  const auto x87 = static_cast<std::uint16_t>(control >> 16U);
  _mm_setcsr(control & 0xffffU);
  __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(x87));
}

}  // namespace craton::omp
