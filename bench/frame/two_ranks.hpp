/// \file
/// Ranks on this machine, mostly two, without a launcher: forks the processes, wires them through socket
/// pairs to the parent, and runs a function in each.
#pragma once

#include <functional>

#include "base/clock.hpp"
#include "fabric/wired_fabric.hpp"
#include "frame/placement.hpp"

namespace craton::bench {

struct PairOptions {
  fabric::WiredOptions wired;
  Placement placement = Placement::one_cpu_each;
  TimeNs limit_ns = 240'000'000'000;  ///< both processes are killed when it passes
};

/// Both ranks on one node, and on two nodes joined by tcp over the loopback interface.
PairOptions over_shm();
PairOptions over_tcp();

/// Runs in a process of its own, once the fabric is wired; returns before the farewell.
using RankMain = std::function<void(fabric::WiredFabric&)>;

/// Runs `initiator` as rank 0 and `target` as rank 1 and waits for both. If one fails, the other is killed.
/// The calling process must have no other threads, since it forks. Blocks up to `limit_ns`. No process is
/// left behind. \throws Error saying which rank failed and how; the rank itself has printed why
void run_pair(const PairOptions& options, const RankMain& initiator, const RankMain& target);

/// The same with `size` ranks, which all run `body`.
void run_ranks(const PairOptions& options, fabric::Rank size, const RankMain& body);

}  // namespace craton::bench
