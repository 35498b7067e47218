/// \file
/// Regions of several ranks: rank 0 tells the others of one, and the threads of each run their parts.
///
///     rank 0, main thread:  begin ─tell─▶ function ─▶ Team::end ◀─gather─ ... goes on alone
///     other ranks, work():        hear ─▶ function ─▶ Team::end ─▶ hear ...
///
/// What is told may reach ranks that have no part in the region: those only gather at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "fabric/types.hpp"
#include "omp/team.hpp"
#include "omp/team_host.hpp"
#include "space/barrier.hpp"

namespace craton::omp {

class Regions {
 public:
  /// Team::begin(), and has the rank's threads but the calling one run Team::run_part().
  using Start = std::function<void(const Team::Beginning& beginning)>;

  /// \param number of the last region before the first one of this object
  Regions(TeamHost& host, Team& team, Start start, std::uint32_t number = 0)
      : host_(host), team_(team), start_(std::move(start)), number_(number) {}

  static Team::Shape shape_of(fabric::Rank own, fabric::Rank ranks, std::uint32_t size) noexcept;

  /// Rank 0's first thread: starts a region of more ranks than one, of which it enters the team next.
  /// \param beginning its reach, shares and number are set here
  void begin(Team::Beginning beginning);
  /// The first thread of a rank other than 0: runs the rank's part of all regions, until stop().
  void work();
  /// Rank 0: there are no more.
  void stop();

 private:
  TeamHost& host_;
  Team& team_;
  const Start start_;
  std::uint32_t number_;
};

}  // namespace craton::omp
