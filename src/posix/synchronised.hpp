/// \file
/// What the synchronisation functions of pthreads have in common, as programs call them: objects that all
/// ranks share have the monitor's functions (waits/), others the C library's.
#pragma once

#include <cerrno>
#include <ctime>

#include "base/kept_errno.hpp"
#include "omp/constructs.hpp"
#include "posix/mappings.hpp"
#include "posix/monitor.hpp"
#include "posix/real.hpp"

namespace craton::posix {

/// The monitor, if the object is one for it.
inline Monitor* monitor_of(const void* object) noexcept {
  Monitor* const here = monitor();
  return here != nullptr && shared_program()->is_shared(object) ? here : nullptr;
}

/// Whether a program's time limit is one. Where it is not, waits say EINVAL.
inline bool is_time(clockid_t clock, const timespec& until) noexcept {
  return (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC) && until.tv_nsec >= 0 &&
         until.tv_nsec < 1'000'000'000;
}

/// What `wait` returns with the deadline, or EINVAL.
template <typename Wait>
int wait_until(clockid_t clock, const timespec* until, Wait wait) {
  return is_time(clock, *until) ? wait(deadline_of(clock, until)) : EINVAL;
}

/// Calls the C library's function for an object that is none of the monitor's. One in a file that all ranks
/// of a node have mapped may be others' as well, and the kernel wakes them: what this thread knows goes with
/// it, and it learns what they knew.
template <typename Call>
int as_others_may_see(const void* object, Call call) {
  if (!is_of_all(object)) return call();
  omp::flush();
  const int result = call();
  const KeptErrno kept;
  omp::flush();
  return result;
}

}  // namespace craton::posix

#define CRATON_EXPORT extern "C" [[gnu::visibility("default")]]
// NOLINTBEGIN(bugprone-macro-parentheses): two lists and a call
/// Defines what programs get as `name`: the C library's function, or where `object` is one that all ranks
/// share, `ours`, which calls its monitor `shared`.
#define CRATON_SYNCHRONISED(name, object, parameters, arguments, ours)                            \
  CRATON_EXPORT int name parameters {                                                             \
    const void* const which = const_cast<const void*>(static_cast<const volatile void*>(object)); \
    craton::posix::Monitor* const shared = craton::posix::monitor_of(which);                      \
    if (shared != nullptr) return ours;                                                           \
    return craton::posix::as_others_may_see(which, [&] { return CRATON_REAL(name) arguments; });  \
  }
// NOLINTEND(bugprone-macro-parentheses)
