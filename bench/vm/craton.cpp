#include "base/error.hpp"
#include "vm/fault_dispatcher.hpp"
#include "vm/reservation.hpp"
#include "vm/thread_scope.hpp"
#include "vm/vm.hpp"

namespace craton::bench {
namespace {

class Allow final : public vm::FaultHandler {
 public:
  explicit Allow(vm::PageTable& table) noexcept : table_(table) {}
  void fault(vm::BlockIndex block, bool write) override {
    table_.set_access(block, write ? vm::Access::write : vm::Access::read);
  }

 private:
  vm::PageTable& table_;
};

std::unique_ptr<vm::Reservation> reserve(std::size_t bytes) {
  for (const std::uintptr_t base : vm::Reservation::candidate_bases()) {
    try {
      return std::make_unique<vm::Reservation>(base, bytes);
    } catch (const Error&) {
      if (base == vm::Reservation::candidate_bases().back()) throw;
    }
  }
  return nullptr;
}

class CratonProtection final : public Protection {
 public:
  explicit CratonProtection(vm::Mechanism mechanism)
      : budget_(vm::MapBudget::kernel_limit_here()),
        reservation_(reserve(vm_blocks * 4096)),
        memory_("bench", reservation_->take(vm_blocks * 4096, 4096), 4096),
        table_(vm::make_page_table(mechanism, vm::probe(), memory_, budget_)),
        allow_(*table_),
        caught_(*table_, allow_) {
    for (std::uint64_t block = 0; block < vm_blocks; ++block) *table_->system_view(block) = std::byte{1};
  }
  std::byte* view() const noexcept override { return memory_.application_view(); }
  void set_access(std::span<const vm::Run> runs, vm::Access access) override {
    table_->set_access(runs, access);
  }

 private:
  const vm::ThreadScope scope_;
  vm::MapBudget budget_;
  std::unique_ptr<vm::Reservation> reservation_;
  vm::SegmentMemory memory_;
  std::unique_ptr<vm::ViewPageTable> table_;
  Allow allow_;
  vm::CaughtSegment caught_;
};

}  // namespace

std::unique_ptr<Protection> make_craton(vm::Mechanism mechanism) {
  return std::make_unique<CratonProtection>(mechanism);
}

}  // namespace craton::bench
