/// \file
/// Starting the process of a rank: its own process group, its output in pipes, a control socket, no way to
/// outlive its node.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.hpp"
#include "job/messages.hpp"

namespace craton::job {

/// The variables by which a rank finds its node. The rank takes them out of its environment when it has read
/// them.
inline constexpr const char* rank_variable = "CRATON_RANK";
inline constexpr const char* size_variable = "CRATON_SIZE";
inline constexpr const char* control_variable = "CRATON_CONTROL_FD";

struct RankProcess {
  pid_t pid = -1;
  UniqueFd control;  ///< a socket
  UniqueFd out;      ///< what it writes
  UniqueFd error;
  UniqueFd input;      ///< where to write what rank 0 reads, unless it got that; the others read /dev/null
  int exec_errno = 0;  ///< not 0: the program could not be executed, and the process is gone
};

/// Whether the ranks of an order are one program, whose memory they share.
bool is_one_program(const StartOrder& order);

/// Starts a rank and waits until its program is executed or could not be. For single-threaded processes.
/// \param input what rank 0 reads, if that is there already. \throws Error out_of_resources
RankProcess start_rank(const StartOrder& order, Rank rank, UniqueFd input);

/// Whether the program of an order can be found and may be executed, as execvp looks for it.
StartResult check_program(const StartOrder& order);

/// What to tell the user, and the exit code of shells, when executing a program failed.
StartResult exec_failure(const StartOrder& order, int errno_value);

}  // namespace craton::job
