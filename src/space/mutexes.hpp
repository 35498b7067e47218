/// \file
/// Mutexes of a space: mutual exclusion of all threads of all ranks, and what a holder wrote the next one
/// sees. The queue of ranks is that of coherence/block_lock.hpp: the mutex stays where it was held last, so
/// that a rank that takes it again pays two atomic instructions and a release; a rank that takes it from
/// another also fetches what that one has to tell (section 3.5.3: the signature travels from releaser to
/// acquirer).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "coherence/block.hpp"
#include "coherence/block_lock.hpp"
#include "coherence/lease_release.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"

namespace craton::space {

/// Number of a mutex, the same on all ranks.
using MutexId = std::uint32_t;

class Mutexes {
 public:
  /// Collective: registers `region`. \param handler a message handler, the same on all ranks
  Mutexes(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::RegionId region,
          fabric::HandlerId handler, std::uint32_t count);
  Mutexes(const Mutexes&) = delete;
  Mutexes& operator=(const Mutexes&) = delete;
  /// Collective. \throws Error peer_lost
  void close();

  std::uint32_t count() const noexcept { return count_; }
  /// Blocks until the calling thread holds it and has acquired. Not recursive. \throws Error peer_lost
  void lock(MutexId mutex);
  /// The same, but \returns false if somebody held or awaited it in the meantime. Blocks for the network
  /// only, and while others try.
  bool try_lock(MutexId mutex);
  /// Releases. By the thread that holds it.
  void unlock(MutexId mutex);
  /// The same without the release: where another one follows before any other rank takes the mutex.
  void unlock_unpublished(MutexId mutex);

 private:
  /// All zero bytes at first.
  struct Local {
    fiber::Mutex threads;         ///< of this rank: one of them at a time holds, awaits or tries the mutex
    std::atomic<bool> is_wanted;  ///< who has that holds or awaits the mutex; else it may not get it
    std::atomic<std::uint32_t> answer;  ///< see BlockLock::lock
  };

  static fabric::Rank initial_home(const void* self, std::uint64_t mutex) noexcept;
  struct Message {
    std::uint32_t mutex;
    std::uint32_t answer;
  };
  static void tell(void* self, fabric::Rank to, std::uint64_t mutex, coherence::BlockLock::Answer answer);
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;

  fabric::Fabric& fabric_;
  coherence::LeaseRelease& protocol_;
  const fabric::RegionId region_;
  const fabric::HandlerId handler_;
  const std::uint32_t count_;
  fabric::RegionMemory memory_;
  coherence::RemoteWords words_;
  coherence::BlockLock lock_;
  coherence::ZeroedArray<Local> locals_;
};

}  // namespace craton::space
