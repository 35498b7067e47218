/// \file
/// What the page tables over a SegmentMemory share: what each block allows, and who is changing it.
///
///     one byte a block:  │ changing │ . . . . . │ Access │
///
/// Invariant: while `changing` is not set, the kernel allows at most what the byte says. It may allow less:
/// where the mechanism keeps its state in page table entries, memory reclaim takes them away (see
/// reinstate()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "vm/page_table.hpp"
#include "vm/process_mark.hpp"
#include "vm/segment_memory.hpp"

namespace craton::vm {

class ViewPageTable : public PageTable {
 public:
  ~ViewPageTable() override;

  std::byte* application_view() const noexcept { return memory_.application_view(); }
  const std::string& name() const noexcept { return memory_.name(); }
  /// What can be read there can be executed.
  bool holds_code() const noexcept { return memory_.holds_code(); }

  Access access(BlockIndex block) const noexcept final;
  /// The same; none while somebody changes it. Async-signal-safe.
  std::optional<Access> settled_access(BlockIndex block) const noexcept;

  /// The program was refused an access that the block allows: makes the kernel allow it again, unless
  /// somebody is changing the block. Async-signal-safe.
  virtual void reinstate(BlockIndex block) noexcept = 0;
  /// Whether SIGBUS can be an access that is not allowed. If not, it means that there is no memory.
  virtual bool faults_by_sigbus() const noexcept = 0;

 protected:
  /// \throws Error out_of_resources
  explicit ViewPageTable(const SegmentMemory& memory);

  std::byte* application_view(BlockIndex block) const noexcept {
    return application_view() + block * block_bytes();
  }
  std::size_t bytes_of(const Run& run) const noexcept { return run.count * block_bytes(); }

  /// The longest run from `first` on, at most to `end`, whose blocks allow the same.
  Run same_access(BlockIndex first, BlockIndex end) const noexcept;
  /// Says that the blocks are being changed, until settle(), and keeps reinstate() away from them.
  void begin_change(const Run& run) noexcept;
  /// The same, for mechanisms where there is nothing to keep away: without a locked instruction a block.
  void announce_change(const Run& run) noexcept;
  void settle(const Run& run, Access access) noexcept;
  /// begin_change() of one block, but gives up where somebody is changing it or nothing is allowed.
  std::optional<Access> try_begin_reinstating(BlockIndex block) noexcept;

  /// Ends the process where it is a forked child of the one that made this: what the kernel would change is
  /// the parent's memory.
  void check_process() const noexcept;

 private:
  static constexpr std::uint8_t changing = 0x80;
  static Access access_of(std::uint8_t byte) noexcept {
    return static_cast<Access>(byte & static_cast<std::uint8_t>(~changing));
  }

  const SegmentMemory& memory_;
  const ProcessMark mark_;
  std::atomic<std::uint8_t>* states_;
};

}  // namespace craton::vm
