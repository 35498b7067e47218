/// \file
/// Blocks that are their home's alone: no other rank has a copy that it may use. The home writes them without
/// twins, comparisons and notices, and need not renew their leases.
///
///     home                                       another rank
///     release: notice "ask the home",
///     lease: over, with the mark `sole`
///     writes, releases ...                       finds the mark
///                                   ◀── share ──
///     end_sole: twin := copy, listed as dirty
///                                   ── shared ─▶ takes the mark away, asks for a lease as ever
///
/// Why that is right: the notice makes all copies of others old, as each notice does, and it names nobody to
/// get new ones from, so that whoever has acquired it comes to the home. All later releases of this rank tell
/// the notice as well. At the home others get what is in memory when they have been answered, which is no
/// less than all releases before it. What is written after that differs from the twin, and the next release
/// finds the block listed.
///
/// That takes an order: who writes, then releases, has its write in memory when it looks at the list; who
/// copies the block to the twin has listed it before. If the look finds the block unlisted, the block was not
/// yet copied, and the write is in there.
///
/// In causal segments the home closes the block before it copies it, and no other rank uses the copy before
/// the home has released what it wrote until then: LeaseRelease::show_uncut.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"

namespace craton::coherence {

namespace {
constexpr unsigned sole_delay_doublings = 8;
}  // namespace

/// With `busy`. Whether a release of a block at home should try to have it alone.
bool LeaseSegment::is_time_for_sole(Block& block) const noexcept {
  if (!dials_.sole_copies || block.pinned || block.behind) return false;
  if (block.sole_delay == 0) return true;
  --block.sole_delay;
  return false;
}

/// Releases that look at the block until it is tried again.
std::uint16_t LeaseSegment::sole_delay_after(const Block& block) const noexcept {
  const unsigned doublings = std::min<unsigned>(block.times_shared, sole_delay_doublings);
  return static_cast<std::uint16_t>(dials_.sole_delay << doublings);
}

/// With `busy` and the block's own lock: the home is here, and open for writing. It is published for the last
/// time.
void LeaseSegment::publish_as_sole(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  {
    // Before anybody can see the mark, and ask.
    const StateGuard guard(block.state);
    block.sole = true;
    block.dirty = block.has_twin = false;
  }
  const Timestamp write_ts =
      extend_for_write(fabric_.rank(), index, words_.own_write_ts(index), lease::sole | lease::was_sole, 0);
  {
    // It may have ended already, by one who has seen an older mark, or by one who was quick.
    const StateGuard guard(block.state);
    note_published(index, block, write_ts);
  }
  tell_to_ask(index, write_ts, notices);
  Counters::add(counters_.sole);
}

/// Under the state lock, of a block that was published here, and may have been asked for since.
void LeaseSegment::note_published(std::uint64_t index, Block& block, Timestamp write_ts) noexcept {
  words_.set_own_write_ts(index, std::max(words_.own_write_ts(index), write_ts));
  block.copy_write_ts = std::max(block.copy_write_ts, write_ts);
  block.copy_read_ts = std::max(block.copy_read_ts, write_ts);
  block.copied_from = 0;
  block.untold = false;
}

/// Of a block that was published here, and whose bytes only its home knows where to get.
void LeaseSegment::tell_to_ask(std::uint64_t index, Timestamp write_ts, std::vector<WriteNotice>& notices) {
  notices.push_back({.source = WriteNotice::ask_home | fabric_.rank(),
                     .segment = id_,
                     .block = index,
                     .write_ts = write_ts,
                     .read_ts = write_ts});
  Counters::add(counters_.notices);
}

/// What a home does when others want copies: from now on its writes can be told from what they get. Does not
/// block: also in message handlers, without `busy`. \returns a time no earlier than that of the last write
/// that was published, and earlier than any that comes
Timestamp LeaseSegment::end_sole(std::uint64_t index, Block& block) {
  {
    const StateGuard guard(block.state);
    if (!block.sole) return words_.own_write_ts(index);
    if (block.dirty) {
      disturbed(block);
    } else {
      block.sole_delay = sole_delay_after(block);
      if (block.times_shared < sole_delay_doublings) ++block.times_shared;
    }
    end_sole_here(index, block);
  }
  Counters::add(counters_.shared);
  return words_.own_write_ts(index);
}

/// Under the state lock.
void LeaseSegment::end_sole_here(std::uint64_t index, Block& block) {
  block.sole = false;
  if (dials_.causal) {  // the copy is to be of one moment, before which the next release begins
    if (pages_.access(index) == vm::Access::write) pages_.set_access(index, vm::Access::read);
    space_.show_uncut();
  }
  // Listed, and seen to be by all, before the copy: what comes too late for the twin must be found by the
  // release that follows it. That one waits for the state lock.
  list_dirty(index, block);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::memcpy(twin(index), data(index), block_bytes_);
  block.dirty = block.has_twin = true;
  block.unchanged = 0;
  block.cooled = false;
  const std::uint64_t own = words_.own_lease(index);
  if (!lease::is_open(own)) {  // it is being taken, by one who may have a copy of before, and publishes it
    words_.set_own_write_ts(index, words_.own_write_ts(index) + 1);
  } else {
    const Timestamp now = later_than(lease::time(own), words_.own_write_ts(index),
                                     space_.min_write_ts_.load(std::memory_order_acquire));
    words_.set_own_write_ts(index, now);
    block.copy_write_ts = block.copy_read_ts = now;
  }
  keep_in_heap(block, block.copy_read_ts);
}

/// With `busy` and the release fence, of a block that a cut has closed and that was just published as sole
/// (causal). If that has not ended already.
void LeaseSegment::open_sole(std::uint64_t index, Block& block) {
  const StateGuard guard(block.state);
  if (block.sole) pages_.set_access(index, vm::Access::write);
}

/// With `busy`. Asks a home to end_sole(). \returns what that returned. \throws Error peer_lost
Timestamp LeaseSegment::share(fabric::Rank home, std::uint64_t index) {
  Block& block = states_[index];
  block.shared_ts.store(0, std::memory_order_relaxed);
  space_.send(LeaseRelease::Message::share, home, id_, index, 0);
  wait_for(fabric_, waits_, [&] { return block.shared_ts.load(std::memory_order_acquire) != 0; });
  return block.shared_ts.load(std::memory_order_acquire);
}

}  // namespace craton::coherence
