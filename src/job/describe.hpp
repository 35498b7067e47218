/// \file
/// What the launcher tells people: how ranks ended, and where they were when the time was over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "job/messages.hpp"

namespace craton::job {

/// "died: segmentation fault (SIGSEGV)" or "exited with code 3", of a status as from waitpid.
std::string describe_exit(int wait_status);

/// "SIGSEGV", or "signal 40".
std::string signal_name(int number);

/// What a shell gives for the status: the exit code, or 128 + the signal.
int exit_code_of(int wait_status);

/// "rank 2", "ranks 0, 1, 3", "ranks 0-5, 9". \param ranks in rising order, not empty
std::string list_ranks(const std::vector<Rank>& ranks);

/// "5 s", "250 ms", "1.5 s".
std::string describe_duration(TimeNs duration_ns);

/// What the launcher knows of a rank when the time is over.
struct StalledRank {
  Rank rank = 0;
  bool running = true;                 ///< false: it has ended in order
  bool joined = false;                 ///< it has called craton_init
  bool ready = false;                  ///< craton_init has returned
  bool finalized = false;              ///< craton_finalize has returned, so that nobody is there to answer
  std::optional<RankActivity> answer;  ///< what it said, if it did in time
};

/// "time limit of 5 s: rank 2 has not reached barrier 1, where ranks 0, 1, 3 wait; rank 2 is computing".
std::string describe_stall(TimeNs limit_ns, const std::vector<StalledRank>& ranks);

}  // namespace craton::job
