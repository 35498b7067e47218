/// \file
/// A kernel thread of the runtime's, which runs parts of regions.
#pragma once

#include <atomic>
#include <cstdint>

#include "omp/gate.hpp"

namespace craton::omp {

class Runtime;
class Team;

struct Worker {
  Runtime* runtime = nullptr;
  Gate gate;
  std::atomic<std::uint32_t> orders{0};  ///< to run a part of a region, one after the other
  Team* team = nullptr;                  ///< of the last order
  std::uint32_t local = 0;               ///< as which thread of the rank
};

}  // namespace craton::omp
