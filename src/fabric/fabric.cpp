#include "fabric/fabric.hpp"

#include "base/assert.hpp"

namespace craton::fabric {

void Fabric::check_range(RemoteAddress address, std::size_t bytes) const noexcept {
  CRATON_ASSERT(address.rank < size());
  const RegionPart* part = regions_.find(address.rank, address.region);
  CRATON_ASSERT(part != nullptr);
  CRATON_ASSERT(address.offset <= part->bytes);
  CRATON_ASSERT(bytes <= part->bytes - address.offset);
}

}  // namespace craton::fabric
