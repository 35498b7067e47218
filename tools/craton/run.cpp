// `craton run`: from the options of the command line to a launched job.
#include <algorithm>
#include <sstream>
#include <string>

#include "base/error.hpp"
#include "commands.hpp"
#include "job/launcher.hpp"
#include "job/placement.hpp"
#include "observed.hpp"

namespace craton::tools {

namespace {

job::OutputMode output_mode(const std::string& name) {
  if (name == "prefix") return job::OutputMode::prefix;
  return name == "ordered" ? job::OutputMode::ordered : job::OutputMode::raw;
}

}  // namespace

int run_main(const RunRequest& request) {
  const Options& options = request.options;
  job::LaunchRequest launch;
  launch.command = request.command;
  const Sharing sharing = inspect_command(options, launch.command.front(), request.ranks > 1);
  const unsigned ranks = sharing == Sharing::one_rank ? 1 : request.ranks;
  launch.placements = job::place_ranks(ranks, job::split_hosts(options.text(Option::host)),
                                       static_cast<fabric::Rank>(options.integer(Option::ranks_per_node)));
  if (sharing == Sharing::own_interface || sharing == Sharing::program_memory)
    check_ranks(options, launch.placements, sharing);
  if (sharing == Sharing::program_memory) share_program(options, launch);
  for (const std::string& variable : options.rank_environment()) {
    const std::size_t equals = variable.find('=');
    launch.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  std::istringstream agent(options.text(Option::launch_agent));
  for (std::string word; agent >> word;) launch.launch_agent.push_back(word);
  const bool all_here =
      std::all_of(launch.placements.begin(), launch.placements.end(),
                  [](const job::Placement& place) { return job::is_this_host(place.host); });
  if (launch.launch_agent.empty() && !all_here) {
    throw Error(ErrorCode::invalid_argument, {.asked = "cannot start ranks on other hosts",
                                              .happened = "--launch-agent is empty",
                                              .limit = {},
                                              .remedy = "leave it out for ssh, or name the command to use"});
  }
  launch.output = output_mode(options.text(Option::output));
  launch.timeout_ns = options.duration_ns(Option::timeout);
  launch.connect_timeout_ns = options.duration_ns(Option::connect_timeout);
  launch.node_timeout_ns = options.duration_ns(Option::node_timeout);
  Observation observation(options, launch);
  const int exit_code = job::launch(launch);
  observation.tell();
  return exit_code;
}

}  // namespace craton::tools
