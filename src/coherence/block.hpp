/// \file
/// What a rank knows of its own copy of a block. Other ranks never see it; what they see is in
/// block_words.hpp.
///
/// The states of the dissertation's figure 3.19 are three facts, each kept where it is used:
///   access   none, read, write: what the page table allows          (vm::PageTable)
///   usable   the copy is new enough for what this rank has acquired  (the timestamps below)
///   dirty    it has writes of this rank that no release has published
/// "invalid dirty" is access none and dirty; "pinned" is access write that no acquire and no release takes
/// away.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/error.hpp"
#include "coherence/sites.hpp"
#include "coherence/state_lock.hpp"
#include "coherence/timestamp.hpp"
#include "fabric/types.hpp"
#include "fiber/fiber.hpp"

namespace craton::coherence {

/// All zero bytes are a block that was never touched: see ZeroedArray.
struct Block {
  /// Held by the thread that fetches, opens, merges or releases the block; over remote operations.
  fiber::Mutex busy;
  /// Held while the copy's timestamps or the block's access change; never over anything that blocks.
  StateLock state;

  // Written by messages.
  std::atomic<std::uint32_t> answer;    ///< see BlockLock::lock
  std::atomic<std::uint32_t> acks_due;  ///< sharers that have not answered an invalidation (directory)
  std::atomic<Timestamp> shared_ts;     ///< the answer to LeaseSegment::share; 0: none yet

  // Under `state`.
  Timestamp copy_write_ts;    ///< the copy has all writes up to this one
  Timestamp copy_read_ts;     ///< and no other is older than this
  Timestamp required_ts;      ///< a copy without the write of this time is old
  Timestamp source_write_ts;  ///< where one get brings that write from: its notice
  Timestamp source_read_ts;
  fabric::Rank source;
  fabric::Rank told_by;  ///< whose write was the last, or its home then, as far as notices tell
  Timestamp told_ts;     ///< and when; 0: none does
  /// One plus the rank whose twin the copy was fetched from last: it may have had later writes in it already.
  /// 0: the copy has none that are later than copy_write_ts.
  std::uint32_t copied_from;
  /// The home is, or was, here, and its twin has what this rank has not acquired (put_by.hpp). Changed under
  /// `busy` as well.
  bool behind;
  /// No other rank has a copy that it may use, or it is `untold`: the block is open for writing, and has no
  /// twin. Dirty, if it has to be published: see lease_segment_migrate.cpp. Becomes false without `busy`, by
  /// a message.
  bool sole;
  std::uint8_t lease_doublings;  ///< see LeaseSegment::terms_for
  std::uint8_t times_shared;     ///< how often that ended
  /// Its home was taken to be written here, and other ranks may use copies of before: the next release tells
  /// them, changed or not.
  bool untold;
  std::uint8_t migration_delay;  ///< so many acquires do not take its home
  std::uint8_t times_disturbed;  ///< how often others asked for it while it was written, its home taken so
  bool dropped;                  ///< by its home (directory)
  bool fetched;                  ///< at least once (directory)
  // What prefetching has learnt.
  SiteBits wanted_after;     ///< acquires at these places: it was used afterwards
  SiteBits written_after;    ///< and written: those open it for writing
  SiteBits opened_after;     ///< the acquire at this place did so, and no release has found it changed since
  SiteBits closed_after;     ///< the acquire at this place closed it, or told of a block never used; 0: none
                             ///< did, or it was used since
  SiteBits read_after;       ///< then it was, by reading
  std::uint32_t closed_at;   ///< this rank's releases when that acquire came
  bool probed;               ///< and did so to see whether it is still used
  std::uint8_t hits;         ///< probes in a row after which it was used
  std::uint32_t next_probe;  ///< after so many prefetches

  /// Its strength is not what its segment's dial says. From weak to strong under `busy` as well, so that who
  /// works on a weak block under `busy` is not overtaken.
  std::atomic<bool> strength_changed;

  // Under `busy`; while the block is sole, under `state`.
  bool dirty;
  bool has_twin;             ///< the twin is what the copy started from
  Timestamp clean_twin_ts;   ///< so it is of a clean copy too, if this is the write that the home has now
  std::uint16_t sole_delay;  ///< so many releases do not try to have it alone

  // Under `busy`.
  bool seen;                     ///< it has been open; becomes true under `state` as well
  bool pinned;                   ///< its access is never taken away
  std::uint64_t arrivals;        ///< how often bytes of other ranks came into the copy (causal)
  std::uint64_t learnt_arrival;  ///< the last of them of which this rank has learnt what went before
  std::uint8_t taken_alone;      ///< releases in a row that took its home and found it `alone`
  std::uint8_t unlooked;    ///< homes taken by acquires in a row without a twin to see whether it was written
  bool alone;               ///< when its home was taken, nobody else had written it since the copy was made
  std::uint16_t unchanged;  ///< releases in a row that found the open block as it was
  std::uint8_t patience;    ///< how much longer it stays open than others: see LeaseSegment::learn_gap
  std::uint8_t returned;    ///< how often a release took its home back from another rank
  std::uint8_t sent_alone;  ///< releases in a row that sent it something, and nobody else had since
  Timestamp sent_ts;        ///< when the last of that was published
  bool rarely_written;      ///< so seldom that it is best closed by the release that publishes it
  std::uint8_t opened_with;  ///< so many blocks, itself among them, by one fault or acquire
  /// By place of the acquire before (Sites::place_of): the number of the program's release that found, or was
  /// to find, that it had been written after it.
  std::array<std::uint32_t, Sites::places> written_in;
  static constexpr std::uint32_t never = 0;                      ///< no release has looked at it there
  static constexpr std::uint32_t not_there = ~std::uint32_t{0};  ///< it was open, and never found written
  bool cooled;                                                   ///< closed by a release
  std::uint16_t cooled_look_ns;                                  ///< when a look at a page cost so much
  std::uint32_t cooled_at;                                       ///< LeaseSegment::fences then
  /// By the next release, before that looks at it. Changed under `busy`.
  std::atomic<bool> due_to_close;
  /// A release has still to look at it, and it may not be written until then (causal).
  std::atomic<bool> in_cut;

  // Under the segment's list lock.
  bool listed;  ///< as dirty
  std::uint64_t next_listed;

  // Under the segment's heap lock.
  bool in_heap;
  Timestamp heap_key;
  Block* heap_left;
  Block* heap_right;
};

/// An array whose elements are valid as zero bytes, so that those which nobody touches cost no memory.
template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  /// \throws Error out_of_resources
  explicit ZeroedArray(std::size_t count) : count_(count) {
    void* const memory =
        ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      throw Error::from_errno("cannot keep account of the blocks of a segment", errno);
    elements_ = static_cast<T*>(memory);
  }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;
  ~ZeroedArray() { ::munmap(elements_, bytes()); }

  T& operator[](std::size_t index) noexcept { return elements_[index]; }
  const T& operator[](std::size_t index) const noexcept { return elements_[index]; }
  std::size_t size() const noexcept { return count_; }
  std::size_t index_of(const T& element) const noexcept {
    return static_cast<std::size_t>(&element - elements_);
  }

 private:
  std::size_t bytes() const noexcept { return (count_ == 0 ? 1 : count_) * sizeof(T); }

  std::size_t count_;
  T* elements_ = nullptr;
};

/// The accessible copies in order of the end of their leases: a skew heap (Sleator and Tarjan 1986), which
/// lies in the blocks and so allocates nothing. Not for several threads.
class LeaseHeap {
 public:
  Block* first() const noexcept { return root_; }
  void insert(Block& block, Timestamp key) noexcept {
    block.in_heap = true;
    block.heap_key = key;
    block.heap_left = block.heap_right = nullptr;
    root_ = meld(root_, &block);
  }
  Block& pop() noexcept {
    Block& popped = *root_;
    root_ = meld(popped.heap_left, popped.heap_right);
    popped.in_heap = false;
    return popped;
  }

 private:
  static Block* meld(Block* left, Block* right) noexcept {
    Block* root = nullptr;
    Block** hook = &root;
    while (left != nullptr && right != nullptr) {
      if (right->heap_key < left->heap_key) {
        Block* const smaller = right;
        right = left;
        left = smaller;
      }
      *hook = left;
      hook = &left->heap_left;
      Block* const next = left->heap_right;
      left->heap_right = left->heap_left;  // the sides change places: that keeps it shallow on average
      left = next;
    }
    *hook = left != nullptr ? left : right;
    return root;
  }

  Block* root_ = nullptr;
};

}  // namespace craton::coherence
