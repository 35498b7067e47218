/// \file
/// Who may touch which block of a segment in this process: the application view of a segment, block by block.
/// Knows nothing of who owns a block or why its access changes.
///
/// A segment's bytes lie in a memfd that is mapped twice (DESIGN, decision 1). The *system view* is always
/// readable and writable; the runtime and the fabric use it. The *application view* is what the program uses;
/// a PageTable decides what it may do there. A touch that is not allowed becomes a call of a FaultHandler.
///
///     program ──▶ application view ──(allowed)──▶ bytes of the memfd ◀── system view ◀── runtime, fabric
///                        │
///                        └─(not allowed)──▶ FaultHandler::fault(block, write) ──▶ set_access ──▶ try again
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace craton::vm {

/// What the application view allows. A write implies a read.
enum class Access : std::uint8_t { none, read, write };

using BlockIndex = std::uint64_t;

/// Consecutive blocks of a segment.
struct Run {
  BlockIndex first;
  std::uint64_t count;
};

/// The blocks of one segment. Calls for different blocks may run at the same time on different threads; those
/// for one block take turns (the caller sees to it).
class PageTable {
 public:
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  virtual ~PageTable() = default;

  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::uint64_t blocks() const noexcept { return blocks_; }
  std::size_t bytes() const noexcept { return blocks_ * block_bytes_; }
  /// First byte of the system view.
  std::byte* system_view() const noexcept { return system_view_; }
  std::byte* system_view(BlockIndex block) const noexcept { return system_view_ + block * block_bytes_; }

  /// Allows exactly `access` on all blocks of the runs, which are sorted and do not touch each other. When it
  /// returns, no thread of this process can do more than that any more, and all that threads wrote through
  /// the application view before is in the system view. Costs one system call for all runs where the
  /// mechanism can, else one a run. Async-signal-safe. Does not block.
  virtual void set_access(std::span<const Run> runs, Access access) = 0;
  void set_access(BlockIndex block, Access access) {
    const Run run{.first = block, .count = 1};
    set_access({&run, 1}, access);
  }
  /// What set_access said last; at first none.
  virtual Access access(BlockIndex block) const noexcept = 0;

 protected:
  PageTable(std::byte* system_view, std::size_t block_bytes, std::uint64_t blocks) noexcept
      : system_view_(system_view), block_bytes_(block_bytes), blocks_(blocks) {}

 private:
  std::byte* const system_view_;
  const std::size_t block_bytes_;
  const std::uint64_t blocks_;
};

/// Who makes a block accessible when the program touches it.
class FaultHandler {
 public:
  virtual ~FaultHandler() = default;
  /// A thread of the program touched a block that it may not touch so. Runs on that thread, inside a signal
  /// handler; may block. When it returns, the access is tried again. May be called for an access that has
  /// become allowed meanwhile, and by several threads for one block at the same time.
  virtual void fault(BlockIndex block, bool write) = 0;
};

}  // namespace craton::vm
