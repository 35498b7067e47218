#include "space/agreement.hpp"

#include <cstring>

#include "coherence/block_lock.hpp"

namespace craton::space {

Agreement::Agreement(fabric::Fabric& fabric, fabric::RegionId region, fabric::HandlerId handler)
    : fabric_(fabric),
      region_(region),
      memory_("craton agreement", 2 * std::size_t{fabric.size()} * sizeof(std::uint64_t)),
      barrier_(fabric, handler) {
  fabric_.register_region(region_, memory_);
}

void Agreement::close() {
  fabric_.unregister_region(region_);
}

void Agreement::meet() {
  if (barrier_.wait() != fabric::Status::ok) coherence::throw_lost(fabric_);
}

std::vector<std::uint64_t> Agreement::gather(std::uint64_t own) {
  const std::uint64_t half = asked_++ % 2 * fabric_.size();
  fabric::Completion completion;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank) {
    fabric_.put({.rank = rank, .region = region_, .offset = (half + fabric_.rank()) * sizeof own}, &own,
                sizeof own, completion);
  }
  coherence::wait_for(fabric_, completion);
  meet();
  std::vector<std::uint64_t> all(fabric_.size());
  std::memcpy(all.data(), memory_.data() + half * sizeof own, all.size() * sizeof own);
  return all;
}

}  // namespace craton::space
