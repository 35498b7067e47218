/// \file
/// A task: implicit (a thread of a team has one) or explicit. What happens to explicit ones is in tasks.hpp.
#pragma once

#include "omp/icvs.hpp"

namespace craton::omp {

struct Task {
  Icvs icvs;
  Task* parent = nullptr;
  bool is_final = false;
};

}  // namespace craton::omp
