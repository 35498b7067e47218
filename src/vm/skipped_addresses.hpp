/// \file
/// Addresses that this process leaves to others of its job.
///
/// Processes of one program, started alike and without randomised addresses, are given the same addresses by
/// the kernel for what each maps for itself. An address that one of them passes on by mistake would then be
/// valid in another, and be something else there. So each skips as much as those before it may use: what is
/// of one process is a fault in all others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::vm {

/// Makes the kernel choose no address from here on that lies among the next `bytes` of its choice, nor a gap
/// between what is mapped already. Costs addresses, no memory, and a few system calls. Where addresses are
/// limited (RLIMIT_AS) or there are not so many it does nothing. At most once, before other threads map
/// anything.
/// \param bytes whole pages
void skip_addresses(std::size_t bytes) noexcept;

/// Lets brk go no further: the C library then maps what it wants.
void end_brk() noexcept;

/// What is skipped holds the address: another process may have something there. Async-signal-safe.
bool is_skipped(std::uintptr_t address) noexcept;

/// For what has to lie near something after all: takes the highest room out of what is skipped in
/// [lowest, end), and what is skipped right above it, so that MAP_FIXED takes nothing from anybody there.
/// Before other threads do the same. \param lowest, end, bytes whole pages \returns 0: there is none
std::uintptr_t take_skipped(std::uintptr_t lowest, std::uintptr_t end, std::size_t bytes) noexcept;

}  // namespace craton::vm
