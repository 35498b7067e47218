/// \file
/// Cancellation.
#include "omp/gomp/abi.hpp"
#include "omp/tasks.hpp"

namespace craton::omp::gomp {

namespace {

// What is to be cancelled, as the compiler says it.
constexpr int loop_mark = 2;
constexpr int sections_mark = 4;
constexpr int group_mark = 8;

}  // namespace

/// \returns whether it is cancelled, so that the caller goes to its end
CRATON_GOMP bool GOMP_cancellation_point(int which) {
  if (!may_cancel()) return false;
  if ((which & (loop_mark | sections_mark)) != 0) return is_share_cancelled();
  // With a region all of its tasks are cancelled.
  if ((which & group_mark) != 0 && is_group_cancelled()) return true;
  return is_region_cancelled();
}

/// \param does_it what the `if` clause says
CRATON_GOMP bool GOMP_cancel(int which, bool does_it) {
  if (!may_cancel()) return false;
  if (!does_it) return GOMP_cancellation_point(which);
  if ((which & (loop_mark | sections_mark)) != 0) {
    cancel_share();
  } else if ((which & group_mark) != 0) {
    cancel_group();
  } else {
    cancel_region();
  }
  return true;
}

}  // namespace craton::omp::gomp
