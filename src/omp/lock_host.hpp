/// \file
/// What locks need of their rank, beside what a team does: mutexes, memory of rank 0's, and a thread that may
/// unlock for others. A running program's ranks have it from the runtime (rank_locks.hpp), the schedules of
/// tests/teams from the simulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "space/mutexes.hpp"

namespace craton::omp {

class LockHost {
 public:
  LockHost() = default;
  LockHost(const LockHost&) = delete;
  LockHost& operator=(const LockHost&) = delete;
  virtual ~LockHost() = default;

  /// Mutexes for locks: so many, from number 0.
  virtual std::uint32_t mutexes() = 0;
  /// What a user can do who needs more of them.
  virtual const char* remedy_for_more_mutexes() const noexcept = 0;

  // As space::Mutexes has them, but that any thread of the holder's rank may unlock. \throws Error peer_lost

  virtual void lock(space::MutexId mutex) = 0;
  virtual bool try_lock(space::MutexId mutex) = 0;
  virtual void unlock(space::MutexId mutex) = 0;
  virtual void unlock_unpublished(space::MutexId mutex) = 0;

  // Words of rank 0, and the list of locks behind them. Block for the network. \param offset in Words

  virtual void read(void* into, std::size_t offset, std::size_t bytes) = 0;
  virtual void write(std::size_t offset, const void* from, std::size_t bytes) = 0;

  /// In a handler, once, before the first wake_thread(): starts a thread that calls
  /// RemoteUnlocks::do_ordered() after each. Ends the job where there can be none.
  virtual void start_thread() noexcept = 0;
  virtual void wake_thread() noexcept = 0;
};

}  // namespace craton::omp
