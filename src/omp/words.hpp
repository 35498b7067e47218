/// \file
/// The runtime's words that all ranks reach: its region. Rank 0's are the ones in use.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/types.hpp"
#include "omp/loops.hpp"
#include "omp/updates.hpp"

namespace craton::omp {

/// How many different names `critical` constructs may have.
inline constexpr std::size_t critical_names_at_most = 512;

/// What omp_set_affinity_format keeps: a byte that is 1 once there is one, the format, a zero byte.
inline constexpr std::size_t affinity_format_bytes = 264;

struct Words {
  alignas(fabric::line_bytes) std::array<std::uint64_t, loop_words> loops;  ///< see loops.hpp
  /// The addresses by which critical names go: each has the mutex of its place here.
  std::array<std::uint64_t, critical_names_at_most> names;
  std::uint64_t locks_taken;  ///< by ranks, of the program's
  std::uint64_t locks_given;  ///< by ranks that had too many, and not taken again: behind the words
  std::uint64_t at_meeting;   ///< what threads are at, and the last work share of any: see Cancellation
  std::uint64_t last_share;
  /// What omp_set_num_teams and omp_set_teams_thread_limit chose, plus 1; 0: nothing.
  std::uint64_t teams_chosen;
  std::uint64_t teams_thread_limit_chosen;
  std::array<char, affinity_format_bytes> affinity_format;  ///< chosen
  std::uint64_t partial;  ///< each rank's own: where its part of a reduction is
  PutOff put_off;         ///< each rank's own
};

}  // namespace craton::omp
