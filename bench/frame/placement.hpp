/// \file
/// Which CPUs the ranks of a pair run on. They are pinned: a kernel that moves threads about would be
/// measured with what it decides, and "computing on the target's core" would mean nothing.
#pragma once

namespace craton::bench {

enum class Placement {
  one_cpu_each,  ///< rank 0 on the first CPU that we may use, rank 1 on the second, with all their threads
  half_each,     ///< the CPUs that we may use are split into two halves
  anywhere,      ///< not pinned: for kernels whose ranks have more threads than there are CPUs
};

/// Pins the calling thread, and those that it will start, for `rank` of a pair. With one CPU both share it.
/// \throws Error system
void pin(Placement placement, unsigned rank);

/// Pins the calling thread, and those that it will start, to the first `count` CPUs that we may use, or to
/// all where there are fewer. \throws Error system
void pin_to_first(unsigned count);

}  // namespace craton::bench
