/// \file
/// All processes below this one, also those that have left their process group or session.
#pragma once

#include <sys/types.h>

#include <vector>

namespace craton::job {

/// Makes orphans below this process its children, so that none escapes from live_descendants(). \throws Error
void adopt_orphans();

/// Children, grandchildren and so on that are alive (no zombies), from /proc. Needs adopt_orphans() to be
/// complete.
std::vector<pid_t> live_descendants();

}  // namespace craton::job
