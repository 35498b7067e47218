/// \file
/// What `craton run` tells after a job: statistics, races by name, a trace, the report of sharing.
#pragma once

#include <string>

#include "base/options.hpp"
#include "base/unique_fd.hpp"
#include "job/launcher.hpp"

namespace craton::tools {

class Observation {
 public:
  /// Has the ranks record what the options ask for. \throws Error where a file cannot be written, or rank 0
  /// is on another host, so that nothing is started in vain
  Observation(const Options& options, job::LaunchRequest& launch);

  /// After the job: prints and writes what there is. A program that did not end in order left nothing.
  void tell();

 private:
  void tell_statistics(const std::string& counters, const std::string& regions);
  const Options& options_;
  UniqueFd memory_;  ///< a file without a name: whoever dies, nothing is left
  unsigned what_ = 0;
};

}  // namespace craton::tools
