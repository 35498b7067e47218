/// \file
/// The runtime of this process: what the entry points of an ABI go to, and what the process that holds the
/// program calls.
#pragma once

#include "omp/platform.hpp"
#include "omp/runtime.hpp"
#include "omp/settings.hpp"

namespace craton::omp {

/// Starts the runtime. Collective, by one thread of each rank, before the program's code runs. Both stay
/// until the process ends. \throws Error
void start(Platform& platform, const Settings& settings);
/// By the thread that will run the program's main, at rank 0.
void attach_master();
/// By a thread of each other rank, which becomes its thread 0: runs its parts of all regions, and returns
/// after stop().
void work();
/// By the master, outside of all regions: the program has ended.
void stop();

}  // namespace craton::omp
