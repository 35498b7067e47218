/// \file
/// Where control can enter the code of an object other than from the instruction before. Needed where
/// patching one instruction overwrites its neighbours: those must not be entered.
///
/// Known are direct branches, beginnings of functions, landing pads, addresses of code that instructions name
/// or that lie in data, and jump tables. Those are found by their address, which some instruction must name:
/// a table of distances from its own beginning (what compilers make for position-independent code) or of
/// addresses. What lies at every address that is named is read as both, so that too much is taken for a
/// target rather than too little.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "posix/atomics/code_map.hpp"
#include "posix/atomics/instruction.hpp"

namespace craton::posix {

class BranchTargets {
 public:
  /// Reads all functions of the object.
  explicit BranchTargets(const CodeMap& map);

  bool is_target(std::uintptr_t address) const { return targets_.count(address) != 0; }
  /// Whether any instruction of a function may be a target: it jumps to what a register or memory says, and
  /// no table was found for it; or not all of it could be read.
  bool jumps_anywhere(const AddressRange& function) const {
    return unreadable_.count(function.begin) != 0 ||
           (indirect_.count(function.begin) != 0 && explained_.count(function.begin) == 0);
  }

 private:
  void read_function(const AddressRange& function);
  void read_data(const AddressRange& range);
  void read_table(std::uintptr_t table);
  template <typename Entry>
  void read_entries(std::uintptr_t table, std::uintptr_t end, std::uintptr_t relative_to);

  const CodeMap& map_;
  std::unordered_set<std::uintptr_t> targets_;
  std::unordered_set<std::uintptr_t> named_;      // addresses that instructions name
  std::unordered_set<std::uintptr_t> indirect_;   // functions, by where they begin
  std::unordered_set<std::uintptr_t> explained_;  // functions into which a table leads
  std::unordered_set<std::uintptr_t> unreadable_;
};

}  // namespace craton::posix
