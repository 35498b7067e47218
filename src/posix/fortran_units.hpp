/// \file
/// Units of Fortran's library (libgfortran), which are of one process each: its files, positions and buffers.
///
/// The program believes that what one thread opens all can use. On another rank the library would make a file
/// of its own of such a unit, fort.20 say, without a word. So what is written there with a format, or by a
/// list, goes to a scratch file of the thread's first, and its text from there to the rank that has the unit
/// (forwarding.hpp), when the statement ends. All else ends the job with a line that names the statement:
/// reading, unformatted and direct access, and writing to units that were opened with modes which change what
/// is written (DELIM, DECIMAL and so on), since the scratch file has none.
///
/// To know, each rank tells the others what it opens and closes, by number. Numbers that the library chooses
/// itself (NEWUNIT) say whose they are:
///
///     -10, -11, ... rank 0 │ that - 2^20: rank 1 │ that - 2 * 2^20: rank 2 │ ...
///
/// Standard input (unit 5) is read on rank 0, since the library reads ahead. Units 0 and 6 are each rank's
/// own, and right, as long as nobody opens them.
///
/// Statements come with a structure on the caller's stack; of its ABI, that of GCC 8 and later, this uses the
/// head, and a few places beyond. Threads: any of the program. Blocks as the statement would.
#pragma once

#include <optional>
#include <string_view>

#include "fabric/types.hpp"

namespace craton::posix {

/// A unit that a rank has opened, or closed.
struct UnitChange {
  int unit;
  fabric::Rank rank;
};

/// Writes text to a unit of this process's, where another rank has asked for it: records with a line's end
/// behind each, but perhaps the last. \param unit the program's number \returns 0 or the library's error
/// number (IOSTAT); nothing if that unit cannot be written so
std::optional<int> write_to_unit(int unit, std::string_view text);

/// What others do for Everywhere::Kind::unit_opened and unit_closed.
void unit_opened_as_told(const UnitChange& change) noexcept;
void unit_closed_as_told(const UnitChange& change) noexcept;

}  // namespace craton::posix
