/// \file
/// Large global variables of a program: arrays, mostly, which are best shared in larger blocks than what lies
/// between them: fewer faults, comparisons and notices, as with large allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "posix/image.hpp"

namespace craton::posix {

/// Where variables of large_variable_bytes or more lie, neighbours as one span, in order. Reads the symbol
/// table of the file. Of a file that has none, or cannot be read, there are none.
/// \param base what the loader added to the file's addresses
std::vector<AddressSpan> find_large_variables(const std::string& path, std::uintptr_t base);

/// A part of a program's data that becomes a segment.
struct DataPart {
  AddressSpan span;
  bool is_large;  ///< nothing but large variables
};

/// All of `data`, in order. Ends of large variables that are no whole block belong to their neighbours.
/// \param large_variables as find_large_variables() has them
/// \param block_bytes of the blocks of large variables
std::vector<DataPart> divide_data(const AddressSpan& data, const std::vector<AddressSpan>& large_variables,
                                  std::size_t block_bytes);

}  // namespace craton::posix
