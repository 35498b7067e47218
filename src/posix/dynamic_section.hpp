/// \file
/// What a loaded object tells the loader. Any thread; valid while the object is loaded.
#pragma once

#include <link.h>

#include <span>
#include <string_view>
#include <vector>

namespace craton::posix {

/// As the loader calls it.
using Initialiser = void (*)(int argc, char** argv, char** environment);

struct DynamicSection {
  explicit DynamicSection(const dl_phdr_info& info);

  std::string_view name;                 ///< by which others need it; empty: none
  std::vector<std::string_view> needed;  ///< libraries, in order
  std::span<Initialiser> initialisers;   ///< usually read-only after relocation
  bool wants_to_be_first = false;        ///< DF_1_INITFIRST
};

}  // namespace craton::posix
