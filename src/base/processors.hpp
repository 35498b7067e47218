/// \file
/// The processors of the process.
#pragma once

#include <cstdint>
#include <vector>

namespace craton {

/// The numbers of those that the process may use, ascending: as they were when this was first called, by a
/// thread that was not bound to some of them yet. Any thread; allocates at the first call.
const std::vector<std::uint32_t>& processors();

/// Binds the calling thread to processors, which need not be there.
void use_processors(const std::vector<std::uint32_t>& numbers) noexcept;

/// Gives the calling thread a processor of its own, and moves it there. The kernel may move it on as ever;
/// see leave_processor(). Where the thread must not use that one, nothing happens. Takes no memory.
void settle_on_processor(std::uint32_t number) noexcept;

/// Moves the calling thread to its own processor, if it has one and is on this one, which somebody else uses.
/// Costs a few ns, and where it moves about 20 us. Takes no memory. \param number of a processor; -1: none
void leave_processor(int number) noexcept;

/// For threads of the runtime, which may have been started by one that is bound: the calling thread may use
/// all of processors(). Takes no memory; no call if no thread was bound.
void use_all_processors() noexcept;

}  // namespace craton
