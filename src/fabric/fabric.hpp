/// \file
/// The fabric: one interface to the other ranks, whatever carries it. `WiredFabric` puts shm, tcp and ucx
/// behind it, `sim::SimFabric` a seeded scheduler. The contract below is tested as written by
/// `tests/fabric/conformance*`.
///
/// Contract
///  * One-sided operations (get, put, atomics) need nothing of the target's application threads. They are not
///    ordered among each other, nor with messages, until they are complete. Complete means: done at the
///    target and visible to whoever learns of it through the fabric.
///  * A get or put that lies in one line (`line_bytes`) and whose offset and size are divisible by 8 never
///  tears one of
///    its 8-byte words. Others may be seen half done, to the byte. (Memory controllers and network cards move
///    whole lines; FaRM, NSDI 2014, rests on the same.)
///  * Atomics are 64 bits wide at offsets divisible by 8, atomic with each other from all ranks, and
///  sequentially
///    consistent. A rank uses the fabric for its own words as well.
///  * Messages between a pair of ranks arrive once and in the order in which they were sent. Handlers of one
///  rank
///    run one at a time, on a thread that waits in the fabric or on the rank's agent. A handler must not
///    block or wait; it may issue operations and send messages.
///    It may run before its own rank has returned from register_region, since others may have.
///  * When a rank dies, operations to it complete with Status::peer_lost and sends to it are dropped.
///  * All functions may be called from any thread of the rank but where it says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/clock.hpp"
#include "base/events.hpp"
#include "base/function_ref.hpp"
#include "fabric/completion.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/region_table.hpp"
#include "fabric/types.hpp"
#include "fabric/words.hpp"

namespace craton::fabric {

/// \param source the rank that sent it
/// \param payload valid during the call only; aligned to 8 bytes
using Handler = void (*)(void* context, Rank source, const std::byte* payload, std::size_t bytes) noexcept;

class Fabric {
 public:
  virtual ~Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  Rank rank() const noexcept { return rank_; }
  Rank size() const noexcept { return regions_.size(); }
  virtual Node node_of(Rank rank) const noexcept = 0;
  /// How many threads each rank of this rank's host can run, so that all have a processor each; 0 if there
  /// are more ranks than processors. Ranks that only act as if on nodes of their own share their host as
  /// well.
  virtual std::uint32_t processors_a_rank() const noexcept = 0;
  virtual Capabilities capabilities(Rank peer) const noexcept = 0;
  /// False once the rank is known to be dead.
  virtual bool alive(Rank peer) const noexcept = 0;
  /// How many ranks are known to be dead. Costs a load; may be used in wait conditions, as may alive().
  Rank lost_ranks() const noexcept { return lost_ranks_.load(std::memory_order_acquire); }
  virtual const Clock& clock() const noexcept = 0;

  // ---- Regions. Collective: every rank calls with the same id in the same order, from one thread; blocks.

  /// Makes `memory` (of any size, also different ones) reachable by all ranks under `id` (below max_regions).
  /// The memory must outlive the region. \throws Error peer_lost, out_of_resources, invalid_argument
  virtual void register_region(RegionId id, const RegionMemory& memory) = 0;
  /// Ends a region after all ranks' operations on it. \throws Error peer_lost
  virtual void unregister_region(RegionId id) = 0;

  /// Size in bytes of a rank's part of a region; 0 if it is not registered.
  std::uint64_t region_bytes(Rank rank, RegionId region) const noexcept {
    const RegionPart* part = rank < size() ? regions_.find(rank, region) : nullptr;
    return part == nullptr ? 0 : part->bytes;
  }
  /// Where this rank can load and store the start of a rank's part (its own or a neighbour's), or null.
  std::byte* direct(Rank rank, RegionId region) const noexcept {
    const RegionPart* part = rank < size() ? regions_.find(rank, region) : nullptr;
    return part == nullptr ? nullptr : part->load_direct();
  }

  // ---- One-sided operations. None blocks but for room in a full queue. Out of bounds: assertion.

  /// Copies `bytes` bytes (0 and up) from a region to local memory.
  void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) {
    events::count_message(bytes, true);
    if (const std::byte* from = direct_range(source, bytes)) [[likely]] {
      copy_in(destination, from, bytes);
      completion.finish_inline(Status::ok);
    } else {
      start_get(destination, source, bytes, completion);
    }
  }
  /// Copies `bytes` bytes from local memory, which stays untouched until completion, to a region.
  void put(RemoteAddress destination, const void* source, std::size_t bytes, Completion& completion) {
    events::count_message(bytes);
    if (std::byte* to = direct_range(destination, bytes)) [[likely]] {
      copy_out(to, source, bytes);
      completion.finish_inline(Status::ok);
    } else {
      start_put(destination, source, bytes, completion);
    }
  }
  /// If the word is `expected`, makes it `desired`. `*previous` (not null) gets what it was before.
  void compare_exchange(RemoteAddress word, std::uint64_t expected, std::uint64_t desired,
                        std::uint64_t* previous, Completion& completion) {
    if (std::uint64_t* local = direct_word(word)) [[likely]] {
      std::uint64_t seen = expected;
      std::atomic_ref(*local).compare_exchange_strong(seen, desired);
      *previous = seen;
      completion.finish_inline(Status::ok);
    } else {
      start_atomic({AtomicKind::compare_exchange, expected, desired}, word, previous, completion);
    }
  }
  /// Adds, modulo 2^64. `*previous` (not null) gets what the word was before.
  void fetch_add(RemoteAddress word, std::uint64_t addend, std::uint64_t* previous, Completion& completion) {
    if (std::uint64_t* local = direct_word(word)) [[likely]] {
      *previous = std::atomic_ref(*local).fetch_add(addend);
      completion.finish_inline(Status::ok);
    } else {
      start_atomic({AtomicKind::fetch_add, addend, 0}, word, previous, completion);
    }
  }
  /// Stores `value`. `*previous` (not null) gets what the word was before.
  void swap(RemoteAddress word, std::uint64_t value, std::uint64_t* previous, Completion& completion) {
    if (std::uint64_t* local = direct_word(word)) [[likely]] {
      *previous = std::atomic_ref(*local).exchange(value);
      completion.finish_inline(Status::ok);
    } else {
      start_atomic({AtomicKind::swap, value, 0}, word, previous, completion);
    }
  }

  /// Waits until every operation that this rank issued to `target` before the call is complete. Blocks.
  virtual Status flush(Rank target) = 0;

  // ---- Messages

  /// Sets what runs when a message for `id` (first_free_handler and up) arrives. Messages that come earlier
  /// wait for it. Once for each id.
  virtual void set_handler(HandlerId id, Handler handler, void* context) = 0;
  /// Sends up to max_message_bytes bytes, which are copied before it returns. Blocks for room when the way is
  /// full; inside a handler or callback it queues instead. \returns peer_lost if the rank is known to be dead
  virtual Status send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) = 0;
  /// Makes the waiters of `target` look at their conditions again. Over a network, and on nodes that have
  /// one, a message; else it costs nobody anything where none sleeps. \returns peer_lost if the rank is known
  /// to be dead
  virtual Status wake(Rank target) { return send(target, wake_handler, nullptr, 0); }

  // ---- Waiting. The one wait primitive: polls for about 20 us, then sleeps; the rank's messages are served
  // by it.

  /// Blocks until `condition()` holds or the deadline (of clock()) passes. The condition is evaluated on the
  /// calling thread, often, until it holds; it must be cheap and must not call the fabric. It is looked at
  /// again after each message, each completion and each notify(); a plain put from another rank does not wake
  /// anybody by itself.
  /// \param patience it polls for so many times as long as usual: worth it for what is about to come from a
  /// thread that has a processor of its own, since to be woken takes longer than the usual time. Not for what
  /// an agent answers, which may need this one's processor.
  virtual Status wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns = no_deadline,
                            unsigned patience = 1) = 0;
  /// Blocks until the operations of `completion` are complete. \returns its status
  Status wait(Completion& completion) {
    if (completion.done()) [[likely]]
      return completion.status();
    if (wait_until([&completion] { return completion.done(); }) != Status::ok) return Status::timed_out;
    return completion.status();
  }
  /// Serves what has come, and does not wait: for a thread that is busy for long and has something that
  /// others ask for. Where no processor is idle an agent may have to wait for one. Costs some 0.3 us where
  /// nothing has come, with a network 2.
  void serve() {
    // wait_until looks, polls, and looks.
    unsigned looks = 0;
    static_cast<void>(wait_until([&looks] { return ++looks > 2; }));
  }
  /// Makes this rank's waiters look at their conditions again, after another of its threads has changed one.
  virtual void notify() noexcept = 0;

  // For a rank's threads in the background, which wait for something rare and must not wake, nor serve
  // anything, whenever there is a message.

  /// Blocks while `word` is `seen`, until wake_sleepers(word) or the deadline (of clock()). Serves nothing
  /// meanwhile. May return early for no reason: look again.
  virtual void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                           TimeNs deadline_ns) = 0;
  /// After a change of `word`. Async-signal-safe; also inside a handler or callback.
  virtual void wake_sleepers(const std::atomic<std::uint32_t>& word) noexcept = 0;

  // ---- Death of peers

  /// Called once for each rank that dies, on the agent or a waiting thread, with the rules of a handler.
  using PeerLostHandler = void (*)(void* context, Rank rank) noexcept;
  virtual void set_peer_lost_handler(PeerLostHandler handler, void* context) = 0;
  /// Tells the fabric that a rank has died (the launcher knows first). Idempotent, any thread.
  virtual void declare_lost(Rank peer) noexcept = 0;

 protected:
  Fabric(Rank rank, Rank size) : rank_(rank), regions_(size) {}

  virtual void start_get(void* destination, RemoteAddress source, std::size_t bytes,
                         Completion& completion) = 0;
  virtual void start_put(RemoteAddress destination, const void* source, std::size_t bytes,
                         Completion& completion) = 0;
  virtual void start_atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                            Completion& completion) = 0;

  /// For implementations: one more rank is known to be dead.
  void count_lost_rank() noexcept { lost_ranks_.fetch_add(1, std::memory_order_acq_rel); }
  RegionTable& regions() noexcept { return regions_; }
  const RegionTable& regions() const noexcept { return regions_; }
  /// Asserts that a range lies in a registered region of an existing rank.
  void check_range(RemoteAddress address, std::size_t bytes) const noexcept;

 private:
  /// The local address of a range in a mapped region; null if it is not mapped or out of bounds.
  std::byte* direct_range(RemoteAddress address, std::size_t bytes) const noexcept {
    if (address.rank >= regions_.size()) [[unlikely]]
      return nullptr;
    const RegionPart* part = regions_.find(address.rank, address.region);
    if (part == nullptr) [[unlikely]]
      return nullptr;
    std::byte* const direct = part->load_direct();
    if (direct == nullptr || address.offset > part->bytes || bytes > part->bytes - address.offset)
      return nullptr;
    return direct + address.offset;
  }
  std::uint64_t* direct_word(RemoteAddress word) const noexcept {
    if (word.rank >= regions_.size() || word.offset % 8 != 0) [[unlikely]]
      return nullptr;
    const RegionPart* part = regions_.find(word.rank, word.region);
    if (part == nullptr) [[unlikely]]
      return nullptr;
    std::byte* const direct = part->load_direct_atomics();
    if (direct == nullptr || part->bytes < 8 || word.offset > part->bytes - 8) return nullptr;
    return reinterpret_cast<std::uint64_t*>(direct + word.offset);
  }
  static void copy_in(void* destination, const std::byte* from, std::size_t bytes) noexcept {
    if (words_of_a_line(reinterpret_cast<std::uintptr_t>(from), bytes)) {
      copy_words_in(destination, from, bytes);
    } else if (bytes != 0) {
      std::memcpy(destination, from, bytes);
      std::atomic_thread_fence(std::memory_order_acquire);
    }
  }
  static void copy_out(std::byte* to, const void* source, std::size_t bytes) noexcept {
    if (words_of_a_line(reinterpret_cast<std::uintptr_t>(to), bytes)) {
      copy_words_out(to, source, bytes);
    } else if (bytes != 0) {
      std::memcpy(to, source, bytes);
      std::atomic_thread_fence(std::memory_order_release);
    }
  }

  const Rank rank_;
  std::atomic<Rank> lost_ranks_{0};
  RegionTable regions_;
};

}  // namespace craton::fabric
