/// \file
/// Reads .eh_frame_hdr, .eh_frame and .gcc_except_table of a loaded object: where functions begin and end,
/// and where exceptions enter them (landing pads). Formats: Linux Standard Base 5.0, chapter 10.6; the DWARF
/// encodings of pointers are in its table 10-2; the table of call sites is the Itanium C++ ABI's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "posix/atomics/code_map.hpp"

namespace craton::posix {

struct UnwindTable {
  std::vector<AddressRange> functions;  ///< in no order
  std::vector<std::uintptr_t> landing_pads;
  std::string problem;  ///< why it may not be complete; empty if none
};

/// Never throws for what it reads: what makes no sense is left out and told in `problem`.
/// \param header .eh_frame_hdr
/// \param image what is mapped; nothing outside is read
UnwindTable read_unwind_table(const AddressRange& header, const AddressRange& image);

}  // namespace craton::posix
