/// \file
/// A coherent space over real processes, for tests: every way to join the ranks and to catch faults.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "fabric/wired_fabric.hpp"
#include "rank_processes.hpp"
#include "space/space.hpp"

namespace craton::space::test {

/// How the ranks are joined and how faults are caught.
struct Machine {
  const char* name;
  const char* network;    ///< between nodes
  fabric::Rank nodes;     ///< rank modulo nodes is its node; 1: all share memory
  const char* mechanism;  ///< of page tables

  friend std::ostream& operator<<(std::ostream& out, const Machine& machine) { return out << machine.name; }
};

extern const std::vector<Machine> machines;

/// For a barrier of which the space knows nothing.
inline constexpr fabric::HandlerId meeting_handler = fabric::first_free_handler + SpaceOptions::handlers;

/// What a rank has in a test. Checks that fail end the job with their text.
struct RankSpace {
  Space& space;
  fabric::Fabric& fabric;
  fabric::conformance::ParentLink& parent;

  fabric::Rank rank() const noexcept { return fabric.rank(); }
  fabric::Rank size() const noexcept { return fabric.size(); }
  /// Runs it on so many threads of this rank, of which each can fault.
  void run_threads(unsigned threads, const std::function<void(unsigned)>& body) const;
  /// \throws std::runtime_error if it does not hold
  void check(bool holds, const std::string& otherwise) const;
};

/// What a check says.
std::string said(const char* what, std::uint64_t found, std::uint64_t expected);

/// Runs `body` on `size` ranks, in at most `limit_s`. \param victim the rank that kills itself
/// \returns what failed, or "skipped: why"; empty if nothing did
std::string run_space(const Machine& machine, fabric::Rank size, SpaceOptions options,
                      const std::function<void(RankSpace&)>& body, int limit_s = 300,
                      std::optional<fabric::Rank> victim = {});

}  // namespace craton::space::test
