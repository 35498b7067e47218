/// \file
/// A segment of this process for tests, over any page table, and a FaultHandler that tells what it was called
/// for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fiber/sanitizer.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/mechanism.hpp"
#include "vm/reservation.hpp"
#include "vm/segment_memory.hpp"
#include "vm/sim/sim_page_table.hpp"

namespace craton::vm {

enum class Backend {
  userfaultfd,
  userfaultfd_old,  ///< with what Linux 5.19 has
  mprotect,
  sim,
};
const char* name_of(Backend backend) noexcept;
/// Why it cannot be tested here; empty if it can.
std::string missing(Backend backend);

/// At the first candidate base that is free.
std::unique_ptr<Reservation> reserve(std::size_t bytes);

/// Allows what is asked for, and counts. Threads take turns, as set_access demands.
class AllowingHandler : public FaultHandler {
 public:
  void fault(BlockIndex block, bool write) override;
  PageTable* table = nullptr;
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
  std::atomic<BlockIndex> last_block{0};

 private:
  std::atomic<bool> held_{false};
};

inline constexpr std::size_t page_bytes = 4096;

class SegmentRig {
 public:
  SegmentRig(Backend backend, std::uint64_t blocks, std::size_t block_bytes = page_bytes,
             FaultHandler* handler = nullptr);
  SegmentRig(const SegmentRig&) = delete;
  SegmentRig& operator=(const SegmentRig&) = delete;
  ~SegmentRig();

  PageTable& table() { return *table_; }
  /// Null for sim.
  ViewPageTable* view_table() { return view_table_.get(); }
  std::byte* application_view() { return view_table_->application_view(); }
  AllowingHandler& handler() { return allowing_; }
  int faults() { return allowing_.reads + allowing_.writes; }

  /// As an instruction of the program.
  std::uint64_t load(std::size_t offset);
  void store(std::size_t offset, std::uint64_t value);
  /// Through the system view.
  std::uint64_t& word(std::size_t offset);

 private:
  AllowingHandler allowing_;
  MapBudget budget_;
  std::unique_ptr<Reservation> reservation_;
  std::unique_ptr<SegmentMemory> memory_;
  std::vector<std::uint64_t> sim_memory_;
  std::unique_ptr<ViewPageTable> view_table_;
  std::unique_ptr<SimPageTable> sim_table_;
  std::optional<CaughtSegment> caught_;
  PageTable* table_ = nullptr;
};

/// Lines of /proc/self/maps.
std::size_t count_maps();

}  // namespace craton::vm
