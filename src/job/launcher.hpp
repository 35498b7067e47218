/// \file
/// The launcher behind `craton run`: starts a node daemon a host, is the rendezvous of the ranks, writes
/// their output, and ends the job whole, with one message that says why.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "job/output.hpp"
#include "job/placement.hpp"

namespace craton::job {

struct LaunchRequest {
  std::vector<Placement> placements;  ///< who runs which ranks; ranks 0 to size-1 in order
  std::vector<std::string> command;   ///< the program and its arguments
  std::vector<std::pair<std::string, std::string>> environment;  ///< variables that ranks get
  std::vector<std::string> launch_agent;  ///< words of the command that starts a program on another host
  OutputMode output = OutputMode::raw;
  TimeNs timeout_ns = 0;                       ///< for the running job; 0: none
  TimeNs connect_timeout_ns = 30'000'000'000;  ///< for node daemons to answer
  TimeNs node_timeout_ns = 20'000'000'000;     ///< for those on other hosts, while the job runs; 0: none
};

/// Exit codes of a job that no rank chose.
inline constexpr int timeout_exit_code = 124;  ///< as of timeout(1)
inline constexpr int failure_exit_code =
    1;  ///< a node or a connection was lost, a rank left without craton_finalize

/// Runs a job to its end; blocks. Takes over the signal dispositions of the process, so it is for a process
/// that does nothing else and has one thread. \returns 0, or the exit code of the first failure: that of the
/// rank, 128 + its signal, 124 after the time limit,
///          126 or 127 if the program could not be executed
/// \throws Error if it cannot start at all
int launch(const LaunchRequest& request);

}  // namespace craton::job
