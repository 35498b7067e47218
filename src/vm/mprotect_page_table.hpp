/// \file
/// Page table by mprotect(2) (mode M of the measurements): a block that allows nothing is PROT_NONE, and a
/// touch is SIGSEGV. Works everywhere. Page table entries stay while a block allows nothing, so opening a run
/// of blocks is cheap (0.13 us a page); but each border between different accesses is a mapping of the
/// process, of which there is a limited number.
#pragma once

#include "vm/map_budget.hpp"
#include "vm/view_page_table.hpp"

namespace craton::vm {

class MprotectPageTable final : public ViewPageTable {
 public:
  /// \param budget shared by all segments of the process
  /// \throws Error out_of_resources
  MprotectPageTable(const SegmentMemory& memory, MapBudget& budget);
  ~MprotectPageTable() override;

  using PageTable::set_access;
  /// One system call a run. \throws Error out_of_resources where the budget is used up; the runs before that
  /// one are changed then. Inside a fault handler it ends the process instead.
  void set_access(std::span<const Run> runs, Access access) override;
  /// The kernel needs no help.
  void reinstate(BlockIndex /*block*/) noexcept override {}
  bool faults_by_sigbus() const noexcept override { return false; }

  /// How many mappings the application view is. Off by a few while neighbouring blocks are changed at the
  /// same time, until the budget is short, when it is counted anew.
  std::int64_t maps() const noexcept { return maps_.load(std::memory_order_relaxed); }

 private:
  void change(const Run& run, Access access);
  std::int64_t added_maps(const Run& run, Access access) const noexcept;
  void take_maps(std::int64_t added);
  void count_anew() noexcept;

  MapBudget& budget_;
  std::atomic<std::int64_t> maps_;
};

}  // namespace craton::vm
