/// \file
/// The command line of a kernel: `--rounds=N --turn-ms=M`.
#pragma once

#include "base/clock.hpp"

namespace craton::bench {

struct Arguments {
  int rounds = 30;              ///< turns of each variant, in turn with the others
  TimeNs turn_ns = 20'000'000;  ///< how long a variant is measured before it is the next one's turn
  int first_round = 0;  ///< number of the first round, for kernels that scripts/bench runs once a round
};

/// Prints the usage and exits with code 2 on anything that it does not know.
Arguments parse_arguments(int argc, char** argv);

}  // namespace craton::bench
