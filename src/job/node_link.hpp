/// \file
/// The launcher's end of one node: the process of its daemon (or of the launch agent that started it) and the
/// channel to it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "job/channel.hpp"
#include "job/placement.hpp"

namespace craton::job {

struct NodeLink {
  Placement place;
  std::string host;     ///< as the node calls itself; until it has, as the user does
  std::string command;  ///< what was executed, for messages
  pid_t agent = -1;     ///< -1 once it has been reaped
  std::optional<int> agent_status;
  std::unique_ptr<Channel> channel;
  bool greeted = false;
  bool prepared = false;
  bool processes_gone = false;  ///< it said bye
  unsigned unanswered = 0;      ///< pings since it last said anything
  bool lost = false;            ///< it has ended without saying bye
};

/// A started daemon: its process and the pipes to and from it.
struct StartedNode {
  pid_t agent;
  UniqueFd from_node;
  UniqueFd to_node;
  std::string command;
  bool has_input = false;  ///< the standard input of this process is its rank 0's now
};

/// Starts the daemon of a host: this program again on this host, else through the launch agent. Does not wait
/// for it. \param gives_input to the daemon, for rank 0, where it is of this host and the input no terminal:
/// those are read by the processes in front only. \throws Error out_of_resources
StartedNode start_node(const std::string& host, const std::vector<std::string>& launch_agent,
                       bool gives_input);

}  // namespace craton::job
