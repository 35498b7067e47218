/// \file
/// What is code in a loaded ELF object and where its functions are: the exception-handling tables tell, which
/// compilers emit for C, C++ and Fortran alike and which strip leaves in place.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace craton::posix {

struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  bool holds(std::uintptr_t address) const noexcept { return begin <= address && address < end; }
};

struct CodeMap {
  struct Segment : AddressRange {
    int protection = 0;       ///< PROT_ bits
    bool holds_data = false;  ///< headers and tables of the object as well: older linkers do so
  };

  std::string name;
  AddressRange image;                        ///< from its first to its last byte
  std::vector<Segment> code;                 ///< the executable segments
  std::vector<AddressRange> data;            ///< all that can be read, executable or not
  std::vector<AddressRange> functions;       ///< sorted and disjoint; no other code is changed
  std::vector<std::uintptr_t> landing_pads;  ///< where exceptions enter functions
  std::string problem;                       ///< why functions may be missing; empty if none

  /// The function that holds an address; null if there is none.
  const AddressRange* function_at(std::uintptr_t address) const noexcept;
};

/// Of an object that dl_iterate_phdr shows.
CodeMap code_map_of(const dl_phdr_info& object);
/// Of the loaded object that holds an address; none if no object does.
std::optional<CodeMap> code_map_at(const void* address);

}  // namespace craton::posix
