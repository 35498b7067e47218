/// \file
/// What the OpenMP runtime needs of the process it is in. It knows nothing of how the program's memory became
/// shared, nor of how the process joined its job.
#pragma once

#include <string>

#include "base/function_ref.hpp"
#include "fabric/fabric.hpp"
#include "fabric/types.hpp"
#include "space/heap.hpp"
#include "space/space.hpp"

namespace craton::omp {

/// Region ids and message handlers that the runtime takes, from Platform::first_region and first_handler on.
inline constexpr fabric::RegionId regions_needed = 1;
inline constexpr fabric::HandlerId handlers_needed = 1;
/// Platform::mutexes must be at least this; each omp_lock_t that is in use takes one beyond it.
inline constexpr std::uint32_t mutexes_needed = 1024;

class Platform {
 public:
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;
  virtual ~Platform() = default;

  virtual fabric::Fabric& fabric() = 0;
  /// Its barrier is the runtime's alone.
  virtual space::Space& space() = 0;
  virtual space::Heap& heap() = 0;
  /// Mutexes of the space that are the runtime's: so many, from number 0.
  virtual std::uint32_t mutexes() { return space().mutexes().count(); }
  /// What a user can do who needs more of them.
  virtual const char* remedy_for_more_mutexes() const noexcept { return "make the space with more mutexes"; }
  /// Runs body(argument) on a new kernel thread of this rank, whose stack other ranks can read. The thread
  /// never ends before the process. \throws Error out_of_resources
  virtual void start_thread(void (*body)(void*), void* argument) = 0;
  /// An atomic operation on shared memory, as an instruction of the program's would do it: calls `body` on
  /// bytes that hold the value, at least once. Any of the program's threads. This one is for memory of the
  /// space's segments. \throws Error peer_lost, not_supported
  virtual void run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body);
  /// Output that this rank has buffered (stdio, Fortran units) goes out. Before each release to others.
  virtual void flush_output() noexcept = 0;
  /// Ends the job, with one line that names what and the remedy.
  [[noreturn]] virtual void fail(const std::string& message) noexcept = 0;
  /// Whether code of the program runs on other ranks while no region does: threads that are none of
  /// OpenMP's. Then locks publish outside of regions too.
  virtual bool others_may_run() noexcept { return true; }
  /// Whether all threads of a region of this function of the program's are to be of the rank that starts it.
  /// At each start of a region that would be spread over ranks.
  virtual bool stays_on_rank(const void* /*function*/) noexcept { return false; }
  virtual fabric::RegionId first_region() = 0;
  virtual fabric::HandlerId first_handler() = 0;

 protected:
  Platform() = default;
};

}  // namespace craton::omp
