/// \file
/// Entry points of GCC's ABI (libgomp, GCC 12). Their names and arguments are given by the compiler.
#pragma once

#include <cstdint>

#include "omp/constructs.hpp"

/// An entry point. src/omp/libgomp.map says which version node each belongs to.
#define CRATON_GOMP extern "C" [[gnu::visibility("default")]]

namespace craton::omp::gomp {

using Function = void (*)(void*);

/// The schedule that an argument of GOMP_loop_start and its like says. What is automatic elsewhere is
/// `nonmonotonic: runtime` there.
inline Schedule schedule_of(long argument) noexcept {
  const auto schedule = static_cast<Schedule>(static_cast<std::uint32_t>(argument) & ~monotonic_bit);
  return schedule == Schedule::automatic ? Schedule::runtime : schedule;
}
/// Memory that all threads of a work share have, zero at first. \param memory null: none is wanted; points
/// to its size, and gets its address
inline void give_memory(void** memory) {
  if (memory == nullptr) return;
  *memory = shared_memory(reinterpret_cast<std::uintptr_t>(*memory));
}

}  // namespace craton::omp::gomp
