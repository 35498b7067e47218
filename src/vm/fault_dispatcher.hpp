/// \file
/// The handler of SIGSEGV and SIGBUS, of which a process has one: finds the segment that was touched and
/// forwards to its FaultHandler. What lies in no segment of ours goes to the handlers that were there before.
///
///     SIGSEGV, SIGBUS ──▶ in a segment?  ──▶ FaultHandler::fault, then the access is tried again
///                     ──▶ in a Reservation, but in no segment?  ──▶ message, death by the signal
///                     ──▶ else the handler before ours
///
/// The handlers are installed while there is a segment. They run on the thread's alternate stack if it has
/// one (see ThreadScope), with both signals unblocked, so that faults nest (fault_depth_most), and those that
/// others send blocked; inside a fiber::KernelThreadScope, so that fiber::Waiter blocks the thread. errno is
/// kept.
///
/// This is a process-wide object, as the operating system has it. Reading its table takes no lock.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "vm/page_table.hpp"
#include "vm/view_page_table.hpp"

namespace craton::vm {

/// More segments or reservations than these at a time are refused.
inline constexpr std::size_t caught_segments_most = 1024;
inline constexpr std::size_t reserved_addresses_most = 16;

/// While one exists, faults in the application view of a segment reach its FaultHandler. Handlers may call
/// refuse_fault() (fault_state.hpp) to end the process with a message where they cannot help.
class CaughtSegment {
 public:
  /// Any thread, not a fault handler.
  /// \param rank for messages; -1: unknown
  /// \throws Error out_of_resources, system
  CaughtSegment(ViewPageTable& table, FaultHandler& handler, int rank = -1);
  CaughtSegment(const CaughtSegment&) = delete;
  CaughtSegment& operator=(const CaughtSegment&) = delete;
  /// Waits for faults that are being handled; so not inside one of this segment.
  ~CaughtSegment();

 private:
  std::size_t slot_;
  ProcessMark mark_;
};

/// What comes after our handler of SIGSEGV or SIGBUS, for programs that believe to install theirs. Any
/// thread, signal handlers as well. \param next null: it stays \param before (not null) gets what it was
/// \returns false where ours is not the handler of the signal: nothing has changed then
bool exchange_next_action(int signal, const struct sigaction* next, struct sigaction* before) noexcept;

/// Addresses of instructions that load what an instruction soon after them stores to: where they fault, the
/// handler is told of a write, which saves the second fault. For the life of the process. Any thread.
void add_loads_to_store(std::vector<std::uintptr_t> instructions);

/// Addresses in which a fault outside all segments is a mistake that we can name. Any thread.
/// \throws Error out_of_resources
void add_reserved_addresses(const std::byte* begin, std::size_t bytes);
void remove_reserved_addresses(const std::byte* begin) noexcept;

}  // namespace craton::vm
