/// \file
/// Which instructions of an object are overwritten by what: decided before a byte is changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "posix/atomics/branch_targets.hpp"
#include "posix/atomics/code_map.hpp"
#include "posix/atomics/instruction.hpp"
#include "posix/atomics/looks.hpp"
#include "posix/atomics/shared_memory.hpp"

namespace craton::posix {

inline constexpr std::size_t jump_bytes = 5;

/// A run of instructions that a jump replaces, sites among them.
struct Run {
  std::vector<Instruction> instructions;
  std::uintptr_t end = 0;  ///< of what is overwritten: filler behind a function may be part of it
};

struct PatchPlan {
  /// A site that traps. The reason is for whoever reads the report.
  struct Trap {
    Instruction instruction;
    const char* why;
  };

  std::vector<Run> runs;
  std::vector<Trap> traps;
  std::vector<Trap> untouched;                 ///< also where code could not be read: `why` tells
  std::vector<std::uintptr_t> loads_to_store;  ///< see PatchReport
  std::size_t read_bytes = 0;
  std::size_t unread_bytes = 0;  ///< see PatchReport
};

/// Reads only.
class Planner {
 public:
  /// \param threads that read at a time
  Planner(const CodeMap& map, const SharedMemory& shared, unsigned threads)
      : map_(map), shared_(shared), threads_(threads), look_finder_(map, shared.pauses), targets_(map) {}
  PatchPlan make();

 private:
  /// A function that has sites, or cannot be read.
  struct Found {
    std::size_t index;
    std::vector<SupposedLook> looks;
  };

  std::vector<Found> find_functions();
  void plan_function(const Found& found);
  void look_between_functions(const CodeMap::Segment& segment);
  void look_at(const AddressRange& range, bool holds_data);
  void find_entries_inside(const std::vector<Instruction>& all);
  bool is_entered_inside(std::uintptr_t begin, std::uintptr_t end) const noexcept;
  void plan_site(const AddressRange& function, const std::vector<Instruction>& all, std::size_t at,
                 std::size_t first_free, std::uintptr_t limit);
  void find_load(const std::vector<Instruction>& all, std::size_t at, const Site& site);
  bool try_run(const AddressRange& function, const std::vector<Instruction>& all, std::size_t first,
               std::size_t site, std::uintptr_t limit);
  const BranchTargets& targets();

  const CodeMap& map_;
  const SharedMemory& shared_;
  const unsigned threads_;
  const LookFinder look_finder_;
  BranchTargets targets_;
  bool has_targets_ = false;                    // it is finished: when a site is too short for a jump
  std::vector<std::uintptr_t> entries_inside_;  // instructions of the function that is being planned
  PatchPlan plan_;
};

}  // namespace craton::posix
