/// \file
/// Small collective questions before there is anything else: every rank says a number and gets all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/barrier.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"

namespace craton::space {

class Agreement {
 public:
  /// Collective: registers `region`. \param handler of its barrier, the same on all ranks
  Agreement(fabric::Fabric& fabric, fabric::RegionId region, fabric::HandlerId handler);
  /// Collective. \throws Error peer_lost
  void close();

  /// What all ranks say, by rank. Collective; blocks. One thread a rank. \throws Error peer_lost
  std::vector<std::uint64_t> gather(std::uint64_t own);
  /// Blocks until all ranks are here. Collective. \throws Error peer_lost
  void meet();

 private:
  fabric::Fabric& fabric_;
  const fabric::RegionId region_;
  fabric::RegionMemory memory_;  ///< a number of each rank; twice, since some may be a question ahead
  fabric::Barrier barrier_;
  std::uint64_t asked_ = 0;
};

}  // namespace craton::space
