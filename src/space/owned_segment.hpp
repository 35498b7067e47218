/// \file
/// Memory of which each rank has a part of its own, for stacks: an owner uses its part without any protocol,
/// so that nothing there ever faults, for it or for the kernel; the other ranks use copies from one acquire
/// to the next.
///
///     │ part of rank 0 │ part of rank 1 │ part of rank 2 │    the same addresses on all ranks
///       own              neighbour's      copies              as rank 0 sees it
///
/// Neighbours (ranks of the same node) map the owner's memory itself. Others fetch blocks from it when they
/// fault; a release puts the bytes that differ from a block's twin there; an acquire drops the copies, or
/// fetches those again that were used lately. So the owner's memory is the home, and it has all that was
/// released.
///
/// Why not the protocol of lease_release.hpp: a stack changes with every call. It would be in the notices of
/// every barrier, and the protocol's code, which runs on that stack, could fault there with its own locks
/// held.
///
/// Threads: any thread of the rank. fault() runs inside a signal handler. Source: openmp.md, section 3.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "coherence/block.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"
#include "fiber/fiber.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/map_budget.hpp"
#include "vm/mechanism.hpp"
#include "vm/reservation.hpp"
#include "vm/segment_memory.hpp"

namespace craton::space {

class OwnedSegment final : public coherence::FenceListener {
 public:
  /// All zero bytes at first. Collective; blocks. \param part_bytes of each rank, whole pages \throws Error
  OwnedSegment(fabric::Fabric& fabric, const std::string& name, vm::AddressRange range,
               std::size_t part_bytes, fabric::RegionId region, vm::Mechanism mechanism,
               const vm::Mechanisms& mechanisms, vm::MapBudget& budget, vm::Contents contents);
  ~OwnedSegment() override;
  /// Collective. \throws Error peer_lost
  void close();

  std::byte* data() const noexcept { return memory_.application_view(); }
  static constexpr std::size_t block_bytes = 4096;
  std::size_t bytes() const noexcept { return memory_.bytes(); }
  std::byte* part(fabric::Rank rank) const noexcept { return data() + rank * part_bytes_; }
  std::size_t part_bytes() const noexcept { return part_bytes_; }
  bool contains(const void* address) const noexcept {
    return address >= data() && address < data() + bytes();
  }

  /// Whether the processor's own atomic instructions are right there: in the own part, or a neighbour's.
  bool is_mapped(const void* address) const noexcept;
  fabric::Rank owner_of(const void* address) const noexcept {
    return static_cast<fabric::Rank>(
        static_cast<std::size_t>(static_cast<const std::byte*>(address) - data()) / part_bytes_);
  }

  /// What says why an access to a page is refused that the owner of a part has closed (mprotect), below a
  /// stack for one: it ends the process (vm::refuse_fault). Runs inside a fault handler of the owner.
  using ClosedPageHandler = void (*)(void* context, const std::byte* page) noexcept;
  /// Once, before any page is closed.
  void set_closed_page_handler(ClosedPageHandler handler, void* context) noexcept {
    closed_page_handler_ = handler;
    closed_page_context_ = context;
  }

  /// Runs `instruction` atomically with all others on a word, and orders nothing else (owned_atomics.hpp).
  /// Where the word is another node's, or network cards do the atomics of the job, `instruction` gets a copy,
  /// perhaps several times, and the result is exchanged for what was there. Blocks.
  /// \param bytes 1 to 8, in one aligned word of 8; others at an owner or neighbour only, and not with such
  /// cards
  /// \throws Error not_supported, peer_lost
  void run_atomic(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction);

  // coherence::FenceListener
  bool has_writes() const noexcept override { return dirty_.load(std::memory_order_acquire) != 0; }
  void before_release() override;
  void after_acquire(FunctionRef<void()> meanwhile) override;

 private:
  /// A block of another node's part. All zero bytes at first.
  struct Copy {
    vm::Access access;        ///< none: there is no copy
    std::uint32_t trust;      ///< how often it is refreshed before it is dropped, to see whether it is used
    std::uint32_t refreshes;  ///< since it was last seen used
  };
  class Faults final : public vm::FaultHandler {
   public:
    explicit Faults(OwnedSegment& segment) : segment_(segment) {}
    void fault(vm::BlockIndex block, bool write) override;

   private:
    OwnedSegment& segment_;
  };

  void map_parts();
  void open(std::uint64_t block, bool write);
  void put_writes();
  void drop(std::uint64_t block);
  void wait(fabric::Completion& completion);
  fabric::Rank owner(std::uint64_t block) const noexcept {
    return static_cast<fabric::Rank>(block * block_bytes / part_bytes_);
  }
  std::byte* copy_of(std::uint64_t block) const noexcept {
    return memory_.system_view() + block * block_bytes;
  }
  std::byte* twin_of(std::uint64_t block) const noexcept { return twins_.data() + block * block_bytes; }

  fabric::Fabric& fabric_;
  const std::size_t part_bytes_;
  const fabric::RegionId region_;
  const bool processors_do_atomics_;  ///< else the network does, of all words on all ranks
  ClosedPageHandler closed_page_handler_ = nullptr;
  void* closed_page_context_ = nullptr;
  vm::SegmentMemory memory_;
  fabric::RegionMemory twins_;
  std::unique_ptr<vm::ViewPageTable> pages_;
  Faults faults_{*this};
  vm::CaughtSegment caught_;

  fiber::Mutex lock_;  ///< of all below
  coherence::ZeroedArray<Copy> copies_;
  std::vector<std::uint64_t> cached_;  ///< blocks with a copy
  std::atomic<std::size_t> cached_count_{0};
  std::atomic<std::size_t> dirty_{0};  ///< copies that may be written
};

}  // namespace craton::space
