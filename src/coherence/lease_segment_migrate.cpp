/// \file
/// Blocks that migrate: ranks write them one after the other. Where that has been seen, the home comes with
/// the acquire that the writing follows, and not with the release after it; and what is published stays where
/// it was written, for the next rank to take it from there. So a block that goes to a rank and back is copied
/// once each way, not three times (to who fetches it, to the twin there, and to the twin again when it is
/// published). After migratory sharing in directory protocols (Cox and Fowler, ISCA 1993; Stenström et al.,
/// same place).
///
///     an acquire makes the copy old      take_ahead(): the lock, the bytes, and the home are here
///                                        *migrated*: dirty, `sole`, no twin
///     writes
///     a release, the block is closed     publish_kept(): *kept*, clean, the lease has a mark
///     a release, it stays open           it gets a twin, and is as any other
///
/// *Migrated.* As a sole copy (lease_segment_sole.cpp): who wants the block asks the home, which makes a twin
/// then. But other ranks may still use copies of before. What is written here until then gets into that twin,
/// and so to others, before it is released; that does no harm to programs without data races if the next
/// release tells of the block whatever it finds (`untold`): who must see the writes learns of them from it.
///
/// *Kept.* The home's copy is closed to writes and has the bytes; the twin is of some time before. The notice
/// says to ask the home, so all who come look at its lease first. Who takes the home has the block's lock,
/// and with that lock only the home writes the block again. Who fetches it takes the mark `sole` away first,
/// and when it has the bytes looks whether the home keeps them still; without `sole` the home makes a twin
/// before it writes (unkeep). While nobody has fetched it, a home that writes it again is as if it had just
/// taken it (write_kept).
#include <algorithm>
#include <cstring>

#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/taking.hpp"

namespace craton::coherence {

namespace {
/// A block that others asked for while it was written is not taken for so many acquires that bring it up to
/// date, and for twice as many each time.
constexpr unsigned first_delay = 4;
constexpr unsigned delay_doublings = 5;
/// One in so many probes' worth of homes that are taken gets a twin, by which the release sees whether the
/// block was written at all.
constexpr std::uint32_t looks_a_probe = 4;
}  // namespace

/// With `busy` and under the state lock, of a copy that an acquire has made old and that will be written. Not
/// by a flush: who spins with flushes would publish with the next one what nobody has written.
bool LeaseSegment::is_time_to_migrate(Block& block) const noexcept {
  if (block.taken_alone < dials_.migrate_after || block.dirty || block.pinned || block.behind) return false;
  if (block.migration_delay == 0) return true;
  --block.migration_delay;
  return false;
}

/// Under the state lock.
void LeaseSegment::disturbed(Block& block) noexcept {
  block.migration_delay = static_cast<std::uint8_t>(first_delay << block.times_disturbed);
  if (block.times_disturbed < delay_doublings) ++block.times_disturbed;
}

/// With `busy`, of a clean block whose home is elsewhere. Takes the home and brings the copy up to date, open
/// to reads or not; to be opened for writing by the caller. Waits for no lock: the thread may hold others,
/// for an atomic update. \returns false: it is being taken by another rank
bool LeaseSegment::take_ahead(std::uint64_t index, Block& block) {
  fabric::Rank home = fabric_.rank();
  Taking taking(space_.takings(), data(index), terms_to_take(block));
  const auto take = [&](fabric::Rank at) { return try_take(at, index, taking); };
  if (!lock_.try_lock(index, home, take, later_home(index, block))) return false;
  const Taken taken = take_home_from(home, index, block, taking, data(index));
  const Timestamp published_ts = std::max<Timestamp>(taken.published_ts, 1);
  const bool looks = dials_.probe_one_in != 0 && ++block.unlooked >= dials_.probe_one_in / looks_a_probe;
  if (looks) block.unlooked = 0;
  if (looks) std::memcpy(twin(index), data(index), block_bytes_);
  words_.set_own_updater(index, taken.updater);
  words_.set_own_write_ts(index, published_ts);
  list_dirty(index, block);
  block.unchanged = 0;
  block.cooled = false;
  {
    // Before anybody can see the mark, and ask; and after all that who asks may change.
    const StateGuard guard(block.state);
    block.copy_write_ts = published_ts;
    block.copy_read_ts = taken.leased_until;
    block.copied_from = 0;
    block.dirty = true;
    block.has_twin = looks;
    block.sole = block.untold = !looks;
  }
  expect_to_migrate(block);
  const std::uint64_t marks = looks ? 0 : lease::sole | lease::was_sole;
  words_.set_own_lease(index, lease::open_until(taken.leased_until) | lease::written | marks);
  lock_.unlock(index);
  Counters::add(counters_.migrated);
  return true;
}

/// With `busy`. Its home was taken to be written here, or it is a kept one that is written again; nobody has
/// asked for it since.
bool LeaseSegment::is_migrated(Block& block) const noexcept {
  const StateGuard guard(block.state);
  return block.sole && block.dirty;
}

/// The home is here and locked. \returns whether it stays open for writing
bool LeaseSegment::release_migrated(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  found_written(block);
  Counters::add(counters_.fast_releases);
  if (pages_.access(index) != vm::Access::write) {
    publish_kept(index, block, notices);
    found_closed(block);
    return false;
  }
  {
    const StateGuard guard(block.state);
    if (block.sole) end_sole_here(index, block);
  }
  expect_next_write(index, block);
  publish_at_home(index, block, notices);
  return true;
}

/// The home is here and locked, and the block closed to writes. It may have been asked for meanwhile.
void LeaseSegment::publish_kept(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  // With the mark `sole` until the lease says more: who finds it asks, and takes the mark away when it has
  // been answered, unless the lease has changed.
  const Timestamp write_ts =
      extend_for_write(fabric_.rank(), index, words_.own_write_ts(index), lease::sole | lease::kept, 0);
  {
    const StateGuard guard(block.state);
    block.sole = block.dirty = block.has_twin = false;
    note_published(index, block, write_ts);
    block.opened_after = 0;
    keep_in_heap(block, block.copy_read_ts);
  }
  block.clean_twin_ts = 0;
  tell_to_ask(index, write_ts, notices);
  Counters::add(counters_.kept);
}

/// With `busy`, of a clean block whose home is here and locked, and which is about to be written.
/// \returns whether it is a migrated one now; else it is not kept any more, and as any other
bool LeaseSegment::write_kept(std::uint64_t index, Block& block) {
  std::uint64_t seen = words_.own_lease(index);
  if (!lease::is_kept(seen)) return false;
  if (lease::is_sole(seen) && !block.pinned) {
    list_dirty(index, block);
    {
      // Before anybody can see that it is not kept any more, and ask.
      const StateGuard guard(block.state);
      block.sole = block.dirty = block.untold = true;
    }
    while (lease::is_sole(seen)) {
      const std::uint64_t before =
          words_.exchange_lease(fabric_.rank(), index, seen, (seen & ~lease::kept) | lease::was_sole);
      if (before == seen) {
        expect_to_migrate(block);
        return true;
      }
      seen = before;
    }
    // Somebody has fetched it. Unless it was ended by one who has seen an older mark:
    const StateGuard guard(block.state);
    if (block.sole) block.sole = block.dirty = block.untold = false;
  }
  unkeep(index, block);
  return false;
}

/// With `busy`, of a block that is to be written. The release that publishes it closes it, unless this rank
/// has been seen to write it again soon after that.
void LeaseSegment::expect_to_migrate(Block& block) noexcept {
  block.due_to_close.store(block.rarely_written || block.patience == 0, std::memory_order_relaxed);
}

/// With `busy`, of a block whose home is here and locked. From now on others get its twin.
void LeaseSegment::unkeep(std::uint64_t index, Block& block) {
  std::uint64_t seen = words_.own_lease(index);
  if (!lease::is_kept(seen)) return;
  std::memcpy(twin(index), data(index), block_bytes_);
  block.clean_twin_ts = words_.own_write_ts(index);
  for (;;) {
    const std::uint64_t before =
        words_.exchange_lease(fabric_.rank(), index, seen, seen & ~(lease::kept | lease::sole));
    if (before == seen) return;
    seen = before;
  }
}

}  // namespace craton::coherence
