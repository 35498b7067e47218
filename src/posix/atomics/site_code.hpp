/// \file
/// The code that is made for sites.
///
///     trampoline, for a run of instructions that a jump has overwritten, each in turn:
///       an atomic instruction: its address ──▶ in a shared range, and its block not native?
///           no:  the instruction itself
///           yes: entry.hpp
///       a fence: entry.hpp, then the fence itself
///       a look: the same, but one that cannot be done elsewhere comes after entry.hpp
///       any other: moved here
///     and back behind the run.
///
///     perform, a function for each instruction (Perform in shared_memory.hpp): the same instruction, with
///     its registers and flags from a PerformState and its operand elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "posix/atomics/assembler.hpp"
#include "posix/atomics/entry.hpp"
#include "posix/atomics/instruction.hpp"

namespace craton::posix {

/// An instruction in a trampoline.
struct Step {
  Instruction instruction;
  const Site* site = nullptr;  ///< null: it is only moved
  const SiteRecord* record = nullptr;
};

class SiteCode {
 public:
  /// Writes first what all sites of the object read.
  SiteCode(Assembler& code, const SharedMemory& shared, const void* entry);

  /// \returns where it begins. Not for mfence.
  std::uintptr_t add_perform(const Site& site);
  /// \param resume where the program goes on behind the last step
  /// \returns where it begins
  std::uintptr_t add_trampoline(std::span<const Step> steps, std::uintptr_t resume);
  /// For a look that traps. \returns where the instruction itself is, and then goes on
  std::uintptr_t add_continuation(const Instruction& instruction);

  /// Whether a trampoline can stand for a site; else it must trap.
  static bool can_jump(const Site& site) noexcept { return site.operand.segment != SegmentBase::gs; }

 private:
  struct RangeLiterals {
    std::uintptr_t begin, bytes, native_blocks;
    unsigned block_shift;
    bool has_native_blocks;
  };
  /// What is written behind the steps, for one of them.
  struct Aside {
    const Site* site;
    std::vector<Assembler::Jump> to_hook;
    struct Inside {
      Assembler::Jump jump;
      const RangeLiterals* range;
    };
    std::vector<Inside> inside;
    std::uintptr_t native;  ///< the instruction itself; registers are still to be restored
    std::uintptr_t
        resume;  ///< where the hook goes on: behind the instruction, or at one that is still to be done
    std::uintptr_t record;
  };

  void add_moved(const Instruction& instruction);
  void add_copy(const Instruction& instruction);
  void add_address(const Site& site);
  void add_bit_offset(const Site& site);
  Aside add_access(const Site& site, std::uintptr_t record);
  void add_restore(const Site& site);
  void add_call(std::uintptr_t record);
  void add_aside(const Aside& aside);
  void add_block_test(Register offset, const RangeLiterals& range, std::vector<Assembler::Jump>& to_hook);
  std::uintptr_t add_literal(std::uint64_t value);

  Assembler& code_;
  std::uintptr_t entry_;
  std::vector<RangeLiterals> ranges_;
};

}  // namespace craton::posix
