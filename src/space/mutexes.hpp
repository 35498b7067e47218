/// \file
/// Mutexes of a space: mutual exclusion of all threads of all ranks, and what a holder wrote the next one
/// sees. The queue of ranks is that of coherence/block_lock.hpp: the mutex stays where it was held last, so
/// that a rank that takes it again pays two atomic instructions and a release; a rank that takes it from
/// another also fetches what that one has to tell (section 3.5.3: the signature travels from releaser to
/// acquirer).
///
/// Where another rank's agent would have to serve each step (tcp), the mutex is asked for by one message, and
/// granted by one that brings what its former holder has to tell:
///
///     3 asks 0, whose link says 2     0 ──take──▶ 2     0's link says 3 from now on
///     2 holds it: its link says 3     ... 2 unlocks ──granted, and news──▶ 3
///
/// A rank that neither holds nor awaits the mutex passes the question on to the rank that its link names, and
/// has whoever asks next go to the one who asked: the distributed mutual exclusion of Naimi, Trehel and
/// Arnold (JPDC 34, 1996), in which a question takes O(log n) messages. Here others may follow the same links
/// by one-sided operations, and those who only try do: they change no link but the one at the end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coherence/block.hpp"
#include "coherence/block_lock.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/signature_exchange.hpp"
#include "fabric/fabric.hpp"
#include "fabric/questions.hpp"
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
  /// What a thread that asks for a mutex is sent with it. Its number is the mutex's.
  struct Grant {
    coherence::SignatureExchange::View view{};
    std::vector<std::byte> news;  ///< of `view`
  };

  /// All zero bytes at first.
  struct Local {
    fiber::Mutex threads;         ///< of this rank: one of them at a time holds, awaits or tries the mutex
    std::atomic<bool> is_wanted;  ///< who has that holds or awaits the mutex; else it may not get it
    std::atomic<std::uint32_t> answer;       ///< see BlockLock::lock
    std::atomic<std::uint32_t> answered_by;  ///< and whose it is
  };

  struct Message {
    enum class Kind : std::uint32_t {
      take,     ///< `value` is the rank that wants it; behind it follow the versions that this has acquired
      granted,  ///< `value` is the version that its receiver had acquired; behind it follow what is shown now
                ///< and, if there is room, what is new
      again,    ///< see BlockLock::again
    };
    Kind kind;
    std::uint32_t mutex;
    std::uint64_t value;
  };

  fabric::Rank ask(fabric::Rank at, MutexId mutex, Grant& grant);
  void asked(const Message& question, std::span<const std::byte> versions) noexcept;
  void grant(fabric::Rank to, MutexId mutex) noexcept;
  static fabric::Rank initial_home(const void* self, std::uint64_t mutex) noexcept;
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
  const std::vector<bool> asked_;  ///< by rank: whether by messages
  fabric::Questions<Grant> grants_;
  /// By rank: what it has acquired of what this one shows, as it has said.
  const std::unique_ptr<std::atomic<std::uint64_t>[]> acquired_;
};

}  // namespace craton::space
