/// \file
/// Which transports can work on this machine, for `craton info`.
#pragma once

#include <string>
#include <vector>

#include "job/machine.hpp"

namespace craton::tools {

struct TransportReport {
  std::string name;
  bool usable = false;
  std::string detail;  ///< what it runs over, or why it cannot
};

/// Loads libucp to see whether ucx can work, so the process that calls this should end soon.
std::vector<TransportReport> report_transports(const job::MachineFacts& facts);

}  // namespace craton::tools
