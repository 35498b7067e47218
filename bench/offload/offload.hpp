/// \file
/// Many threads of one rank that read from another rank: the microbenchmarks of the dissertation's section
/// 4.4 (its listings 4.6 and 4.7), with our get in the place of an RDMA READ.
#pragma once

#include <cstddef>

#include "base/clock.hpp"
#include "fabric/wired_fabric.hpp"
#include "frame/measure.hpp"

namespace craton::bench {

inline constexpr fabric::RegionId offload_region = 1;
inline constexpr fabric::Rank offload_target = 1;
inline constexpr std::size_t offload_region_bytes = std::size_t{4} << 20;

/// One operation at a time a thread (listing 4.6).
struct LatencySample {
  Sample latency;    ///< from the call to the completion
  Sample injection;  ///< inside the call
};
LatencySample latency_turn(fabric::Fabric& fabric, int requesters, std::size_t bytes, TimeNs turn_ns);

/// Up to `window` operations in flight a thread (listing 4.7: 256). \returns operations a second
double rate_turn(fabric::Fabric& fabric, int requesters, std::size_t bytes, std::uint32_t window,
                 TimeNs turn_ns);

/// The processor time that the process takes while nothing is asked of it, as a share of one CPU.
double idle_share(TimeNs turn_ns);

}  // namespace craton::bench
