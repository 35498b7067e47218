/// \file
/// What runs inside a fault handler can ask and say. Below the page tables, which may fail there, where no
/// exception can be thrown; the dispatcher of faults is above them.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace craton::vm {

/// How deep faults may nest on a thread: a handler that touches a segment faults in turn.
inline constexpr int fault_depth_most = 8;

/// What is known of a fault, for the message of a process that dies of it. Lives on the stack of the handler.
struct FaultRecord {
  int signal = 0;
  const void* address = nullptr;
  const void* instruction = nullptr;
  bool write = false;
  bool executes = false;          ///< the instruction itself lies there
  const char* segment = nullptr;  ///< its name; null: in no segment
  const void* segment_begin = nullptr;
  std::size_t block_bytes = 0;
  int rank = -1;  ///< -1: unknown
};

/// Of the calling thread. Trivial, so that a signal handler can use it.
struct ThreadFaults {
  int depth = 0;
  const FaultRecord* current = nullptr;
  /// The last fault that was allowed when it came: where, when, and how often in a row.
  const void* allowed_block = nullptr;
  std::int64_t allowed_ns = 0;
  int allowed_times = 0;
};
ThreadFaults& thread_faults() noexcept;

/// Whether the caller runs inside a FaultHandler, where nothing may be thrown.
bool in_fault_handler() noexcept;

/// Ends the process because the access that the program makes cannot be given to it: prints one message with
/// `why`, the address, the segment and the instruction, then dies by the signal of the fault. For whatever
/// runs inside FaultHandler::fault; elsewhere it prints `why` and aborts. Async-signal-safe, but for looking
/// up the name of the instruction's function (dladdr takes the loader's lock); an alarm ends the process
/// where that hangs.
[[noreturn]] void refuse_fault(std::string_view why) noexcept;

/// The same for a fault of which `record` tells.
[[noreturn]] void die_of_fault(const FaultRecord& record, std::string_view why) noexcept;

}  // namespace craton::vm
