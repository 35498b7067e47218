#include "segment_rig.hpp"

#include <fstream>
#include <string>

#include "base/error.hpp"
#include "base/futex.hpp"

namespace craton::vm {

namespace {

/// At any address: an access across the border of two blocks is one of the things that happen.
using UnalignedWord [[gnu::aligned(1), gnu::may_alias]] = std::uint64_t;

}  // namespace

const char* name_of(Backend backend) noexcept {
  switch (backend) {
    case Backend::userfaultfd:
      return "userfaultfd";
    case Backend::userfaultfd_old:
      return "userfaultfd_of_linux_5_19";
    case Backend::mprotect:
      return "mprotect";
    case Backend::sim:
      return "sim";
  }
  return "";
}

std::string missing(Backend backend) {
  if (backend != Backend::userfaultfd && backend != Backend::userfaultfd_old) return {};
  return probe().why_not;
}

std::unique_ptr<Reservation> reserve(std::size_t bytes) {
  for (const std::uintptr_t base : Reservation::candidate_bases()) {
    try {
      return std::make_unique<Reservation>(base, bytes);
    } catch (const Error&) {
      if (base == Reservation::candidate_bases().back()) throw;
    }
  }
  return nullptr;
}

void AllowingHandler::fault(BlockIndex block, bool write) {
  while (held_.exchange(true, std::memory_order_acquire)) spin_pause();
  ++(write ? writes : reads);
  last_block = block;
  const Access wanted = write ? Access::write : Access::read;
  if (table->access(block) < wanted) table->set_access(block, wanted);
  held_.store(false, std::memory_order_release);
}

SegmentRig::SegmentRig(Backend backend, std::uint64_t blocks, std::size_t block_bytes, FaultHandler* handler)
    : budget_(MapBudget::kernel_limit_here()) {
  FaultHandler& used = handler != nullptr ? *handler : allowing_;
  if (backend == Backend::sim) {
    sim_memory_.resize(blocks * block_bytes / sizeof(std::uint64_t));
    sim_table_ =
        std::make_unique<SimPageTable>(reinterpret_cast<std::byte*>(sim_memory_.data()), block_bytes, blocks);
    sim_table_->set_fault_handler(used);
    table_ = sim_table_.get();
  } else {
    reservation_ = reserve(blocks * block_bytes);
    memory_ = std::make_unique<SegmentMemory>("rig", reservation_->take(blocks * block_bytes, page_bytes),
                                              block_bytes);
    Mechanisms there = probe();
    if (backend == Backend::userfaultfd_old) there.abilities = {};
    view_table_ = make_page_table(backend == Backend::mprotect ? Mechanism::mprotect : Mechanism::userfaultfd,
                                  there, *memory_, budget_);
    table_ = view_table_.get();
    caught_.emplace(*view_table_, used, 3);
  }
  allowing_.table = table_;
}

SegmentRig::~SegmentRig() = default;

std::uint64_t SegmentRig::load(std::size_t offset) {
  if (sim_table_ != nullptr) return sim_table_->load<std::uint64_t>(offset);
  return *reinterpret_cast<const volatile UnalignedWord*>(application_view() + offset);
}

void SegmentRig::store(std::size_t offset, std::uint64_t value) {
  if (sim_table_ != nullptr) {
    sim_table_->store(offset, value);
  } else {
    *reinterpret_cast<volatile UnalignedWord*>(application_view() + offset) = value;
  }
}

std::uint64_t& SegmentRig::word(std::size_t offset) {
  return *reinterpret_cast<std::uint64_t*>(table_->system_view() + offset);
}

std::size_t count_maps() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

}  // namespace craton::vm
