/// \file
/// What a loaded object tells the loader. Any thread; valid while the object is loaded.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace craton::posix {

/// As the loader calls it.
using Initialiser = void (*)(int argc, char** argv, char** environment);

struct FunctionSymbol {
  std::uintptr_t address = 0;  ///< 0: there is none
  std::size_t bytes = 0;       ///< 0: not told
};

class DynamicSection {
 public:
  explicit DynamicSection(const dl_phdr_info& info);

  std::string_view name;                 ///< by which others need it; empty: none
  std::vector<std::string_view> needed;  ///< libraries, in order
  std::span<Initialiser> initialisers;   ///< usually read-only after relocation
  bool wants_to_be_first = false;        ///< DF_1_INITFIRST

  /// What the object itself defines for others by that name, in any version.
  FunctionSymbol find_function(std::string_view wanted) const noexcept;

 private:
  /// Visits the symbols that may have the name until one has. \param has_name (index) const
  template <typename HasName>
  bool look_up(std::string_view wanted, HasName has_name) const noexcept;

  std::uintptr_t base_ = 0;
  const char* names_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const std::uint32_t* gnu_hash_ = nullptr;
  const std::uint32_t* hash_ = nullptr;
};

}  // namespace craton::posix
