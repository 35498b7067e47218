/// \file
/// MENPS (dissertation, chapter 3): release consistency for programs without data races, by one-sided
/// operations and a message now and then. Ranks read and write copies of blocks; a release makes a rank's
/// writes fetchable and says of which blocks they are; an acquire drops the copies that are too old for what
/// it was told.
///
///   LeaseRelease     a rank: what it knows of all ranks' releases; fences
///   LeaseSegment     the blocks of a segment of it: faults, merges (lease_segment.hpp)
///
/// Invariants, on which everything rests:
///  1. The home of a block has all published writes of it. Where homes float, the home is the rank whose
///  lease
///     word is open, and its copy is the application's own.
///  2. A copy with the times (w, r) has all writes published up to time w, and no write will be published at
///     a time in (w, r]: a publisher takes a time above every lease it finds at the home.
///  3. A rank uses a copy only if w is at least what the notices that it has acquired require, and r at least
///     its min_write_ts, which stands for all notices that it has not been given.
///  4. A write here is in the copy and not in the twin until it is published; or others have asked for the
///     block, which had none: then the next release tells of it (lease_segment_migrate.cpp).
///  5. A copy never goes back to before what it has had: what a thread has seen, and perhaps written over,
///     another thread's acquire does not take away (LeaseSegment::known_source).
///
/// In causal segments (Dials::causal), where data and then a flag is right without a flush between:
///  6. What a release publishes is a consistent cut of its rank's writes: all that may have been written is
///     closed before any of it is opened again, and each block until it is published.
///  7. Bytes of other ranks come into a copy only while it is closed: by fetches, merges and updates alike.
///  8. It is opened when this rank has acquired from each rank what that shows after the last release that
///     had begun there when the bytes came. So all that those bytes can be the effect of is known here.
///  9. The bytes of a sole block come before a release: one has begun, for others, when it is shared.
///
/// Threads: any thread of the rank calls; fault() also inside a signal handler. Errors: a dead rank ends the
/// calls with Error peer_lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/append_only.hpp"
#include "base/function_ref.hpp"
#include "coherence/bulletin.hpp"
#include "coherence/counters.hpp"
#include "coherence/dials.hpp"
#include "coherence/knowledge.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/lending.hpp"
#include "coherence/sending.hpp"
#include "coherence/signature.hpp"
#include "coherence/signature_exchange.hpp"
#include "coherence/sites.hpp"
#include "coherence/taking.hpp"
#include "fabric/fabric.hpp"
#include "fiber/fiber.hpp"
#include "vm/page_table.hpp"

namespace craton::coherence {

/// Two ranks wrote different values to the same bytes, and nothing ordered the writes.
struct Race {
  SegmentId segment;
  std::uint64_t block;
  std::size_t first_byte;  ///< in the block
  std::size_t bytes;       ///< how many, from there on, not all in a row
  fabric::Rank here;
  fabric::Rank there;  ///< who had merged before; it may have passed on the write of another
};

class Exclusive;

/// How others than the thread that is in a barrier of all ranks leave it: who acquires what is known only to
/// ranks that have left may be a handler of a signal on that very thread, or keep such a one waiting.
class BarrierExit {
 public:
  virtual ~BarrierExit() = default;
  /// Whether the thread is there, and not in the barrier's own code. Any thread, in conditions of waits.
  virtual bool can_leave() noexcept = 0;
  /// Leaves the barrier for its thread, unless another one does. Blocks. \throws Error peer_lost
  virtual void leave() = 0;
};

/// Memory under other rules whose order the fences make as well.
class FenceListener {
 public:
  virtual ~FenceListener() = default;
  /// There is something for before_release() to do. Any thread, also message handlers.
  virtual bool has_writes() const noexcept = 0;
  /// Makes what this rank wrote visible to the others, before any of them can learn of the release. Blocks.
  virtual void before_release() = 0;
  /// Sees to it that this rank sees what others made visible before, and calls `meanwhile` while it waits for
  /// that. Blocks. \throws Error peer_lost, and what `meanwhile` throws
  virtual void after_acquire(FunctionRef<void()> meanwhile) = 0;
};

/// A thread that releases for others who wait for that (causal).
class Releaser {
 public:
  virtual ~Releaser() = default;
  /// LeaseRelease::is_release_wanted() has become true: a release() is to come soon, whatever the program's
  /// threads do. Any thread, also message handlers, with locks of the protocol. Does not block.
  virtual void want_release() noexcept = 0;
};

class LeaseRelease {
 public:
  using RaceHandler = void (*)(void* context, const Race& race);

  /// \param handler the protocol's messages, the same on all ranks
  LeaseRelease(fabric::Fabric& fabric, fabric::HandlerId handler, SignatureExchange& exchange,
               Bulletin& bulletin, const SpaceDials& dials);
  ~LeaseRelease();
  LeaseRelease(const LeaseRelease&) = delete;
  LeaseRelease& operator=(const LeaseRelease&) = delete;

  /// Takes care of a segment, whose regions are registered on all ranks. Before any rank uses it: the caller
  /// sees to a barrier. Ids are given from 0 on, segments_at_most of them.
  /// \throws Error invalid_argument, out_of_resources
  LeaseSegment& add_segment(const SegmentSetup& setup);
  LeaseSegment& segment(SegmentId id) noexcept { return segments_[id]; }
  /// Before the first segment: causal ones have sole copies only where there is a releaser, which works until
  /// no rank's threads use them any more.
  void set_releaser(Releaser& releaser) noexcept { releaser_ = &releaser; }
  bool has_releaser() const noexcept { return releaser_ != nullptr; }
  /// Others have, or are about to get, bytes of this rank that they may not use before its next release.
  bool is_release_wanted() const noexcept { return uncut_.load(); }

  /// The release fence: what this rank's threads wrote before it is published, and others who look at this
  /// rank's signature learn of it. Blocks. \param is_at_place false: the program knows nothing of it, and
  /// what is learnt of when blocks are written goes on as if it had not been
  void release(bool is_at_place = true);
  /// The acquire fence: afterwards this rank sees what `ranks` had published, which are asked together; not
  /// this one. Blocks. \param site where in the program it is, for what prefetching learns
  void acquire(std::span<const fabric::Rank> ranks, std::uint32_t site = 0);
  void acquire(fabric::Rank rank, std::uint32_t site = 0) { acquire(std::span(&rank, 1), site); }
  /// The same of a rank that has sent along what it shows. \param view with the version that it was told,
  /// which this rank had acquired \param news SignatureExchange::encode_news
  void acquire(SignatureExchange::View& view, std::span<const std::byte> news, std::uint32_t site);
  /// A release, and an acquire from all ranks. What this rank has only learnt it does not show: who flushes
  /// asks all ranks. Blocks. \returns false: nothing was published, nor is there anything of others that this
  /// rank had not acquired
  bool flush();

  /// The halves of a barrier of all ranks: the release fence, whose signature goes to all, and the acquire
  /// fence, with the signatures of all; an empty one where no rank has anything to tell. Between them threads
  /// of this rank that are not in the barrier may release and acquire. Block. \returns all that an acquirer
  /// must know
  Signature release_to_all();
  /// \param is_last false: the next acquire of all follows at once; to it pinned blocks are left, for which
  /// this one might have to wait
  void acquire_from_all(const Signature& signature, std::uint32_t site = 0, bool is_last = true);
  /// What remains to do for the rank whose release_to_all() alone went to all, which acquire it.
  void told_all(const Signature& signature);
  /// The acquire fence of a meeting of some ranks only.
  void acquire_from_some(const Signature& signature, std::uint32_t site = 0);

  /// Calls `modify` on the newest value of a word of `bytes` bytes (1 to 8, aligned to as many). Updates of a
  /// word follow one after the other; each is a release before and an acquire after, as far as another rank's
  /// updates are concerned. Blocks. Where the block is or becomes strong: see Exclusive::update.
  void update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
              FunctionRef<void(std::byte* word)> modify);

  /// Before other threads use fences; outlives them. \param exit null: who acquires leaves all barriers to
  /// those who are in them
  void set_barrier_exit(BarrierExit* exit) noexcept { barrier_exit_ = exit; }
  /// Whether somebody waits for this rank to leave a barrier; BarrierExit::can_leave() may hold now, and the
  /// caller notifies the fabric then.
  bool barrier_is_awaited() const noexcept { return awaiting_barrier_.load(std::memory_order_seq_cst) != 0; }
  /// Likewise. \param listener null: none
  void set_fence_listener(FenceListener* listener) noexcept { listener_ = listener; }
  void set_race_handler(RaceHandler handler, void* context) noexcept {
    race_handler_ = handler;
    race_context_ = context;
  }
  /// What belongs to no segment: fences, mutexes, changes of strength.
  Counters& counters() noexcept { return counters_; }
  /// All ranks but this one.
  std::span<const fabric::Rank> others() const noexcept { return others_; }
  /// Of all ranks, that told anything and whose notices this rank has acquired.
  std::uint64_t barriers() const noexcept { return barriers_.load(std::memory_order_acquire); }
  /// The version of what a rank shows that this rank has acquired: SignatureExchange::look. Any thread.
  std::uint64_t acquired(fabric::Rank rank) const noexcept {
    return acquired_[rank].load(std::memory_order_acquire);
  }
  /// How often this rank has acquired from all ranks by a flush, where that takes a bulletin.
  std::uint64_t posts() const noexcept { return posts_.load(std::memory_order_acquire); }
  /// Write notices in what a barrier tells, at most.
  std::size_t barrier_capacity() const noexcept { return known_.capacity(); }
  /// Of this rank, in all.
  std::uint64_t count(Counters::Count Counters::*what) const noexcept {
    std::uint64_t sum = (counters_.*what).load(std::memory_order_relaxed);
    for (const auto& segment : segments_) sum += (segment->counters().*what).load(std::memory_order_relaxed);
    return sum;
  }
  /// By which all code waits that fences may run several times at a time.
  Interleaver& waits() noexcept { return waits_; }
  SignatureExchange& exchange() noexcept { return exchange_; }
  /// Null where no block can be strong.
  Exclusive* strong_blocks() noexcept { return exclusive_; }

 private:
  friend class Exclusive;
  friend class LeaseSegment;
  class Turn;
  enum class Message : std::uint32_t {
    lock_answer,  ///< `value` is a BlockLock::Answer
    drop,         ///< your copy is too old (directory)
    dropped,      ///< the answer
    share,        ///< others want copies of a block that is yours alone
    shared,       ///< the answer: `value` is what LeaseSegment::end_sole returned
    take,  ///< I want the lock and the home: TakeTerms; `value` is Taking::number, as in what answers it
    taken_bytes,  ///< some of them
    taken,        ///< the answer: TakenWords, and the rest of the bytes
    lend,         ///< I want to read it: LendTerms; `value` is Lending::number, as in what answers it
    lent,         ///< the answer: LentWords
    sent_part,    ///< pieces of what I have written; `value` is Sending::number, as in what follows
    sent,         ///< the rest: SendTerms, and pieces
    merged,       ///< the answer: MergedWords
    moved,        ///< I have all that I needed of your copy: `value` is the time for lease::moved_at
  };
  struct BlockMessage {
    Message kind;
    SegmentId segment;
    std::uint64_t block;
    std::uint64_t value;
  };

  /// Words behind a message.
  template <typename Rest>
  struct With {
    BlockMessage head;
    Rest rest;
  };

  /// To the dead: who waits will notice.
  template <typename Payload>
  void send(const Payload& payload, fabric::Rank to) {
    static_cast<void>(fabric_.send(to, handler_, &payload, sizeof payload));
  }
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void handle(fabric::Rank source, const BlockMessage& message, std::span<const std::byte> rest) noexcept;
  /// Whether a home at a rank is taken by messages.
  bool asks(fabric::Rank rank) const noexcept { return asked_[rank]; }
  Taking::All& takings() noexcept { return takings_; }
  Lending::All& lendings() noexcept { return lendings_; }
  Sending::All& sendings() noexcept { return sendings_; }
  void send_diff(fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t sending,
                 const SendTerms& terms, std::span<const DiffPiece> pieces) noexcept;
  void send_parts(fabric::Rank to, BlockMessage message, Message part, std::span<const std::byte> words,
                  std::span<const std::byte> bytes, std::size_t unit) noexcept;
  void send_taken(fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t taking,
                  const TakenWords& words, std::span<const std::byte> bytes) noexcept;
  void send(Message kind, fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t value) {
    send(BlockMessage{.kind = kind, .segment = segment, .block = block, .value = value}, to);
  }
  template <typename Rest>
  void send(Message kind, fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t value,
            const Rest& rest) {
    send(With<Rest>{.head = {.kind = kind, .segment = segment, .block = block, .value = value}, .rest = rest},
         to);
  }
  void publish_all(const Turn& turn, bool is_at_place, std::vector<WriteNotice>& notices);
  bool publish(bool is_at_place, FunctionRef<void(bool has_published)> tell);
  void show_to_all();
  bool flush_by_bulletin();
  bool acquire_told(const Bulletin::Told& told);
  bool show_if_published(std::uint64_t& shown);
  Exclusive& exclusive() noexcept;
  void acquire_blocks(const Signature& signature, SiteBits at);
  void open_expected(SiteBits at);
  bool acquire_shown(std::span<const fabric::Rank> ranks, std::uint32_t site);
  void acquire_views(std::span<SignatureExchange::View> views, bool is_news, SiteBits at);
  void arrive(std::uint32_t site);
  void await_barriers(std::uint64_t barriers);
  SiteBits come_to(std::uint32_t site) noexcept;
  void acquire_unshown(FunctionRef<void()> meanwhile);
  bool is_known(const WriteNotice& notice) noexcept;
  bool acquire_notices(const Signature& signature, SiteBits at, bool is_posted = false);
  void refresh_pinned();
  void passed_barrier() noexcept;
  bool has_writes() const noexcept;
  void learn_from_all();
  bool is_frozen() const noexcept { return frozen_.load(); }
  void begin_turn() noexcept;
  void end_turn() noexcept;
  void show_uncut() noexcept;
  void wait_to_write(const Block& block);
  void leave_cut(Block& block) noexcept;
  bool update_weak(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                   FunctionRef<void(std::byte* word)> modify);
  bool try_update_weak(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                       FunctionRef<void(std::byte* word)> modify);
  void report(const Race& race);

  fabric::Fabric& fabric_;
  const std::vector<fabric::Rank> others_;
  const fabric::HandlerId handler_;
  const std::vector<bool> asked_;  ///< by rank: asks()
  Taking::All takings_;
  Lending::All lendings_;
  Sending::All sendings_;
  SentParts sent_parts_;
  Counters counters_;
  Interleaver waits_;
  AppendOnly<LeaseSegment, segments_at_most> segments_;
  std::atomic<Timestamp> min_write_ts_{0};  ///< of all that this rank has acquired
  fiber::Mutex release_fence_;              ///< one at a time: nobody may take another's writes for published
  SignatureExchange& exchange_;
  Bulletin& bulletin_;
  fiber::Mutex posting_;  ///< from a post until what it was answered is acquired; taken after release_fence_
  std::atomic<std::uint64_t> posts_{0};
  Sites sites_;                                        ///< of acquires
  const SiteBits no_site_ = sites_.bit_of(no_site);    ///< that of flushes
  const SiteBits no_place_ = sites_.bit_of(no_place);  ///< and of heartbeats and faults
  std::atomic<std::uint8_t> place_{0};                 ///< of the last one: Sites::place_of
  std::atomic<SiteBits> unreleased_site_{0};           ///< of the last one, if no release has come since
  // Where segments are causal.
  std::atomic<bool> causal_{false};  ///< from the first such segment on
  Releaser* releaser_ = nullptr;
  StateLock turn_lock_;
  std::uint64_t turn_ = 0;           ///< under turn_lock_: see SignatureExchange::set_turn
  std::atomic<bool> uncut_{false};   ///< changed under turn_lock_: see show_uncut()
  std::atomic<bool> frozen_{false};  ///< nothing may be opened to be written: a release takes its cut
  std::atomic<std::uint32_t> waiting_to_write_{0};                    ///< threads
  const std::unique_ptr<std::atomic<std::uint64_t>[]> learnt_turns_;  ///< by rank, all that it had shown then
  Knowledge known_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> acquired_;  ///< by rank: the version of what it shows
  std::atomic<std::uint64_t> barriers_{0};                  ///< whose notices this rank has acquired
  bool pinned_are_due_ = false;                             ///< of the barrier's thread: see acquire_from_all
  Exclusive* exclusive_ = nullptr;                          ///< where there may be strong blocks
  FenceListener* listener_ = nullptr;
  BarrierExit* barrier_exit_ = nullptr;
  std::atomic<std::uint32_t> awaiting_barrier_{0};
  RaceHandler race_handler_ = nullptr;
  void* race_context_ = nullptr;
};

}  // namespace craton::coherence
