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
///  4. A write here is in the copy and not in the twin until it is published.
///
/// Threads: any thread of the rank calls; fault() also inside a signal handler. Errors: a dead rank ends the
/// calls with Error peer_lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/function_ref.hpp"
#include "coherence/counters.hpp"
#include "coherence/dials.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/signature.hpp"
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

class LeaseRelease {
 public:
  using RaceHandler = void (*)(void* context, const Race& race);

  /// \param handler the protocol's messages, the same on all ranks
  LeaseRelease(fabric::Fabric& fabric, fabric::HandlerId handler, const SpaceDials& dials);
  ~LeaseRelease();
  LeaseRelease(const LeaseRelease&) = delete;
  LeaseRelease& operator=(const LeaseRelease&) = delete;

  /// Takes care of a segment, whose regions are registered on all ranks. Before any rank uses it: the caller
  /// sees to a barrier. Ids are given from 0 on. \throws Error invalid_argument, out_of_resources
  LeaseSegment& add_segment(const SegmentSetup& setup);
  LeaseSegment& segment(SegmentId id) noexcept { return *segments_[id]; }

  /// The release fence: what this rank's threads wrote before it is published. Blocks.
  /// \returns all that an acquirer must know
  Signature release();
  /// The same, but shows it: one release after the other, so that what is shown never grows less.
  using Show = FunctionRef<void(const Signature& own)>;
  void release(Show show);
  /// The acquire fence: afterwards this rank sees what was published before `signature` was made. Blocks.
  /// \param site where in the program it is, for what prefetching learns
  void acquire(const Signature& signature, std::uint32_t site = 0);
  /// How other ranks get to know what this one knows: see space::SignatureBoard.
  struct Exchange {
    Show show;
    FunctionRef<Signature(fabric::Rank rank)> look;
  };
  /// Calls `modify` on the newest value of a word of `bytes` bytes (1 to 8, aligned to as many). Updates of a
  /// word follow one after the other; each is a release before and an acquire after. Blocks.
  void update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
              FunctionRef<void(std::byte* word)> modify, const Exchange& exchange);
  /// All ranks have acquired what any has released: no acquire needs the notices so far again.
  void all_have_acquired();

  void set_race_handler(RaceHandler handler, void* context) noexcept {
    race_handler_ = handler;
    race_context_ = context;
  }
  Counters& counters() noexcept { return counters_; }

 private:
  friend class LeaseSegment;
  enum class Message : std::uint32_t {
    lock_answer,  ///< `value` is a BlockLock::Answer
    drop,         ///< your copy is too old (directory)
    dropped,      ///< the answer
  };
  struct BlockMessage {
    Message kind;
    SegmentId segment;
    std::uint64_t block;
    std::uint64_t value;
  };

  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void send(Message kind, fabric::Rank to, SegmentId segment, std::uint64_t block, std::uint64_t value);
  void acquire_notices(const Signature& signature, std::uint32_t site);
  void report(const Race& race);

  fabric::Fabric& fabric_;
  const fabric::HandlerId handler_;
  Counters counters_;
  std::vector<std::unique_ptr<LeaseSegment>> segments_;
  std::atomic<Timestamp> min_write_ts_{0};  ///< of all that this rank has acquired
  fiber::Mutex release_fence_;              ///< one at a time: nobody may take another's writes for published
  fiber::Mutex known_lock_;
  Signature known_;  ///< all that an acquirer of this rank must know
  RaceHandler race_handler_ = nullptr;
  void* race_context_ = nullptr;
};

}  // namespace craton::coherence
