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

/// For threads of the runtime, which may have been started by one that is bound: the calling thread may use
/// all of processors(). Takes no memory; no call if no thread was bound.
void use_all_processors() noexcept;

}  // namespace craton
