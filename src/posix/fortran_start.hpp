/// \file
/// What a Fortran program's main tells its library (libgfortran) first of all: the arguments, and what it was
/// compiled with. Other ranks have no main, so theirs is told the same.
#pragma once

#include <array>
#include <cstddef>

namespace craton::posix {

/// Of Everywhere::Kind::fortran.
struct FortranChange {
  enum class What : int { arguments, options, convert, record_marker, subrecord_bytes };
  static constexpr std::size_t values_most = 16;

  What what;
  int count;  ///< of values
  std::array<int, values_most> values;
};

/// Before the program starts, on each rank, with its arguments: finds the library, if there is one.
void find_fortran_library(int argc, char** argv) noexcept;
/// What the others do. \returns true
bool set_fortran_as_told(const FortranChange& change) noexcept;

}  // namespace craton::posix
