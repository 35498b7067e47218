/// \file
/// Telling a rank from a child that it forked. The kernel gives a child none of the application views
/// (MADV_DONTFORK), but all of the memory that describes them, the signal handlers, and a userfaultfd that
/// still speaks of the parent's memory. So whatever would act on a view asks here first.
#pragma once

#include <cstdint>

namespace craton::vm {

/// A process that holds application views has a number other than 0. Calls of different threads may run at
/// the same time, except with mark_process().
using ProcessMark = std::uint32_t;

/// Gives the process its mark, if it has none yet. \throws Error out_of_resources
ProcessMark mark_process();
/// 0 in a process that has not been marked, or was forked and not marked since. Async-signal-safe.
ProcessMark process_mark() noexcept;

}  // namespace craton::vm
