/// \file
/// What a back end of WiredFabric implements, and what it may call. A transport carries operations to some
/// ranks and knows nothing of the others; it has no thread of its own: whoever waits polls, else the rank's
/// agent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.hpp"
#include "fabric/bootstrap.hpp"
#include "fabric/completion.hpp"
#include "fabric/flush_counter.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/types.hpp"

namespace craton::fabric {

/// What a transport tells its fabric. All but `local_part` and `room_made` are called from poll() only.
class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  /// A message has arrived. Runs its handler.
  virtual void message_arrived(Rank source, HandlerId handler, const std::byte* payload,
                               std::size_t bytes) = 0;
  /// A peer has announced its part of a region. \param direct where it is mapped here, or null
  virtual void region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* direct) = 0;
  /// A peer is gone: its connection broke without a farewell, and what was in flight to it has been
  /// completed.
  virtual void peer_lost(Rank peer, const char* cause) = 0;
  /// There is room again after a send was refused. Any thread, also under the transport's locks.
  virtual void room_made() noexcept {}
  /// A peer has said farewell; its connection may now end at any time.
  virtual void peer_left(Rank peer) = 0;
  /// This rank's own memory of a region, for transports that serve requests in software; data null if there
  /// is none.
  struct LocalPart {
    std::byte* data;
    std::uint64_t bytes;
  };
  virtual LocalPart local_part(RegionId region) const noexcept = 0;
};

/// Something that makes progress when it is polled and sleeps on a descriptor. See progress.hpp.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Does what can be done without blocking. One thread at a time. \returns true if anything happened
  virtual bool poll() = 0;
  /// Becomes readable when there is something to poll for; -1 if it has none (shm: the doorbell).
  virtual int descriptor() const noexcept { return -1; }
  /// Last look before sleeping on the descriptor: false if there is something to poll for after all.
  virtual bool ready_to_sleep() { return true; }
};

enum class CommandKind : std::uint8_t { get, put, atomic };

/// A one-sided operation as a value, for those who hand over several at once. With what a queue adds to it it
/// is 64 bytes.
struct Command {
  std::uint16_t rank;
  std::uint16_t region;
  CommandKind kind;
  AtomicKind atomic;
  std::uint64_t offset;
  void* local;             ///< where a get goes, where a put comes from, an atomic's `previous`
  Completion* completion;  ///< started
  std::uint64_t first;     ///< bytes of a get or put; of an AtomicOperation
  std::uint64_t second;    ///< of an AtomicOperation

  RemoteAddress address() const noexcept { return {.rank = rank, .region = region, .offset = offset}; }
};
static_assert(sizeof(Command) == 48);
static_assert(max_ranks <= 65536 && max_regions <= 65536);

/// Operations may be issued by any thread, also inside handlers. Arguments have been checked by the fabric.
/// An issuing call never blocks for the network; it may poll itself only if `can_block`.
class Transport : public Pollable {
 public:
  virtual const char* name() const noexcept = 0;
  virtual Capabilities capabilities() const noexcept = 0;

  /// What peers need to know to reach this rank, for Bootstrap::exchange.
  virtual std::string address() const = 0;
  /// Starts wiring to a peer with its address, before the first poll(). Wiring goes on in poll().
  virtual void connect(Rank peer, const std::string& address) = 0;
  /// True when a connected peer can be used.
  virtual bool connected(Rank peer) const noexcept = 0;

  /// Tells a peer about this rank's part of a region, which stays registered until withdraw_region.
  virtual void announce_region(Rank peer, RegionId region, const RegionMemory& memory) = 0;
  virtual void withdraw_region(RegionId region) = 0;

  // The completion has been started by the fabric; the transport finishes it.
  virtual void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) = 0;
  virtual void put(RemoteAddress destination, const void* source, std::size_t bytes,
                   Completion& completion) = 0;
  virtual void atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                      Completion& completion) = 0;
  /// Issues several at once, which costs less than one by one where the transport can put them together.
  /// \returns true if some may have completed within the call: whoever waits for them has not been told
  virtual bool issue(std::span<const Command> commands) {
    for (const Command& command : commands) issue_alone(command);
    return true;
  }
  /// Copies the payload and sends it. \returns false if there is no room now (only if `may_refuse`; else it
  /// queues)
  virtual bool send(Rank target, HandlerId handler, const void* payload, std::size_t bytes,
                    bool may_refuse) = 0;

  // For Fabric::flush.

  /// Counts what has been issued and is in flight to a peer; null if nothing ever is.
  virtual FlushCounter* flush_counter(Rank peer) noexcept = 0;
  /// What carries its operations, each with flush counters of its own: itself, but for one made of others.
  virtual std::size_t endpoints() const noexcept { return 1; }
  virtual Transport& endpoint(std::size_t /*index*/) noexcept { return *this; }
  /// How many operations have been handed over to be issued at an endpoint later.
  virtual std::uint64_t queued(std::size_t /*index*/) const noexcept { return 0; }
  /// Whether the first `count` of them have been issued, so that the endpoint's counters know of them. For
  /// conditions of waits: if not, waiters are notified when more have been.
  virtual bool issued(std::size_t /*index*/, std::uint64_t /*count*/) noexcept { return true; }

  /// The job ends in order: tells a peer that its connection's end is no death. Called again until it returns
  /// true: everything sent to the peer, the farewell last, is on its way.
  virtual bool say_farewell(Rank peer) = 0;
  /// The peer is dead. Completes what was in flight to it with peer_lost, at the latest in the next poll().
  /// Idempotent.
  virtual void disconnect(Rank peer) noexcept = 0;
  /// False while nothing more should be issued to the peer by a thread that can wait.
  virtual bool has_room(Rank /*peer*/) const noexcept { return true; }
  /// Why the last attempt to reach a peer failed; empty if none did. For people.
  virtual std::string last_failure() const { return {}; }
  /// get(), put() or atomic().
  void issue_alone(const Command& command) {
    switch (command.kind) {
      case CommandKind::get:
        return get(command.local, command.address(), command.first, *command.completion);
      case CommandKind::put:
        return put(command.address(), command.local, command.first, *command.completion);
      case CommandKind::atomic:
        return atomic({.kind = command.atomic, .first = command.first, .second = command.second},
                      command.address(), static_cast<std::uint64_t*>(command.local), *command.completion);
    }
  }
};

}  // namespace craton::fabric
