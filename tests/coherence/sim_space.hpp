/// \file
/// The protocol of coherence/, and the barriers and mutexes of space/, on simulated ranks: the classes
/// themselves, over the simulated fabric and page tables that only keep account.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coherence/exclusive.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"
#include "space/barrier.hpp"
#include "space/mutexes.hpp"
#include "space/signature_board.hpp"
#include "vm/page_table.hpp"

namespace craton::coherence::test {

/// A page table that only keeps account; the program's loads and stores ask it. Where the world's times are
/// of a model, the rank's CPU is charged with faults and with taking access away.
class AccountPageTable final : public vm::PageTable {
 public:
  AccountPageTable(fabric::sim::SimFabric& fabric, std::byte* system_view, std::size_t block_bytes,
                   std::uint64_t blocks)
      : vm::PageTable(system_view, block_bytes, blocks), fabric_(fabric), access_(blocks, vm::Access::none) {}

  using vm::PageTable::set_access;
  void set_access(std::span<const vm::Run> runs, vm::Access access) override {
    for (const vm::Run& run : runs) {
      // Giving access is part of a fault.
      if (access < access_[run.first]) charge(&fabric::sim::LocalTimes::protect_ns);
      for (std::uint64_t i = 0; i < run.count; ++i) access_[run.first + i] = access;
    }
  }
  vm::Access access(vm::BlockIndex block) const noexcept override { return access_[block]; }

  /// One instruction of the program: faults until it is allowed, then copies.
  void load(vm::FaultHandler& handler, std::uint64_t offset, void* to, std::size_t bytes) {
    const vm::BlockIndex block = offset / block_bytes();
    while (access_[block] == vm::Access::none) fault(handler, block, false);
    std::memcpy(to, system_view() + offset, bytes);
  }
  void store(vm::FaultHandler& handler, std::uint64_t offset, const void* from, std::size_t bytes) {
    const vm::BlockIndex block = offset / block_bytes();
    while (access_[block] != vm::Access::write) fault(handler, block, true);
    std::memcpy(system_view() + offset, from, bytes);
  }
  /// An atomic instruction.
  void modify(vm::FaultHandler& handler, std::uint64_t offset,
              FunctionRef<void(std::byte* word)> instruction) {
    const vm::BlockIndex block = offset / block_bytes();
    while (access_[block] != vm::Access::write) fault(handler, block, true);
    instruction(system_view() + offset);
  }

 private:
  void fault(vm::FaultHandler& handler, vm::BlockIndex block, bool write) {
    charge(&fabric::sim::LocalTimes::fault_ns);
    handler.fault(block, write);
  }
  void charge(TimeNs fabric::sim::LocalTimes::*what) {
    if (const auto* const times = fabric_.local_times()) fabric_.charge(times->*what);
  }

  fabric::sim::SimFabric& fabric_;
  std::vector<vm::Access> access_;
};

struct SegmentShape {
  std::size_t block_bytes = 64;
  std::uint64_t blocks = 4;
  InitialHomes initial_homes;
  Dials dials;
};

/// A rank's segments and protocol.
class SimRank {
 public:
  /// Collective. Blocks. \param releaser null: there is none
  SimRank(fabric::sim::SimFabric& fabric, const std::vector<SegmentShape>& shapes, const SpaceDials& dials,
          unsigned threads, std::uint32_t mutexes, Releaser* releaser = nullptr);
  ~SimRank();

  fabric::sim::SimFabric& fabric() noexcept { return fabric_; }
  LeaseRelease& protocol() noexcept { return protocol_; }
  space::SignatureBoard& board() noexcept { return board_; }
  Exclusive& exclusive() noexcept { return exclusive_; }
  space::Barrier& barrier() noexcept { return barrier_; }
  space::Mutexes& mutexes() noexcept { return mutexes_; }
  void load(SegmentId segment, std::uint64_t offset, void* to, std::size_t bytes) {
    segments_[segment]->pages.load(protocol_.segment(segment), offset, to, bytes);
  }
  void store(SegmentId segment, std::uint64_t offset, const void* from, std::size_t bytes) {
    segments_[segment]->pages.store(protocol_.segment(segment), offset, from, bytes);
  }
  /// An atomic update by a call.
  void update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
              FunctionRef<void(std::byte* word)> modify) {
    protocol_.update(segment, offset, bytes, modify);
  }
  /// An atomic instruction of the program itself, where the block is strong or becomes so; else as update().
  /// \returns whether it was strong
  bool atomic(SegmentId segment, std::uint64_t offset, std::size_t bytes,
              FunctionRef<void(std::byte* word)> instruction) {
    const auto run = [&] {
      segments_[segment]->pages.modify(protocol_.segment(segment), offset, instruction);
    };
    if (exclusive_.run_atomic(segment, offset, run)) return true;
    protocol_.update(segment, offset, bytes, instruction);
    return false;
  }
  vm::Access access(SegmentId segment, std::uint64_t block) const noexcept {
    return segments_[segment]->pages.access(block);
  }
  /// Ends the service thread. Blocks.
  void stop_service();
  /// Collective, at the end.
  void close();

 private:
  struct Memory {
    Memory(fabric::sim::SimFabric& fabric, SegmentId id, const SegmentShape& shape);
    fabric::RegionMemory data, twins, words, home_bytes;
    AccountPageTable pages;
    fabric::RegionId first_region;
  };
  fabric::sim::SimFabric& fabric_;
  space::SignatureBoard board_;
  Bulletin bulletin_;
  static void start_service(void* self) noexcept;
  LeaseRelease protocol_;
  Exclusive exclusive_;
  bool serving_ = false;
  space::Barrier barrier_;
  space::Mutexes mutexes_;
  std::vector<std::unique_ptr<Memory>> segments_;
};

}  // namespace craton::coherence::test
