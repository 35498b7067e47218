/// \file
/// Releases: publishing what this rank has written (dissertation, sections 3.4.2, 3.4.6, 3.5.3 and 3.5.4).
#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"

namespace craton::coherence {

namespace {

constexpr std::size_t page_bytes = 4096;
/// A look at a page costs so much where it and its twin are in the cache, at least so much where they come
/// from memory, and more than the last only where the thread was interrupted.
constexpr std::uint32_t cached_look_ns = 100;
constexpr std::uint32_t dear_look_ns = 400;
constexpr std::uint32_t longest_look_ns = 1600;
/// One in so many looks is timed.
constexpr std::uint32_t looks_a_sample = 8;

std::uint64_t bit_of(fabric::Rank rank) noexcept {
  return std::uint64_t{1} << std::min<fabric::Rank>(rank, 63);  // the last bit is for all from 63 on
}

constexpr std::size_t pages_of(std::size_t bytes) noexcept {
  return std::max<std::size_t>(bytes / page_bytes, 1);
}

/// Another thread may have listed a block, to write it, before the last release had it alone: that one stays
/// open.
constexpr auto is_not_alone = [](std::uint64_t /*index*/, const Block& block) {
  return !block.sole || block.dirty;
};

}  // namespace

/// \param site of the acquire that this release follows, if it is the first one; else 0
void LeaseSegment::release_all(bool is_at_place, SiteBits site, std::vector<WriteNotice>& notices) {
  if (!dials_.causal && !has_writes()) return expect_writes(site, {});
  interval_ = releases_.load(std::memory_order_relaxed) + 1;
  if (is_at_place) releases_.store(interval_, std::memory_order_relaxed);
  std::vector<std::uint64_t> listed;
  if (dials_.causal) {
    listed.swap(cut_);
  } else {
    listed = take_listed();
    close_due(listed);
  }
  std::vector<std::uint64_t> elsewhere;
  for (const std::uint64_t index : listed) {
    Block& block = states_[index];
    const std::lock_guard busy(block.busy);
    if (!is_dirty(block)) {
      space_.leave_cut(block);
      continue;
    }
    if (floating() && lock_.try_lock_own(index)) {
      if (release_at_home(index, block, notices)) list_dirty(index, block);
      lock_.unlock(index);
      space_.leave_cut(block);
    } else {
      elsewhere.push_back(index);
    }
  }
  release_elsewhere(elsewhere, notices);
  expect_writes(site, listed);
  if (dials_.causal && dials_.open_ahead != 0) open_again(listed);
}

/// What a cut has closed, and has been written since the last one: it probably will be again.
void LeaseSegment::open_again(std::vector<std::uint64_t>& closed) {
  const std::uint8_t place = space_.place_.load(std::memory_order_relaxed);
  std::erase_if(closed, [&](std::uint64_t index) { return states_[index].written_in[place] != interval_; });
  open_closed(closed, 0);
}

/// What may have been written since the last release.
std::vector<std::uint64_t> LeaseSegment::take_listed() {
  std::vector<std::uint64_t> listed;
  const StateGuard guard(list_lock_);
  for (std::uint64_t next = first_listed_.exchange(0, std::memory_order_relaxed); next != 0;) {
    Block& block = states_[next - 1];
    listed.push_back(next - 1);
    next = block.next_listed;
    block.listed = false;
  }
  return listed;
}

/// While the space is frozen. What has been written is what the release publishes that follows: each block is
/// closed to writes until that has looked at it. Only the list's lock orders this with who has listed a block
/// and looks: see open().
void LeaseSegment::cut() {
  cut_ = take_listed();
  std::sort(cut_.begin(), cut_.end());
  for (const std::uint64_t index : cut_) {
    states_[index].in_cut.store(true);
    interleave();
  }
  constexpr std::size_t at_a_time = 256;  // whose state others wait for meanwhile
  for (std::size_t first = 0; first < cut_.size(); first += at_a_time) {
    close_to(vm::Access::read, std::span(cut_).subspan(first, std::min(at_a_time, cut_.size() - first)),
             is_not_alone);
  }
}

/// What was written after the acquire at a place is expected to be written after the next one there, which
/// opens it, where a release has closed it. By releases.
void LeaseSegment::expect_writes(SiteBits site, std::span<const std::uint64_t> listed) {
  if (site == 0 || dials_.open_ahead == 0 || !fast()) return;
  if (listed.empty() && (expecting_.load(std::memory_order_relaxed) & site) == 0) return;
  const std::uint8_t place = Sites::place_of(site);
  std::vector<std::uint64_t> written;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(written),
               [&](std::uint64_t index) { return states_[index].written_in[place] == interval_; });
  if (written.empty()) {
    expecting_.fetch_and(~site, std::memory_order_relaxed);
  } else {
    expecting_.fetch_or(site, std::memory_order_relaxed);
  }
  const StateGuard guard(expected_lock_);
  expected_[Sites::index_of(site)].swap(written);
}

/// Takes write access away from what is not written for a while, neighbours with one system call, before it
/// is looked at: it is published where it was written after all, and no release looks at it again.
void LeaseSegment::close_due(std::span<const std::uint64_t> listed) {
  std::vector<std::uint64_t> close;
  std::copy_if(listed.begin(), listed.end(), std::back_inserter(close), [&](std::uint64_t index) {
    return states_[index].due_to_close.load(std::memory_order_relaxed);
  });
  std::sort(close.begin(), close.end());
  close_to(vm::Access::read, close, is_not_alone);
}

/// Releases blocks whose home is not here, many at a time.
void LeaseSegment::release_elsewhere(const std::vector<std::uint64_t>& indices,
                                     std::vector<WriteNotice>& notices) {
  const auto release_one = [&](std::uint64_t index) {
    Block& block = states_[index];
    if (is_dirty(block) && release(index, block, notices)) list_dirty(index, block);
    space_.leave_cut(block);
  };
  std::vector<std::uint64_t> later;
  space_.waits().run(indices.size(), [&](std::size_t i) {
    const std::unique_lock busy(states_[indices[i]].busy, std::try_to_lock);
    if (busy.owns_lock()) {
      release_one(indices[i]);
    } else {
      later.push_back(indices[i]);
    }
  });
  // A thread that handles a fault has these. It may wait for a rank that waits for one of the blocks above.
  for (const std::uint64_t index : later) {
    const std::lock_guard busy(states_[index].busy);
    release_one(index);
  }
}

/// With `busy`, of a dirty block. \returns whether it stays open for writing
bool LeaseSegment::release(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  if (!floating()) return merge_at_fixed_home(index, block, notices);
  if (lock_.try_lock_own(index)) {
    const bool stays_open = release_at_home(index, block, notices);
    lock_.unlock(index);
    return stays_open;
  }
  settle(index, block);
  return merge_and_move(index, block, notices);
}

/// With `busy`. What others ask for may change meanwhile.
bool LeaseSegment::is_dirty(Block& block) noexcept {
  const StateGuard guard(block.state);
  return block.dirty;
}

/// The home is here and locked: the writes are where they belong already.
bool LeaseSegment::release_at_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  if (is_migrated(block)) return release_migrated(index, block, notices);
  const auto make_clean = [&] {
    words_.set_own_exposed(index, false);
    block.dirty = block.has_twin = false;
    block.clean_twin_ts = has_published_twins() ? words_.own_write_ts(index) : 0;
    return false;
  };
  const auto publish_here = [&] {
    if (events::wants(events::sharing) && block.has_twin) [[unlikely]]
      note_writes(index, false);
    found_written(block);
    renew_published_twin(index);
    publish_at_home(index, block, notices);
    Counters::add(counters_.fast_releases);
  };
  if (fast() && pages_.access(index) != vm::Access::write) {
    if (found_closed(block)) {
      if (block.sole_delay != 0) --block.sole_delay;
      if (has_nothing_to_tell(index, block)) {
        Counters::add(counters_.unchanged);
        opened_for_nothing(block);
        return make_clean();
      }
      block.unchanged = 0;
    }
    publish_here();
    return make_clean();
  }
  if (fast() && !dials_.hot_blocks) {
    publish_here();
    return true;
  }
  if (!fast()) {
    close_to_reads(index, block);
    if (unchanged(index)) {
      Counters::add(counters_.unchanged);
    } else if (!strong(index) && is_time_for_sole(block)) {
      found_written(block);
      publish_as_sole(index, block, notices);
      open_sole(index, block);
      return false;
    } else {
      publish_here();
    }
    return block.pinned || make_clean();
  }
  if (has_nothing_to_tell(index, block)) {
    Counters::add(counters_.unchanged);
    found_unchanged(block);
    return true;
  }
  if (is_time_for_sole(block)) {
    found_written(block);
    publish_as_sole(index, block, notices);
    return false;
  }
  found_changed(index, block);
  publish_here();
  return true;
}

/// With `busy`, of a dirty block with a twin. Times the comparison now and then.
bool LeaseSegment::finds_unchanged(std::uint64_t index) noexcept {
  const std::uint32_t looks = looks_.load(std::memory_order_relaxed);
  looks_.store(looks + 1, std::memory_order_relaxed);
  if (looks % looks_a_sample != 0) return unchanged(index);
  const Clock& clock = fabric_.clock();
  const TimeNs began_ns = clock.now_ns();
  if (!unchanged(index)) return false;  // it ended at the first difference
  const TimeNs pages = static_cast<TimeNs>(pages_of(block_bytes_));
  const TimeNs took_ns = std::min<TimeNs>((clock.now_ns() - began_ns) / pages, longest_look_ns);
  constexpr TimeNs weight = 16;
  const TimeNs before_ns = look_ns_.load(std::memory_order_relaxed);
  const TimeNs mean_ns = before_ns == 0 ? took_ns : (before_ns * (weight - 1) + took_ns) / weight;
  look_ns_.store(static_cast<std::uint32_t>(mean_ns), std::memory_order_relaxed);
  return true;
}

/// With `busy`; of an open block that a release found unchanged.
void LeaseSegment::found_unchanged(Block& block) noexcept {
  if (block.pinned) return;
  std::uint32_t& written_in = block.written_in[space_.place_.load(std::memory_order_relaxed)];
  if (written_in == Block::never) written_in = Block::not_there;
  // Looks in vain for as much as it costs to close it and open it again are enough.
  const std::uint32_t looks = looks_an_opening(block, look_ns_.load(std::memory_order_relaxed));
  bool is_due = ++block.unchanged >= std::min(dials_.cool_after << block.patience, looks);
  {
    const StateGuard guard(block.state);
    is_due = is_due || block.opened_after != 0;  // too early, by an acquire
  }
  block.due_to_close.store(is_due, std::memory_order_relaxed);
}

/// With `busy`, of a block that was written since the last release that looked at it.
void LeaseSegment::found_written(Block& block) const noexcept {
  block.written_in[space_.place_.load(std::memory_order_relaxed)] = interval_;
}

/// With `busy`; of an open block that a release is about to publish.
void LeaseSegment::found_changed(std::uint64_t index, Block& block) noexcept {
  if (block.unchanged > looks_an_opening(block, look_ns_.load(std::memory_order_relaxed)))
    block.rarely_written = true;
  block.unchanged = 0;
  expect_next_write(index, block);
}

/// With `busy`, of a block that is written now: whether the next release that looks at it closes it.
void LeaseSegment::expect_next_write(std::uint64_t index, Block& block) noexcept {
  const bool may_be_sole = dials_.sole_copies && block.sole_delay == 0 && owns(index);  // cheaper still
  block.due_to_close.store(block.rarely_written && !may_be_sole && !block.pinned, std::memory_order_relaxed);
}

/// With `busy`, of a block that is closed. \returns whether that was done by the release that looks at it
bool LeaseSegment::found_closed(Block& block) noexcept {
  if (!block.due_to_close.exchange(false, std::memory_order_relaxed)) return false;
  block.cooled = true;
  block.cooled_look_ns = static_cast<std::uint16_t>(look_ns_.load(std::memory_order_relaxed));
  block.cooled_at = fences();
  Counters::add(counters_.cooled);
  return true;
}

std::uint32_t LeaseSegment::fences() const noexcept {
  return static_cast<std::uint32_t>(space_.counters_.releases.load(std::memory_order_relaxed));
}

/// With `busy`, of an open block that another rank has written since this one did. If a release has looked at
/// it in between, that and the merge cost more than to have closed it.
void LeaseSegment::written_elsewhere(Block& block) noexcept {
  if (block.unchanged != 0 && look_ns_.load(std::memory_order_relaxed) >= dear_look_ns)
    block.rarely_written = true;
}

void LeaseSegment::opened_for_nothing(Block& block) noexcept {
  const StateGuard guard(block.state);
  forget_opening(block);
}

/// What it costs to close a block and open it again, as it was opened the last time, in looks at an open one.
/// A fault, which may have been for several blocks, costs 8 us, and system calls 0.5 us a page.
/// \param look_ns what a look at a page costs as long as the block is open; where many are closed, looks at
/// the others are cheap
std::uint32_t LeaseSegment::looks_an_opening(const Block& block, std::uint32_t look_ns) const noexcept {
  constexpr std::uint32_t page_part = 16;
  const auto pages = static_cast<std::uint32_t>(pages_of(block_bytes_));
  const std::uint32_t pages_opened = pages * std::max<std::uint32_t>(block.opened_with, 1);
  const std::uint32_t looks = dials_.looks_a_fault / pages_opened + dials_.looks_a_fault / page_part;
  return looks * cached_look_ns / std::max(look_ns, cached_look_ns);
}

/// With `busy`, of a block that a release closed and that is written again. One that is written again soon,
/// or written alike again and again, like the cold cells of a stencil, is best left open as long; one that is
/// written once in many releases, like the planes of a pipeline, is best closed by the very release that
/// publishes it. A look is priced as when the block was closed: open, it would be one of many again.
void LeaseSegment::learn_gap(Block& block) noexcept {
  const std::uint32_t looks = looks_an_opening(block, block.cooled_look_ns);
  constexpr std::uint8_t patience_most = 4;
  const std::uint32_t closed_for = fences() - block.cooled_at;
  const std::uint32_t gap = block.unchanged + closed_for;
  const bool is_soon = closed_for <= std::min(dials_.cool_after, looks);
  if (is_soon) {
    if (block.patience < patience_most) ++block.patience;
  } else if (gap <= looks) {
    while (block.patience < patience_most && dials_.cool_after << block.patience < gap) ++block.patience;
  } else {
    block.patience = 0;
  }
  block.rarely_written = !is_soon && gap > looks;
}

/// The home is elsewhere: takes it, merges it into the copy, which thereby becomes the home; or sends it what
/// was written.
bool LeaseSegment::merge_and_move(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  CRATON_ASSERT(block.has_twin);
  bool is_open = pages_.access(index) == vm::Access::write;
  if (!fast() && !block.pinned) {
    close_to_reads(index, block);
    is_open = false;
  }
  const bool is_closed_by_acquire = !is_open && !found_closed(block);
  if (has_published_twins() && has_nothing_to_tell(index, block)) {
    Counters::add(counters_.unchanged);
    if (is_open) {
      found_unchanged(block);
      return true;
    }
    if (is_closed_by_acquire) written_elsewhere(block);
    opened_for_nothing(block);
    return block.dirty = block.has_twin = false;
  }
  found_changed(index, block);
  found_written(block);
  catch_up(index, block, words_.own_write_ts(index));
  if (is_time_to_send(block) && send_home(index, block, notices)) {
    if (!is_open) block.dirty = block.has_twin = false;
    return is_open;
  }
  note_return(index, block);
  const Taken taken = take_home(index, block);
  block.taken_alone = block.alone ? static_cast<std::uint8_t>(std::min(block.taken_alone + 1, 254)) : 0;
  Counters::add(counters_.merges);
  renew_published_twin(index);
  if (is_open) {
    stays_open_at_home(index, block);
  } else {
    block.dirty = block.has_twin = false;
  }
  publish_taken(index, block, taken, notices);
  block.clean_twin_ts = is_open || !has_published_twins() ? 0 : taken.write_ts;
  return is_open;
}

/// With `busy`, of a dirty block whose home has come here: from now on it is as if it had been opened here.
void LeaseSegment::stays_open_at_home(std::uint64_t index, Block& block) noexcept {
  block.has_twin = has_published_twins();
  words_.set_own_exposed(index, !block.has_twin);
}

void LeaseSegment::renew_published_twin(std::uint64_t index) noexcept {
  if (states_[index].behind) return put_by(index).publish(data(index), twin(index));
  if (has_published_twins()) std::memcpy(twin(index), data(index), block_bytes_);
}

/// The home is here and locked: its bytes of this moment are published.
void LeaseSegment::publish_at_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  const Timestamp write_ts = extend_for_write(fabric_.rank(), index, words_.own_write_ts(index));
  words_.set_own_write_ts(index, write_ts);
  publish(index, block, fabric_.rank(), write_ts, notices);
  if (directory()) {
    const std::uint64_t sharers = words_.swap_sharers(fabric_.rank(), index, 0);
    invalidate_sharers(index, block, sharers, fabric_.rank());
  }
}

/// The home stays where it is: the merged block is carried there.
bool LeaseSegment::merge_at_fixed_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  CRATON_ASSERT(block.has_twin);
  close_to_reads(index, block);
  const auto stays_open = [&] {
    if (!block.pinned) block.dirty = block.has_twin = false;
    return block.pinned;
  };
  if (unchanged(index)) {
    Counters::add(counters_.unchanged);
    return stays_open();
  }
  const Taken taken = fetch_fixed_home(index, block);
  const std::byte* merged = data(index);
  if (block.pinned) {  // what is published is what the twin is made of, whatever is written meanwhile
    std::memcpy(twin(index), merged, block_bytes_);
    merged = twin(index);
  }
  put_bytes(fixed_home(index), home_region_, index, 0, merged, block_bytes_);
  publish_at_fixed_home(index, block, taken, notices);
  Counters::add(counters_.merges);
  return stays_open();
}

/// Locks a block whose home is fixed and merges its bytes into the copy. \returns who had the lock before
LeaseSegment::Taken LeaseSegment::fetch_fixed_home(std::uint64_t index, Block& block) {
  const ScratchPool::Buffer incoming(scratch_);
  const fabric::Rank home = fixed_home(index);
  const fabric::Rank before = lock_.lock(index, block.answer);
  const BlockWords words = words_.get(home, index);
  if ((words.lease & lease::written) == 0) {
    std::memset(incoming.data(), 0, block_bytes_);
  } else {
    get_bytes(home, home_region_, index, incoming.data());
  }
  if (block.dirty) {
    merge(index, before, incoming.data());
  } else {
    std::memcpy(data(index), incoming.data(), block_bytes_);
  }
  return {.from = before, .write_ts = words.write_ts, .updater = words.updater};
}

/// The home, which is fixed, has the bytes: publishes them and unlocks.
void LeaseSegment::publish_at_fixed_home(std::uint64_t index, Block& block, const Taken& taken,
                                         std::vector<WriteNotice>& notices) {
  const fabric::Rank home = fixed_home(index);
  // The bytes are there before the lease says so: who extends it first reads either, who extends it later
  // reads these.
  const Timestamp write_ts = extend_for_write(home, index, taken.write_ts);
  words_.put_write_ts(home, index, write_ts);
  publish(index, block, home, write_ts, notices);
  if (directory()) {
    const std::uint64_t sharers = words_.swap_sharers(home, index, bit_of(fabric_.rank()));
    invalidate_sharers(index, block, sharers, fabric_.rank());
  }
  lock_.unlock(index);
}

/// A time for a write that is later than all leases given on the block; grants the next lease after it, or
/// none.
Timestamp LeaseSegment::extend_for_write(fabric::Rank home, std::uint64_t index, Timestamp home_write_ts) {
  return extend_for_write(home, index, home_write_ts, 0, dials_.lease);
}

/// \param marks that the lease gets
Timestamp LeaseSegment::extend_for_write(fabric::Rank home, std::uint64_t index, Timestamp home_write_ts,
                                         std::uint64_t marks, Timestamp lease) {
  const std::uint64_t seen = home == fabric_.rank() ? words_.own_lease(index) : words_.get(home, index).lease;
  return extend_for_write(seen, home_write_ts, space_.min_write_ts_.load(), marks, lease,
                          [&](std::uint64_t expected, std::uint64_t desired) {
                            return words_.exchange_lease(home, index, expected, desired);
                          });
}

/// \param seen the lease, as far as known \param exchange of it \param least the time is later
Timestamp LeaseSegment::extend_for_write(
    std::uint64_t seen, Timestamp home_write_ts, Timestamp least, std::uint64_t marks, Timestamp lease,
    FunctionRef<std::uint64_t(std::uint64_t expected, std::uint64_t desired)> exchange) {
  for (;;) {
    CRATON_ASSERT(lease::is_open(seen));
    const Timestamp write_ts = later_than(lease::time(seen), home_write_ts, least);
    const std::uint64_t next = lease::open_until(checked_timestamp(write_ts + lease)) | lease::written |
                               (seen & lease::awaited) | marks;
    const std::uint64_t before = exchange(seen, next);
    if (before == seen) return write_ts;
    seen = before;
  }
}

void LeaseSegment::publish(std::uint64_t index, Block& block, fabric::Rank home, Timestamp write_ts,
                           std::vector<WriteNotice>& notices) {
  const Timestamp read_ts = write_ts + dials_.lease;
  {
    const StateGuard guard(block.state);
    if (!block.behind) {
      block.copy_write_ts = write_ts;
      block.copy_read_ts = read_ts;
      block.copied_from = 0;
    }
    block.opened_after = 0;
    block.untold = false;
    block.fetched = true;
    block.dropped = false;
  }
  notices.push_back(
      {.source = home, .segment = id_, .block = index, .write_ts = write_ts, .read_ts = read_ts});
  Counters::add(counters_.notices);
}

/// Tells all sharers but this rank, and `also`, to drop their copies, and waits for their answers.
void LeaseSegment::invalidate_sharers(std::uint64_t index, Block& block, std::uint64_t sharers,
                                      fabric::Rank also) {
  std::vector<fabric::Rank> told;
  for (const fabric::Rank rank : space_.others())
    if ((sharers & bit_of(rank)) != 0 || rank == also) told.push_back(rank);
  if (told.empty()) return;
  block.acks_due.store(static_cast<std::uint32_t>(told.size()), std::memory_order_release);
  for (const fabric::Rank rank : told) space_.send(LeaseRelease::Message::drop, rank, id_, index, 0);
  Counters::add(counters_.sharer_messages, told.size());
  wait_for(fabric_, waits_, [&] { return block.acks_due.load(std::memory_order_acquire) == 0; });
}

/// What others have made of a dirty block into the copy here. An open one may be written meanwhile.
void LeaseSegment::merge(std::uint64_t index, fabric::Rank there, const std::byte* incoming) {
  const bool is_open = pages_.access(index) == vm::Access::write;
  if (events::wants(events::sharing)) [[unlikely]]
    note_writes(index, !equal_blocks(incoming, twin(index), block_bytes_));
  const MergeOutcome outcome = is_open ? merge_open(data(index), twin(index), incoming, block_bytes_)
                                       : merge_closed(data(index), twin(index), incoming, block_bytes_);
  report_races(index, there, outcome);
}

void LeaseSegment::report_races(std::uint64_t index, fabric::Rank there, const MergeOutcome& outcome) {
  if (outcome.race_bytes == 0) return;
  space_.report({.segment = id_,
                 .block = index,
                 .first_byte = outcome.first_race_byte,
                 .bytes = outcome.race_bytes,
                 .here = fabric_.rank(),
                 .there = there});
}

/// For the report of sharing: from where to where this rank has written since its twin.
void LeaseSegment::note_writes(std::uint64_t index, bool others_wrote) noexcept {
  const std::byte* const now = data(index);
  const std::byte* const before = base(index);
  const std::size_t first =
      static_cast<std::size_t>(std::mismatch(now, now + block_bytes_, before).first - now);
  if (first == block_bytes_) return;
  std::size_t end = block_bytes_;
  while (now[end - 1] == before[end - 1]) --end;
  events::note(events::Kind::merge, block_address(index) + first, end - first, nullptr, others_wrote ? 1 : 0);
}

}  // namespace craton::coherence
