/// \file
/// One-sided operations of simulated ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/sim/sim_fabric.hpp"

namespace craton::fabric::sim {

/// A one-sided operation from its issue to its completion. Events hold it; after `abandoned` they touch
/// nothing of the initiator's.
struct SimFabric::Operation {
  Kind kind;
  RemoteAddress remote;
  std::size_t bytes;
  std::byte* destination = nullptr;   ///< of a get
  const std::byte* source = nullptr;  ///< of a put; null once captured
  AtomicOperation atomic{};
  std::uint64_t* previous = nullptr;
  Completion* completion = nullptr;
  std::uint64_t number = 0;
  std::vector<std::byte> captured{};  ///< a put's bytes, if they are not read from `source` at their effect
  std::uint32_t pieces_left = 1;
  bool abandoned = false;  ///< the initiator is dead
  bool dropped = false;    ///< has no further effect at the target
  bool answered = false;   ///< its completion is queued
};

}  // namespace craton::fabric::sim
