/// \file
/// What a thread does at a construct, in the words of OpenMP rather than of a compiler: the entry points of
/// each ABI are a few lines over these. All for the calling thread, and right outside of regions as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "omp/loops.hpp"
#include "omp/team.hpp"
#include "omp/thread.hpp"

namespace craton::omp {

/// A number for a place in the program, by which the space learns what is read after it.
inline std::uint32_t site_of(std::uintptr_t address) noexcept {
  return static_cast<std::uint32_t>(address * 0x9e3779b97f4a7c15U >> 32U);
}
inline std::uint32_t site_of(const void* address) noexcept {
  return site_of(reinterpret_cast<std::uintptr_t>(address));
}

/// Runs `function` in all threads of a new team; the caller is one of them. \param threads asked for; 0: as
/// the control variables say
void run_region(const Region& region, std::uint32_t threads);
/// The two halves of it, between which the caller runs the function.
void begin_region(const Region& region, std::uint32_t threads);
void end_region();

void barrier(std::uint32_t site);
/// The same in a region that may be cancelled. \returns whether it is, so that the caller goes to its end
bool cancellable_barrier(std::uint32_t site);

/// A loop with the schedule that the program, or for Schedule::runtime the user, has chosen.
Loop loop_of(Schedule schedule, std::uint64_t chunk, const Iterations& iterations, bool ordered = false);
Loop sections_of(std::uint64_t count);
/// Meets a work share.
void begin_share(const Loop& loop);
/// Meets a doacross loop. \param counts see Doacross::enter
void begin_doacross(Loop loop, std::span<const std::uint64_t> counts);
/// How many numbers name one of its iterations; 0: the caller is alone, so that nobody waits.
std::size_t doacross_dimensions();
/// The iteration is done.
void post(std::span<const std::uint64_t> iteration);
/// Blocks until it is.
void wait_for_post(std::span<const std::uint64_t> iteration);
/// The next chunk of the one met last, as LoopPosition's first and last. \returns false if there is none
bool next_chunk(LoopPosition*& position);

/// Blocks until all iterations before the caller's chunk are done with their ordered parts.
void begin_ordered();
/// Done with the one met last.
void end_share();
/// Memory of zero bytes for all threads of the team, at the same place of which all call it. Meets. It stays
/// until the region ends.
void* shared_memory(std::size_t bytes);

/// Whether the caller is its team's first thread.
bool is_first() noexcept;
/// Whether the caller runs the next `single`: where all threads are of one rank the first to come does, which
/// others may wait for; over ranks the team's first thread.
bool is_single() noexcept;
/// Gives all threads a pointer by which the one that ran a `single` hands them what it has: it calls with it,
/// the others with null. A barrier follows before the next.
void* give_all(void* pointer, std::uint32_t site);

/// What this thread wrote becomes visible to all ranks, and what they published to it.
void flush();

/// A thread that waits in a loop of the program's own is about to look at what it waits for, by a plain load.
/// The block becomes strong, if it is one of the space: who finds there what another rank wrote also finds
/// what that one had written before, by plain stores as well. Where it finds again what it found before in
/// the same turn (looking.hpp) it waits for a change: at first 50 us at most, then for longer. \param turn
/// none: it does not wait
void look(const void* address, std::size_t bytes, std::optional<std::uint64_t> turn);

/// \param name see Locks
void lock_critical(const void* name);
void unlock_critical(const void* name);

/// Runs a target region: here, since there are no devices, as if it were the program's initial thread.
/// \param thread_limit of its regions; 0: as the control variables say
void run_target(void (*function)(void*), void* data, std::uint32_t thread_limit);

}  // namespace craton::omp
