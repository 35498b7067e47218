/// \file
/// The routines of OpenMP's runtime library: omp_*. The same for every compiler's ABI. Types of <omp.h> are
/// the integers that they are; a name with an underscore behind it is what Fortran calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "omp/icvs.hpp"
#include "omp/runtime.hpp"
#include "omp/thread.hpp"

/// A routine. src/omp/libgomp.map says which version node each belongs to.
#define CRATON_OMP extern "C" [[gnu::visibility("default")]]

namespace craton::omp::api {

/// An integer of Fortran's as a C routine takes it.
constexpr int to_int(std::int64_t value) noexcept {
  constexpr std::int64_t most = 0x7fffffff;
  return static_cast<int>(value > most ? most : value < -most - 1 ? -most - 1 : value);
}

inline Icvs& icvs() {
  return self().task->icvs;
}
/// What the user chose; the defaults before the runtime has started.
const Settings& settings();

}  // namespace craton::omp::api
