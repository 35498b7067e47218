/// \file
/// Units of Fortran's library (libgfortran), which are of one process each: its files, positions and buffers.
///
/// The program believes that what one thread opens all can use. On another rank the library would make a file
/// of its own of such a unit, fort.20 say, without a word: so that ends the job with one, which names the
/// statement. To know, each rank tells the others what it opens and closes, by number. Numbers that the
/// library chooses itself (NEWUNIT) say whose they are:
///
///     -10, -11, ... rank 0 │ that - 2^20: rank 1 │ that - 2 * 2^20: rank 2 │ ...
///
/// Standard input (unit 5) is read on rank 0, since the library reads ahead. Units 0 and 6 are each rank's
/// own, and right, as long as nobody opens them.
///
/// Statements come with a structure on the caller's stack; of its ABI, that of GCC 8 and later, this uses the
/// head and where NEWUNIT's address is. Threads: any of the program.
#pragma once

#include "fabric/types.hpp"

namespace craton::posix {

/// A unit that a rank has opened, or closed.
struct UnitChange {
  int unit;
  fabric::Rank rank;
};

/// What others do for Everywhere::Kind::unit_opened and unit_closed.
void unit_opened_as_told(const UnitChange& change) noexcept;
void unit_closed_as_told(const UnitChange& change) noexcept;

}  // namespace craton::posix
