/// \file
/// What the user chose by OMP_* variables. A value that makes no sense gets one line of warning and leaves
/// the default, as with libgomp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fabric/types.hpp"
#include "omp/icvs.hpp"
#include "omp/places.hpp"

namespace craton::omp {

enum class WaitPolicy : std::uint8_t {
  undefined,  ///< spin for a moment, then sleep
  active,     ///< spin longer
  passive,    ///< sleep at once
};

struct Settings {
  std::uint32_t threads_a_rank = 1;
  std::vector<std::uint32_t> threads;  ///< OMP_NUM_THREADS, by level; empty: all ranks' threads
  std::vector<Binding> bindings;       ///< OMP_PROC_BIND, by level; empty: not given
  std::vector<Place> places;           ///< OMP_PLACES or what stands for it; empty: threads are not bound
  Icvs icvs;                           ///< of the initial task, but for the number of threads
  std::size_t stack_bytes = 0;         ///< OMP_STACKSIZE, or GOMP_STACKSIZE; 0: neither is given
  WaitPolicy wait_policy = WaitPolicy::undefined;
  std::int32_t max_task_priority = 0;
  std::int32_t teams = 0;               ///< OMP_NUM_TEAMS
  std::int32_t teams_thread_limit = 0;  ///< OMP_TEAMS_THREAD_LIMIT
  bool cancellation = false;            ///< OMP_CANCELLATION
  bool display_affinity = false;
  std::string affinity_format = "level %L thread %i affinity %A";
  enum class Display : std::uint8_t { no, yes, verbose } display = Display::no;

  /// \param variable gives the value of an environment variable, or null \param warn gets each warning, one
  /// line without its end
  static Settings parse(std::uint32_t threads_a_rank, const Topology& topology,
                        const char* (*variable)(const char* name), void (*warn)(const std::string& line));
  /// Of this process, with warnings on standard error by rank 0.
  static Settings from_environment(std::uint32_t threads_a_rank, fabric::Rank rank);
  /// What OMP_DISPLAY_ENV prints: the lines that libgomp 12 prints. \param default_threads of a region
  std::string text(std::uint32_t default_threads, bool verbose) const;
};

}  // namespace craton::omp
