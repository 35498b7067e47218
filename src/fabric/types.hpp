/// \file
/// The words of the fabric: ranks, regions, addresses, outcomes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace craton::fabric {

/// A process of the job, 0 to size-1.
using Rank = std::uint32_t;
/// A set of ranks that can map each other's memory, numbered from 0 in order of their lowest rank.
using Node = std::uint32_t;
/// The name of a region, the same on every rank; chosen by the room that registers it.
using RegionId = std::uint32_t;
/// The name of a message handler, the same on every rank.
using HandlerId = std::uint16_t;

inline constexpr RegionId max_regions = 4096;   ///< region ids are below this
inline constexpr HandlerId max_handlers = 256;  ///< handler ids are below this
inline constexpr HandlerId wake_handler = 0;    ///< built in: runs nothing, wakes the target's waiters
inline constexpr HandlerId fabric_barrier_handler = 1;  ///< the fabric's own collective calls
inline constexpr HandlerId first_free_handler = 8;      ///< 1 to 7 are the fabric's own
inline constexpr Rank max_ranks = 4096;  ///< job size limit: bounds what a wire message may claim
/// Words of this much memory, aligned to as much, come whole: see the contract in fabric.hpp.
inline constexpr std::size_t line_bytes = 64;
/// What every transport carries in one message. Upper rooms may rely on it.
inline constexpr std::size_t max_message_bytes = 4096;

/// Outcome of an operation or a wait. Values are what the hot path can hand back without an exception.
enum class [[nodiscard]] Status : std::uint8_t{
    ok = 0,
    peer_lost,  ///< the other rank has died; what the operation did is not known
    timed_out,  ///< the deadline of a wait passed
};

/// A place in the memory of a rank: an offset in bytes into one of its regions.
struct RemoteAddress {
  Rank rank;
  RegionId region;
  std::uint64_t offset;
};

/// Who executes atomic operations on a rank's words (InfiniBand atomics are not atomic with those of the
/// CPU).
enum class AtomicDomain : std::uint8_t { cpu, nic };

enum class AtomicKind : std::uint8_t { compare_exchange = 0, fetch_add = 1, swap = 2 };

/// An atomic operation on a 64-bit word.
struct AtomicOperation {
  AtomicKind kind;
  std::uint64_t first;   ///< expected, addend, or the value to store
  std::uint64_t second;  ///< desired
};

/// What the way to a peer can do, so that upper rooms never ask which transport it is.
struct Capabilities {
  bool load_store;        ///< the peer's regions are mapped here: see Fabric::direct
  bool native_one_sided;  ///< get, put and atomics need no CPU of the target; where they do, a message that
                          ///< is answered costs no more than one of them
  AtomicDomain atomic_domain;  ///< who executes atomics on the peer's words, for every rank of the job
  std::size_t max_message_bytes;
  const char* transport;  ///< for people only: "self", "shm", "tcp", "ucx", "sim"
};

}  // namespace craton::fabric
