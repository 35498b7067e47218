/// \file
/// Entry points of LLVM's ABI (libomp 14, and what clang 15 and 16 call beyond it). Their names and arguments
/// are given by the compiler. The number of a thread that it passes back is not looked at: a thread knows
/// itself.
#pragma once

#include <cstdint>

#include "omp/constructs.hpp"

/// An entry point. src/omp/libomp.map names them.
#define CRATON_KMPC extern "C" [[gnu::visibility("default")]]

namespace craton::omp::kmpc {

/// ident_t, which the compiler makes for each construct.
struct Location;

/// What the compiler takes as the caller's number.
inline std::int32_t number() {
  return static_cast<std::int32_t>(self().state.number);
}

}  // namespace craton::omp::kmpc
