/// \file
/// Acquires: closing the copies that are too old for what this rank was told (dissertation, section 3.4.5),
/// or, beyond the paper, bringing those up to date at once that will be used again (DESIGN, decision 2).
///
/// Which ones those are is learnt: a copy that was closed by an acquire at some place of the program and then
/// faulted will be used after the next acquire at that place as well. Now and then one is closed all the
/// same; if it does not fault again, it was fetched for nothing, and is forgotten. If it does, the next probe
/// comes later, so that in a program that goes on as it began faults die out.
#include <algorithm>
#include <deque>
#include <mutex>

#include "base/assert.hpp"
#include "base/runs.hpp"
#include "base/scope_exit.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "fabric/batch.hpp"

namespace craton::coherence {

bool LeaseSegment::knows(const WriteNotice& notice) noexcept {
  CRATON_ASSERT(notice.block < blocks());
  Block& block = states_[notice.block];
  const StateGuard guard(block.state);
  return is_in_copy(notice, block) || block.required_ts >= notice.write_ts;
}

/// Under the block's state lock. Of a write of this rank, or one that was sent here, nothing is missing, nor
/// of those before it, unless some are put by.
bool LeaseSegment::is_in_copy(const WriteNotice& notice, const Block& block) const noexcept {
  return is_own(notice) && !block.behind;
}

/// A block was released elsewhere. \param site the bit of the acquire's place
void LeaseSegment::note(const WriteNotice& notice, SiteBits site, Stale& stale) {
  if (directory()) return;
  Block& block = states_[notice.block];
  const StateGuard guard(block.state);
  if (is_in_copy(notice, block)) return;
  if (notice.write_ts > block.required_ts) block.required_ts = notice.write_ts;
  if (notice.write_ts > block.told_ts) {
    block.told_by = notice.writer();
    block.told_ts = notice.write_ts;
  }
  if (!notice.asks_home() && !is_own(notice) && notice.write_ts > block.source_write_ts) {
    block.source = notice.source;
    block.source_write_ts = notice.write_ts;
    block.source_read_ts = notice.read_ts;
  }
  if (strong(notice.block)) return;  // its bytes are the newest; this is for when it is weak again
  const bool is_open = pages_.access(notice.block) != vm::Access::none;
  if (!is_open && !block.seen) return expect_use(block, site);
  if (!is_open) {
    if (block.probed) Counters::add(counters_.prefetch_waste);
    block.probed = false;
  }
  // One that an acquire closed before, and that was not used since, is written once more: it should have
  // been, and may be, brought up to date here and not there.
  if ((is_open || block.closed_after != 0) && !usable(notice.block, block))
    sort_out(notice.block, block, site, stale);
}

/// Finds the open copies whose leases have ended, after min_write_ts_ was raised, and sorts them out with
/// what is stale already.
void LeaseSegment::expire(Timestamp min_write_ts, SiteBits site, Stale& stale) {
  if (directory()) return;
  // Another thread that acquires as much finds nothing in the heap any more, and must not go on before those
  // copies are closed.
  const std::lock_guard fence(expiry_fence_);
  std::vector<std::uint64_t> due;
  {
    const StateGuard guard(heap_lock_);
    while (heap_.first() != nullptr && heap_.first()->heap_key < min_write_ts)
      due.push_back(states_.index_of(heap_.pop()));
  }
  for (const std::uint64_t index : due) {
    Block& block = states_[index];
    {
      const StateGuard guard(block.state);
      if (block.sole) continue;  // it comes back when that ends
    }
    const bool renewed = renew(index, min_write_ts);
    Timestamp key = 0;
    {
      const StateGuard guard(block.state);
      if (pages_.access(index) == vm::Access::none || strong(index)) continue;
      if (renewed && !block.behind) block.copy_read_ts = std::max(block.copy_read_ts, min_write_ts);
      if (!usable(index, block)) {
        sort_out(index, block, site, stale);
        Counters::add(counters_.expirations);
      }
      key = block.copy_read_ts;
    }
    keep_in_heap(block, key);
  }
  if (due.empty()) return;
  refresh_stale(stale, site);
  close_stale(stale);
  stale = {};
}

/// Under the block's state lock.
void LeaseSegment::sort_out(std::uint64_t index, Block& block, SiteBits site, Stale& stale) {
  if (block.behind) return stale.refresh.push_back(index);  // by catch_up(), which costs less than a fault
  // If an earlier acquire closed it, that was right: it was not used since.
  expect_use(block, site);
  forget_opening(block);
  if (is_to_prefetch(block, site)) {
    if (!is_time_to_probe(index, block)) return stale.refresh.push_back(index);
    block.wanted_after &= ~site;
    block.probed = true;
  }
  stale.close.push_back(index);
}

/// Under the block's state lock. In causal segments it takes a fault all the same to open what has come, and
/// that fault makes others close: it is worth it where to fetch costs a round trip, and not by those faults.
bool LeaseSegment::is_to_prefetch(const Block& block, SiteBits site) const noexcept {
  if (!dials_.prefetch || (block.wanted_after & site) == 0) return false;
  return !dials_.causal || (space_.asks(block.told_by) && site != space_.no_place_);
}

/// Under the block's state lock. If it is used now, it is wanted after acquires at that place.
void LeaseSegment::expect_use(Block& block, SiteBits site) const noexcept {
  block.closed_after = site;
  block.read_after = 0;
  block.closed_at = releases_.load(std::memory_order_relaxed);
}

/// Under the block's state lock.
bool LeaseSegment::is_time_to_probe(std::uint64_t index, Block& block) const noexcept {
  if (dials_.probe_one_in == 0) return false;
  if (block.next_probe == 0) block.next_probe = probe_distance(index, block.hits = 0);
  return --block.next_probe == 0;
}

/// Under the block's state lock, after a probe.
void LeaseSegment::found_used(std::uint64_t index, Block& block) noexcept {
  Counters::add(counters_.prefetch_hits);
  constexpr unsigned hits_at_most = 6;
  block.hits = static_cast<std::uint8_t>(std::min(block.hits + 1U, hits_at_most));
  block.next_probe = probe_distance(index, block.hits);
}

/// Prefetches of a block until its next probe. Different for neighbours, so that a loop over many has its
/// faults one by one.
std::uint32_t LeaseSegment::probe_distance(std::uint64_t index, unsigned hits) const noexcept {
  const std::uint64_t most = std::uint64_t{dials_.probe_one_in} << hits;
  // The top of a product with 2^32 divided by the golden ratio: evenly spread for indices in a row.
  const std::uint64_t spread = ((index * 0x9e3779b9U & 0xffffffffU) * most) >> 32U;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most / 2 + spread / 2 + 1, ~std::uint32_t{0}));
}

/// The owner of a block gives itself the lease that it needs. \returns false if it is not the owner
bool LeaseSegment::renew(std::uint64_t index, Timestamp until) {
  if (!floating()) return false;
  for (std::uint64_t seen = words_.own_lease(index); lease::is_open(seen);) {
    if (lease::time(seen) >= until) return true;
    const std::uint64_t before = words_.exchange_lease(
        fabric_.rank(), index, seen,
        lease::open_until(checked_timestamp(until + dials_.lease)) | lease::marks(seen));
    if (before == seen) {
      Counters::add(counters_.renewals);
      return true;
    }
    seen = before;
  }
  return false;
}

/// Takes away access to the blocks, as far as they are still too old, in as few system calls as possible.
void LeaseSegment::close_stale(Stale& stale) {
  std::vector<std::uint64_t>& close = stale.close;
  std::sort(close.begin(), close.end());
  close.erase(std::unique(close.begin(), close.end()), close.end());
  const std::uint64_t closed =
      close_to(vm::Access::none, close,
               [this](std::uint64_t index, const Block& block) { return !usable(index, block); });
  Counters::add(counters_.invalidations, closed);
}

/// Brings copies up to date where they are, and opens those that were closed, all at a time: neighbours from
/// one source come with one get. Waits for no rank that may wait for this one: what cannot be had so is left
/// to close_stale().
void LeaseSegment::refresh_stale(Stale& stale, SiteBits site) {
  if (stale.refresh.empty()) return;
  std::sort(stale.refresh.begin(), stale.refresh.end());
  stale.refresh.erase(std::unique(stale.refresh.begin(), stale.refresh.end()), stale.refresh.end());
  std::vector<Refresh> refreshes;
  const ScopeExit unlock([&]() noexcept {
    for (const Refresh& each : refreshes) states_[each.index].busy.unlock();
  });
  for (const std::uint64_t index : stale.refresh) {
    if (states_[index].busy.try_lock()) {
      refreshes.push_back(plan_refresh(index, site));
    } else {  // another thread is at it, perhaps with an older copy
      stale.close.push_back(index);
    }
  }
  if (dials_.causal) expect_arrivals(refreshes);
  fetch_known(refreshes);
  std::vector<Refresh*> others;
  for (Refresh& each : refreshes)
    if (each.way == Refresh::Way::take || each.way == Refresh::Way::ask) others.push_back(&each);
  waits_.run(others.size(), [&](std::size_t i) {
    Refresh& each = *others[i];
    Block& block = states_[each.index];
    each.is_done =
        each.way == Refresh::Way::take ? take_ahead(each.index, block) : try_fetch(each.index, block);
  });
  std::uint64_t done = 0;
  for (const Refresh& each : refreshes) {
    if (each.is_done) ++done;
    Block& block = states_[each.index];
    const StateGuard guard(block.state);
    if (!usable(each.index, block)) stale.close.push_back(each.index);
  }
  Counters::add(counters_.prefetched, done);
  if (dials_.causal) {
    for (const Refresh& each : refreshes)
      if (each.is_done) note_arrived(each.index, site);
    return;
  }
  const auto goes_on = [](const Refresh& before, const Refresh& each) {
    return each.index == before.index + 1 && each.is_done == before.is_done;
  };
  for_runs(std::span(refreshes), goes_on, [&](std::span<const Refresh> run) {
    if (run.front().is_done) open_refreshed(run.front().index, run.size(), site);
  });
}

/// With `busy`, of copies that are about to be brought up to date: see expect_arrival().
void LeaseSegment::expect_arrivals(std::span<const Refresh> refreshes) {
  std::vector<std::uint64_t> close;
  for (const Refresh& each : refreshes) {
    if (each.way == Refresh::Way::none) continue;
    ++states_[each.index].arrivals;
    close.push_back(each.index);
  }
  close_to(vm::Access::none, close, [](std::uint64_t /*index*/, const Block& /*block*/) { return true; });
}

/// With `busy`. How to bring a copy up to date.
LeaseSegment::Refresh LeaseSegment::plan_refresh(std::uint64_t index, SiteBits site) {
  Block& block = states_[index];
  settle(index, block);
  if (block.dirty) written_elsewhere(block);
  const StateGuard guard(block.state);
  Refresh refresh{.index = index, .source = known_source(block)};
  // What came before was not used: what went before it has not been learnt (causal).
  const bool is_waiting = block.arrivals != block.learnt_arrival;
  if (strong(index) || usable(index, block) || is_waiting) {
    refresh.way = Refresh::Way::none;
  } else if (site != space_.no_site_ && (block.written_after & site) != 0 && is_time_to_migrate(block)) {
    refresh.way = Refresh::Way::take;
  } else if (refresh.source.write_ts == 0) {
    refresh.way = Refresh::Way::ask;
  }
  return refresh;
}

/// With `busy`. Gets what is to be had from the sources that notices told of.
void LeaseSegment::fetch_known(std::span<Refresh> refreshes) {
  struct Fetch {
    Refresh* what;
    std::byte* to;
  };
  std::vector<Fetch> fetches;
  std::deque<ScratchPool::Buffer> buffers;
  for (Refresh& each : refreshes) {
    if (each.way != Refresh::Way::get) continue;
    const Block& block = states_[each.index];
    CRATON_ASSERT(block.has_twin >= block.dirty);
    fetches.push_back(
        {.what = &each, .to = block.dirty ? buffers.emplace_back(scratch_).data() : data(each.index)});
  }
  const fabric::RegionId region = published_region();
  fabric::Completion completion;
  const auto lies_behind = [&](const Fetch& before, const Fetch& each) {
    return each.what->index == before.what->index + 1 && each.what->source.rank == before.what->source.rank &&
           each.to == before.to + block_bytes_;
  };
  const fabric::Batch together;
  for_runs(std::span(fetches), lies_behind, [&](std::span<const Fetch> run) {
    const Refresh& first = *run.front().what;
    fabric_.get(run.front().to,
                {.rank = first.source.rank, .region = region, .offset = first.index * block_bytes_},
                run.size() * block_bytes_, completion);
  });
  waits_.wait(completion);
  Counters::add(counters_.fetched_bytes, fetches.size() * block_bytes_);
  for (const Fetch& each : fetches) {
    Block& block = states_[each.what->index];
    if (block.dirty) merge(each.what->index, each.what->source.rank, each.to);
    note_copy(block, each.what->source);
    each.what->is_done = true;
  }
}

/// With `busy`, of blocks in a row that an acquire has brought up to date: opens them, to be written where
/// they were written after it before.
void LeaseSegment::open_refreshed(std::uint64_t first, std::uint64_t count, SiteBits site) {
  const auto wanted = [&](std::uint64_t index) {
    Block& block = states_[index];
    const StateGuard guard(block.state);
    return (block.written_after & site) != 0 ? vm::Access::write : vm::Access::read;
  };
  const std::uint64_t end = first + count;
  for (std::uint64_t begin = first; begin < end;) {
    const vm::Access access = wanted(begin);
    const bool is_open = pages_.access(begin) >= access;
    std::uint64_t next = begin;
    for (; next < end && wanted(next) == access && (pages_.access(next) >= access) == is_open; ++next) {
      if (is_open || access != vm::Access::write) continue;
      Block& block = states_[next];
      prepare_write(next, block);
      const StateGuard guard(block.state);
      block.opened_after = site;
    }
    if (!is_open && access == vm::Access::write) note_opening(begin, next - begin, next - begin);
    if (!is_open) open(begin, next - begin, access);
    begin = next;
  }
}

/// Opens what is expected to be written after this acquire, which would take faults otherwise. What is not
/// written then is closed by the next release, and not expected again. Not what must be copied for it, which
/// is better done by the fault: then it is in the cache when it is written.
void LeaseSegment::open_expected(SiteBits site) {
  if ((expecting_.load(std::memory_order_relaxed) & site) == 0) return;
  std::vector<std::uint64_t> expected;
  {
    const StateGuard guard(expected_lock_);
    expected.swap(expected_[Sites::index_of(site)]);
  }
  expecting_.fetch_and(~site, std::memory_order_relaxed);
  std::erase_if(expected, [&](std::uint64_t index) { return pages_.access(index) == vm::Access::write; });
  std::sort(expected.begin(), expected.end());
  open_closed(expected, site);
}

/// Opens for writing what that takes no copy for.
/// \param closed in order \param site of the acquire that expects it; 0: none does
void LeaseSegment::open_closed(std::span<const std::uint64_t> closed, SiteBits site) {
  std::span<const std::uint64_t> left = closed;
  while (!left.empty()) {
    std::array<std::uint64_t, open_ahead_most> ready{};
    std::size_t count = 0;
    const ScopeExit unlock([&]() noexcept {
      for (std::size_t i = 0; i < count; ++i) states_[ready[i]].busy.unlock();
    });
    const auto batch = left.first(std::min<std::size_t>(left.size(), ready.size()));
    left = left.subspan(batch.size());
    for (const std::uint64_t index : batch) {
      Block& block = states_[index];
      std::unique_lock busy(block.busy, std::try_to_lock);
      if (!busy.owns_lock() || needs_copy(index, block) || !can_prepare(index, block, false)) continue;
      if (!prepare_ahead(index, block)) continue;
      busy.release();
      ready[count++] = index;
      const StateGuard guard(block.state);
      block.opened_after = site;
    }
    open_to_write(std::span(ready).first(count), blocks());
  }
}

void LeaseSegment::refresh_pinned() {
  if (pins_.load() == 0) return;  // a block that this acquire has left open was counted before it was pinned
  std::vector<std::uint64_t> pinned;
  {
    const StateGuard guard(pinned_lock_);
    pinned = pinned_;
  }
  for (const std::uint64_t index : pinned) {
    Block& block = states_[index];
    const std::lock_guard busy(block.busy);
    if (block.pinned) make_usable(index, block);
  }
}

}  // namespace craton::coherence
