/// \file
/// The few functions of the C interface that the programs in kernels/ call, over the ranks of run_space(): so
/// they run in processes that this kernel started, with any dials, one after the other in one run.
#pragma once

#include "space/ranks.hpp"

namespace craton::bench {

/// While one exists, craton_rank() and so on are about this rank. One at a time.
class KernelCalls {
 public:
  explicit KernelCalls(SpaceRank& rank);
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;
  ~KernelCalls();
};

}  // namespace craton::bench
