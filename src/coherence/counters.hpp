/// \file
/// What the protocol of a rank has done. Always counted, by relaxed additions on a line of their own.
#pragma once

#include <atomic>
#include <cstdint>

namespace craton::coherence {

struct alignas(64) Counters {
  using Count = std::atomic<std::uint64_t>;

  Count read_faults{0};
  Count write_faults{0};
  Count opened_ahead{0};     ///< blocks that became writable because the ones before them were written
  Count read_ahead{0};       ///< blocks fetched because the ones before them were
  Count spurious_faults{0};  ///< another thread had been faster
  Count fast_reads{0};       ///< blocks fetched with one get from the notice's source
  Count slow_reads{0};       ///< blocks fetched from their home, with an extension of the lease
  Count zero_reads{0};       ///< blocks that nobody has ever written: nothing was sent
  Count fetched_bytes{0};
  Count twins{0};            ///< made by copying
  Count fast_releases{0};    ///< blocks released at home, without a transfer
  Count merges{0};           ///< blocks released by taking the home and merging
  Count unchanged{0};        ///< open blocks that a release found as they were
  Count sole{0};             ///< blocks that became their home's alone
  Count shared{0};           ///< of them: blocks that another rank asked for
  Count migrated{0};         ///< homes that were taken by an acquire, before the block was written
  Count kept{0};             ///< blocks whose last published bytes stayed in the copy alone
  Count cooled{0};           ///< open blocks closed because they did not change
  Count sent{0};             ///< blocks released by sending what was written to their home
  Count sent_in_vain{0};     ///< the home could not take it, or was elsewhere: it was taken
  Count merged_alone{0};     ///< of the merges, those that needed no bytes
  Count copied_back{0};      ///< twins that were written to the former home
  Count put_bytes{0};        ///< carried to fixed homes, and copied back
  Count updates{0};          ///< atomic updates
  Count notices{0};          ///< made by releases
  Count invalidations{0};    ///< copies dropped, for whatever reason
  Count expirations{0};      ///< of them because their lease had ended
  Count renewals{0};         ///< leases that the owner renewed for itself
  Count sharer_messages{0};  ///< invalidations sent to sharers (directory)
  Count prefetched{0};       ///< blocks brought up to date at an acquire
  Count prefetch_hits{0};    ///< probes that were read: the prefetch is worth it
  Count prefetch_waste{0};   ///< probes that were not: it stops
  Count lock_hops{0};        ///< links followed to a block's home
  Count lock_waits{0};       ///< times that the home was taken and had to be waited for
  Count races{0};            ///< write-write races seen
  // Strong blocks.
  Count strong_reads{0};          ///< copies to read that came here
  Count strong_writes{0};         ///< copies to write that came here
  Count upgrades{0};              ///< of them by ranks that had a copy to read: no bytes were sent (manager)
  Count forwards{0};              ///< ranks asked to pass their copy on, cache to cache (manager)
  Count strong_invalidations{0};  ///< ranks told to drop their copies (manager)
  Count strong_releases{0};       ///< copies passed on that had something to be published first
  Count holds{0};                 ///< copies asked for with a time to keep them
  Count rises{0};                 ///< blocks that became strong (manager)
  Count falls{0};                 ///< blocks that became weak (manager)
  Count falls_called_off{0};      ///< because of an atomic operation (manager)
  Count releases{0};              ///< release fences
  Count acquires{0};              ///< acquire fences
  Count causal_acquires{0};       ///< of them: by faults that fetched (causal)
  Count heartbeats{0};  ///< of them and of releases: by a rank that had not synchronised for a while
  Count regions{0};     ///< of OpenMP programs, over several ranks, that this rank ran a part of
  // Time in nanoseconds, of all threads together.
  Count fault_ns{0};    ///< in faults
  Count barrier_ns{0};  ///< in barriers of the space
  Count mutex_ns{0};    ///< in locking and unlocking mutexes
  Count update_ns{0};   ///< in atomic updates

  static void add(Count& count, std::uint64_t amount = 1) noexcept {
    count.fetch_add(amount, std::memory_order_relaxed);
  }
};

}  // namespace craton::coherence
