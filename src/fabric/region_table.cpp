#include "fabric/region_table.hpp"

#include "base/assert.hpp"

namespace craton::fabric {

void RegionTable::publish(RegionId region, std::vector<RegionPart> parts) {
  CRATON_ASSERT(region < max_regions);
  CRATON_ASSERT(parts.size() == size_);
  const std::lock_guard lock(lock_);
  CRATON_ASSERT(owned_[region] == nullptr);
  owned_[region] = std::make_unique<std::vector<RegionPart>>(std::move(parts));
  parts_[region].store(owned_[region]->data(), std::memory_order_release);
}

void RegionTable::sever(Rank rank) noexcept {
  const std::lock_guard lock(lock_);
  for (const auto& parts : owned_) {
    if (parts == nullptr) continue;
    RegionPart& part = (*parts)[rank];
    __atomic_store_n(&part.direct, nullptr, __ATOMIC_RELAXED);
    __atomic_store_n(&part.direct_atomics, nullptr, __ATOMIC_RELAXED);
  }
}

void RegionTable::withdraw(RegionId region) noexcept {
  CRATON_ASSERT(region < max_regions);
  const std::lock_guard lock(lock_);
  parts_[region].store(nullptr, std::memory_order_release);
  owned_[region].reset();
}

}  // namespace craton::fabric
