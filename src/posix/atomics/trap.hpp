/// \file
/// Sites that no jump fits: a breakpoint stands for them, and its signal does the same as a trampoline. The
/// handler of SIGTRAP, of which a process has one; what is not ours goes to the handler that was there
/// before.
///
/// It runs on the thread's own stack with no further signal blocked, so that the hooks of a trap may block
/// and take faults as those of a trampoline may.
#pragma once

#include <signal.h>

#include <vector>

#include "posix/atomics/entry.hpp"

namespace craton::posix {

/// From here on breakpoints at these sites are served, until the process ends. One thread at a time. Whoever
/// replaces the handler later must call it for signals that are not his.
/// \throws Error system
void catch_traps(std::vector<const SiteRecord*> sites);
/// Where programs' handlers are kept from the kernel: what is none of our sites goes to what `action` says
/// instead of to the handler that was there before. Once. \param action async-signal-safe
void pass_traps_on_to(struct sigaction (*action)(int signal));

}  // namespace craton::posix
