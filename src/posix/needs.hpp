/// \file
/// What sharing a program's memory takes of each process before the program has used any of it. `craton run`
/// asks the same functions, to refuse what cannot be before it starts anything.
///
///     heap      two files a rank: its bytes, and twins, which neighbours map as well
///     stacks    two files a rank, each with room for the parts of all ranks; neighbours map the first
///     space     what the program sees of both, once
#pragma once

#include <cstddef>
#include <cstdint>

#include "fabric/types.hpp"
#include "posix/pages.hpp"

namespace craton::posix {

/// As the kernel keeps below the stack of a process: a frame of less than that cannot get past it. Costs
/// addresses only.
inline constexpr std::size_t guard_bytes = mebi;

struct StackSizes {
  std::size_t first_bytes;   ///< of the program's first thread, with its guard
  std::size_t thread_bytes;  ///< of the others, likewise
  std::size_t threads;       ///< of a rank at a time, at most

  std::size_t part_bytes() const noexcept { return first_bytes + threads * thread_bytes; }
};

/// From the limits of the process. \param asked_bytes of the stacks of others than the first thread; 0: as
/// usual
StackSizes stack_sizes(std::size_t asked_bytes);

/// A job as its memory sees it.
struct SharedJob {
  fabric::Rank ranks;
  std::uint64_t heap_bytes;
  std::uint64_t stack_bytes;    ///< StackSizes::part_bytes
  fabric::Rank neighbours = 1;  ///< the most ranks of one node
  bool shares_program = true;   ///< not only what it asks for itself
  unsigned guard_files = 0;     ///< of each segment, as userfaultfd has them

  /// The addresses that heap and stacks have on all ranks.
  std::uint64_t space_bytes() const noexcept;
  /// All addresses that a rank needs.
  std::uint64_t address_bytes() const noexcept;
  /// The largest file that it makes; in memory, with nothing in it at first.
  std::uint64_t file_bytes() const noexcept;
  /// Open files of a rank, at least.
  std::uint64_t open_files() const noexcept;
};

/// What a process of x86-64 Linux has, less what may lie around in between.
inline constexpr std::uint64_t process_address_bytes = std::uint64_t{120} << 40U;

}  // namespace craton::posix
