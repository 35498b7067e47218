/// \file
/// Reductions over tasks as GCC describes them. Each thread of the team has a slice of memory for what its
/// tasks reduce, which is on whatever rank the task runs; the compiler's code adds the slices up.
///
///     group ─▶ Reductions ─next─▶ ... ─▶ those of the group around it
///                 └─▶ memory: │ slice of thread 0 │ slice of thread 1 │ ...
///
/// There is no table of addresses, as libgomp has one: it could not be shared, and there are few.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::omp::gomp {

/// Words on the stack of who began the group, of which the compiler fills in the first five and the items.
struct Reductions {
  struct Item {
    std::uintptr_t address;  ///< of what is reduced
    std::uintptr_t offset;   ///< in a slice
    std::uintptr_t unused;
  };
  std::uintptr_t count;
  std::uintptr_t slice_bytes;
  std::uintptr_t memory;     ///< its alignment, until it is registered
  std::uintptr_t allocator;  ///< all ones: none in particular
  Reductions* next;
  std::uintptr_t is_head;  ///< of what was registered together
  std::uintptr_t memory_end;

  const Item* items() const noexcept { return reinterpret_cast<const Item*>(this + 1); }
};
static_assert(sizeof(Reductions) == 7 * sizeof(std::uintptr_t));

/// Gives them memory for so many threads, of zero bytes, and puts `outer` behind them. \param first what
/// another thread has registered for the same construct: its memory is used; null: there is none
void register_reductions(Reductions* reductions, Reductions* outer, const Reductions* first,
                         std::uint32_t threads);

/// Begins a taskgroup for the reductions of a work share, with memory that all threads have. Meets. Nothing
/// if they are null.
void begin_share_reductions(std::uintptr_t* reductions);

}  // namespace craton::omp::gomp
