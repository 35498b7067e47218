/// \file
/// The lock of a block, which is also the way to its home (dissertation, section 3.5.4, listing 3.3): a
/// queue lock whose queue is made of the ranks' links. Each rank's link points to the rank that took the
/// block after it; the last of the chain has it. Who wants it follows the links and hangs itself to the end
/// by one compare-exchange; if that is still held it waits for a message.
///
///     links     0 ──▶ 2 ──▶ 1 (unlocked: the home)          3 ──▶ 2
///     3 takes   0 ──▶ 2 ──▶ 1 ──▶ 3 (locked, then unlocked: the home)
///
/// Where homes are fixed the lock moves all the same, only the bytes stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "base/function_ref.hpp"
#include "coherence/block_words.hpp"
#include "coherence/counters.hpp"
#include "coherence/interleaver.hpp"
#include "fabric/fabric.hpp"

namespace craton::coherence {

/// The words of all ranks for the blocks of one segment.
class RemoteWords {
 public:
  using InitialHome = fabric::Rank (*)(const void* context, std::uint64_t block) noexcept;

  /// \param own this rank's words, registered as `region`
  RemoteWords(fabric::Fabric& fabric, Interleaver& waits, fabric::RegionId region, BlockWords* own,
              InitialHome initially, const void* context) noexcept
      : fabric_(fabric),
        waits_(waits),
        region_(region),
        own_(own),
        initial_home_(initially),
        context_(context) {}

  fabric::Rank initial_home(std::uint64_t block) const noexcept { return initial_home_(context_, block); }

  // ---- This rank's own

  std::uint64_t own_link(std::uint64_t block) const noexcept;
  std::uint64_t own_lease(std::uint64_t block) const noexcept;
  Timestamp own_write_ts(std::uint64_t block) const noexcept;
  bool own_exposed(std::uint64_t block) const noexcept;
  std::uint64_t own_updater(std::uint64_t block) const noexcept;
  void set_own_updater(std::uint64_t block, std::uint64_t value) noexcept;
  void set_own_link(std::uint64_t block, std::uint64_t value) noexcept;
  void set_own_lease(std::uint64_t block, std::uint64_t value) noexcept;
  void set_own_write_ts(std::uint64_t block, Timestamp value) noexcept;
  void set_own_exposed(std::uint64_t block, bool value) noexcept;
  // What others do by the functions below, for message handlers, which must not wait. All return what the
  // word was.
  std::uint64_t exchange_own_link(std::uint64_t block, std::uint64_t expected,
                                  std::uint64_t desired) noexcept;
  std::uint64_t swap_own_lease(std::uint64_t block, std::uint64_t value) noexcept;
  std::uint64_t exchange_own_lease(std::uint64_t block, std::uint64_t expected,
                                   std::uint64_t desired) noexcept;

  // ---- Any rank's, also this one's. All block. \throws Error peer_lost

  BlockWords get(fabric::Rank rank, std::uint64_t block);
  /// \returns what the word was
  std::uint64_t exchange_link(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                              std::uint64_t desired);
  std::uint64_t exchange_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                               std::uint64_t desired);
  std::uint64_t exchange_sharers(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                                 std::uint64_t desired);
  std::uint64_t swap_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t value);
  std::uint64_t swap_sharers(fabric::Rank rank, std::uint64_t block, std::uint64_t value);
  void put_write_ts(fabric::Rank rank, std::uint64_t block, Timestamp value);
  void put_updater(fabric::Rank rank, std::uint64_t block, std::uint64_t value);

  // ---- The same, begun. What they give is right once it has been decoded after the completion.

  void start_get(fabric::Rank rank, std::uint64_t block, BlockWords& words, fabric::Completion& completion) {
    fabric_.get(&words, address(rank, block, 0), offsetof(BlockWords, reserved), completion);
  }
  void decode(fabric::Rank rank, std::uint64_t block, BlockWords& words) const noexcept {
    words.link ^= initial_link(rank, block);
    words.lease ^= initial_lease(rank, block);
  }
  void start_swap_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t value, std::uint64_t& previous,
                        fabric::Completion& completion) {
    fabric_.swap(address(rank, block, offsetof(BlockWords, lease)), value ^ initial_lease(rank, block),
                 &previous, completion);
  }
  std::uint64_t decode_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t previous) const noexcept {
    return previous ^ initial_lease(rank, block);
  }

 private:
  std::uint64_t initial_link(fabric::Rank rank, std::uint64_t block) const noexcept {
    const fabric::Rank home = initial_home(block);
    return rank == home ? link::unlocked : link::to(home);
  }
  std::uint64_t initial_lease(fabric::Rank rank, std::uint64_t block) const noexcept {
    return rank == initial_home(block) ? lease::open_until(0) : lease::moved_at(0);
  }
  fabric::RemoteAddress address(fabric::Rank rank, std::uint64_t block, std::size_t word) const noexcept {
    return {.rank = rank, .region = region_, .offset = block * sizeof(BlockWords) + word};
  }
  std::uint64_t exchange(fabric::RemoteAddress word, std::uint64_t expected, std::uint64_t desired);
  std::uint64_t swap(fabric::RemoteAddress word, std::uint64_t value);
  void put(fabric::RemoteAddress word, std::uint64_t value);

  fabric::Fabric& fabric_;
  Interleaver& waits_;
  const fabric::RegionId region_;
  BlockWords* const own_;
  const InitialHome initial_home_;
  const void* const context_;
};

/// Waits for one-sided operations of the protocol. \throws Error peer_lost
void wait_for(fabric::Fabric& fabric, fabric::Completion& completion);
[[noreturn]] void throw_lost(fabric::Fabric& fabric);
/// Waits until other ranks have brought about what holds then. \param waits the fabric, or the Interleaver by
/// which the caller waits \throws Error peer_lost
template <typename Waits, typename Condition>
void wait_for(fabric::Fabric& fabric, Waits& waits, Condition holds) {
  const auto can_go_on = [&] { return holds() || fabric.lost_ranks() != 0; };
  if (waits.wait_until(can_go_on) != fabric::Status::ok || !holds()) throw_lost(fabric);
}

/// One thread of a rank at a time uses the lock of a block (its `Block::busy`).
class BlockLock {
 public:
  /// What a rank that waits in the queue is told.
  enum Answer : std::uint32_t {
    wait = 0,
    granted,  ///< it has the lock
    again,    ///< whom it queued behind has given up: on to where that one's link points
  };
  /// Sends an answer as a message. Its receiver stores it in the block's `answer`.
  using Tell = void (*)(void* context, fabric::Rank to, std::uint64_t block, Answer answer);
  /// Gets the link of a rank on the way from unlocked to this rank's, as RemoteWords::exchange_link does, and
  /// perhaps more where that succeeds. Blocks. \returns what the link was
  using Take = FunctionRef<std::uint64_t(fabric::Rank at)>;
  /// A Take that does no more.
  std::uint64_t try_take(fabric::Rank at, std::uint64_t block) {
    return words_.exchange_link(at, block, link::unlocked, link::to(fabric_.rank()));
  }

  BlockLock(fabric::Fabric& fabric, Interleaver& waits, RemoteWords& words, Counters& counters, Tell tell,
            void* context) noexcept
      : fabric_(fabric), waits_(waits), words_(words), counters_(counters), tell_(tell), context_(context) {}

  /// Takes the lock if this rank was the last to have it and nobody has it now. Costs an atomic instruction.
  bool try_lock_own(std::uint64_t block);
  /// The same in a handler, of a rank whose CPU serves all operations on its memory; and gives it back.
  bool try_lock_own_now(std::uint64_t block) noexcept;
  void unlock_now(std::uint64_t block) noexcept;
  /// Takes the lock if nobody has it now, wherever it is; fails only if somebody had it, or awaited it, in
  /// the meantime. Blocks for the network only, and while others try. \param before gets the rank that had it
  /// before, if it was taken
  /// \param later a rank that is known to have had the lock after this one: the way from there is shorter
  /// than from this rank's link
  bool try_lock(std::uint64_t block, fabric::Rank& before, Take take, std::optional<fabric::Rank> later = {});
  bool try_lock(std::uint64_t block, fabric::Rank& before) {
    return try_lock(block, before, [this, block](fabric::Rank at) { return try_take(at, block); });
  }
  /// Takes the lock. Blocks. \param answer set by the message of the rank before us \param later as above
  /// \returns the rank that had it before; this rank, if that was us. \throws Error peer_lost
  fabric::Rank lock(std::uint64_t block, std::atomic<std::uint32_t>& answer, Take take,
                    std::optional<fabric::Rank> later = {});
  fabric::Rank lock(std::uint64_t block, std::atomic<std::uint32_t>& answer) {
    return lock(block, answer, [this, block](fabric::Rank at) { return try_take(at, block); });
  }
  /// \returns the rank that has it now; this one, if nobody has
  fabric::Rank unlock(std::uint64_t block);
  /// A moment, for who waits for what is over soon and tells nobody. \throws Error peer_lost
  void pause();

 private:
  fabric::Rank unlocked(std::uint64_t block, std::uint64_t seen);

  fabric::Fabric& fabric_;
  Interleaver& waits_;
  RemoteWords& words_;
  Counters& counters_;
  const Tell tell_;
  void* const context_;
};

}  // namespace craton::coherence
