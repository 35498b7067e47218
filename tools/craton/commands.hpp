/// \file
/// The subcommands of `craton`. main.cpp reads the command line; each of these does the work of one
/// subcommand and returns the exit code of the process. They report errors by throwing craton::Error, which
/// main prints.
#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/options.hpp"
#include "job/launcher.hpp"

namespace craton::tools {

/// What `craton run` was asked for, checked: ranks is 1 to fabric::max_ranks and command is not empty.
struct RunRequest {
  unsigned ranks;
  craton::Options options;
  std::vector<std::string> command;
};

/// `craton run`: launches the job and waits for its end. \returns the exit code of the first failure, or 0
int run_main(const RunRequest& request);

/// What a job's ranks have in common.
enum class Sharing {
  nothing,         ///< as far as the launcher knows
  own_interface,   ///< what the program asks of Craton
  program_memory,  ///< all memory of one program
  one_rank,        ///< the program runs once, and needs no other ranks
};

/// Finds out how a program is to be run. \throws Error not_supported where it cannot be as asked for
Sharing inspect_command(const Options& options, const std::string& program, bool several_ranks);

/// Sees to it that the program's memory is shared among the ranks. \throws Error out_of_resources where the
/// limits of this host do not allow so many ranks, which are those of the others as well
void share_program(const Options& options, job::LaunchRequest& launch);

/// Refuses more ranks on a host than can reach each other. \throws Error out_of_resources
void check_ranks(const Options& options, const std::vector<job::Placement>& placements, Sharing sharing);

/// `craton _node`: the daemon of one host, started by run_main; speaks over its standard input and output.
/// \param input a descriptor that rank 0 reads; negative: what run_main sends
int node_main(int input);

/// What `craton info` was asked for.
struct InfoRequest {
  enum class Format { text, json, markdown, man };
  craton::Options options;
  Format format = Format::text;
  bool options_only = false;  ///< only the table of options; markdown and man are forms of that table alone
  bool entry_points_only = false;  ///< only those, as text
};

/// `craton info`: prints version, build, transports, options and what this machine allows. \returns 0
int info_main(const InfoRequest& request);

/// What `craton top` was asked for.
struct TopRequest {
  std::string job;  ///< the pid of a craton run, or the name of a program; "": the only job
  TimeNs interval_ns = 0;
  bool once = false;
  bool json = false;
};

/// `craton top`: shows what the ranks of a running job do, until it ends. \returns 0, or 1 if the job ended
/// before anything could be told
int top_main(const TopRequest& request);

/// `craton doctor`: checks the machine and prints each finding with its remedy. \returns 1 if it found a
/// problem
int doctor_main(bool json);

}  // namespace craton::tools
