/// \file
/// Faults: opening a copy, and what is about it (dissertation, sections 3.4.5 and 3.5.5).
#include "coherence/lease_segment.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/scope_exit.hpp"
#include "base/signal_section.hpp"
#include "coherence/exclusive.hpp"
#include "coherence/lease_release.hpp"

namespace craton::coherence {

namespace {
/// A rank that asks for a block while it changes hands asks again after so long, and longer each time.
constexpr TimeNs first_back_off_ns = 1'000;
constexpr unsigned back_off_doublings = 6;

/// \param may_be_sole whether causal blocks may: see LeaseRelease::show_uncut
Dials checked(Dials dials, bool may_be_sole) {
  const auto refuse = [](const char* what, const char* why) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = what, .happened = why, .limit = {}, .remedy = "see docs/coherence.md"});
  };
  if (dials.home == Home::fixed && dials.release == Release::fast)
    refuse("cannot release fast where homes are fixed",
           "a fast release needs the home to be at the releaser");
  if (dials.home == Home::fixed && dials.causal)
    refuse("cannot keep causes before effects where homes are fixed",
           "writes that come from a fixed home are not waited for");
  if (dials.causal) {
    // A release closes what it publishes before it looks; a home that is taken open was never released.
    dials.release = Release::plain;
    dials.hot_blocks = false;
    dials.sole_copies = dials.sole_copies && may_be_sole;
    dials.migrate_after = Dials::never;
  } else {
    if (dials.release == Release::plain) dials.hot_blocks = false;
    if (!dials.hot_blocks) dials.sole_copies = false;
  }
  if (dials.invalidation == Invalidation::directory) dials.sole_copies = false;
  if (dials.invalidation == Invalidation::directory) dials.prefetch = false;
  if (!dials.sole_copies || !dials.prefetch) dials.migrate_after = Dials::never;
  return dials;
}

}  // namespace

LeaseSegment::LeaseSegment(LeaseRelease& space, fabric::Fabric& fabric, SegmentId id,
                           const SegmentSetup& setup)
    : space_(space),
      fabric_(fabric),
      id_(id),
      pages_(setup.pages),
      block_bytes_(setup.pages.block_bytes()),
      data_region_(setup.data),
      twin_region_(setup.twins),
      home_region_(setup.home_bytes),
      twins_(setup.own_twins),
      application_view_(setup.application_view),
      initial_homes_(setup.initial_homes),
      dials_(checked(setup.dials, space.has_releaser())),
      waits_(space.waits()),
      words_(fabric, waits_, setup.words, setup.own_words, &LeaseSegment::initial_home, this),
      lock_(fabric, waits_, words_, counters_, &LeaseSegment::tell, this),
      states_(setup.pages.blocks()),
      scratch_(block_bytes_) {
  CRATON_ASSERT(block_bytes_ % 32 == 0);
}

LeaseSegment::~LeaseSegment() = default;

fabric::Rank LeaseSegment::initial_home(const void* self, std::uint64_t index) noexcept {
  const auto& segment = *static_cast<const LeaseSegment*>(self);
  const fabric::Rank ranks = segment.fabric_.size();
  switch (segment.initial_homes_.kind) {
    case InitialHomes::Kind::cyclic:
      return static_cast<fabric::Rank>(index % ranks);
    case InitialHomes::Kind::blocked: {
      const std::uint64_t each = (segment.blocks() + ranks - 1) / ranks;
      return static_cast<fabric::Rank>(index / each);
    }
    case InitialHomes::Kind::one:
      break;
  }
  return segment.initial_homes_.rank;
}

bool LeaseSegment::usable(std::uint64_t index, const Block& block) const noexcept {
  if (owns(index) && !block.behind) return true;
  if (directory()) return block.fetched && !block.dropped;
  return block.copy_write_ts >= block.required_ts &&
         block.copy_read_ts >= space_.min_write_ts_.load(std::memory_order_acquire);
}

void LeaseSegment::fault(vm::BlockIndex index, bool write) {
  const SignalSection section;
  Block& block = states_[index];
  Counters::add(write ? counters_.write_faults : counters_.read_faults);
  const vm::Access wanted = write ? vm::Access::write : vm::Access::read;
  std::unique_lock busy(block.busy);
  if (pages_.access(index) >= wanted) return Counters::add(counters_.spurious_faults);
  const auto become_strong = [&] {
    busy.unlock();
    space_.exclusive().fault(*this, index, write);
  };
  if (strong(index)) return become_strong();
  {
    const StateGuard guard(block.state);
    block.wanted_after |= block.closed_after;
    if (write) learn_written(block);
    if (block.closed_after != 0 && block.probed) found_used(index, block);
    if (!write && block.closed_after != 0) block.read_after = block.closed_after;
    block.closed_after = 0;
    block.probed = false;
  }
  if (write && block.cooled) learn_gap(block);
  const bool first_touch = !block.seen;
  const bool was_fetched = !owns(index);
  for (;;) {
    make_usable(index, block);
    const std::uint64_t arrival = block.arrivals;
    const bool is_learnt = arrival == block.learnt_arrival;
    if (is_learnt) {
      if (write) prepare_write(index, block);
      if (write ? open_with_neighbours(index, first_touch) : open(index, 1, wanted) != 0) break;
      if (!dials_.causal) continue;
    }
    // Both may wait for a release that waits for this block, here or elsewhere.
    if (is_learnt) {
      busy.unlock();
      space_.wait_to_write(block);
    } else {
      if (!write && was_fetched) read_ahead(index);
      busy.unlock();
      space_.learn_from_all();
    }
    busy.lock();
    if (!is_learnt) block.learnt_arrival = std::max(block.learnt_arrival, arrival);
    if (pages_.access(index) >= wanted) return;
    if (strong(index)) return become_strong();
  }
  if (!write && was_fetched && !dials_.causal) read_ahead(index);
}

/// Under the block's state lock; it is about to be opened for writing.
void LeaseSegment::learn_written(Block& block) noexcept {
  if (block.closed_at == releases_.load(std::memory_order_relaxed))
    block.written_after |= block.closed_after | block.read_after;
}

/// With `busy`.
void LeaseSegment::make_usable(std::uint64_t index, Block& block) {
  for (;;) {
    {
      const StateGuard guard(block.state);
      if (usable(index, block)) return;
    }
    fetch(index, block);
  }
}

void LeaseSegment::pin(vm::BlockIndex index) {
  const SignalSection section;
  Block& block = states_[index];
  std::unique_lock busy(block.busy);
  while (strong(index)) {
    busy.unlock();
    space_.exclusive().weaken(*this, index);
    busy.lock();
  }
  if (block.pinned) return;
  end_sole(index, block);
  {
    // From now on acquires do not close it, but bring it up to date: refresh_pinned(), which waits for
    // `busy`.
    const StateGuard guard(pinned_lock_);
    pinned_.push_back(index);
    pins_.store(pinned_.size());
  }
  {
    // Before it is open: no release waits for it.
    const StateGuard guard(block.state);
    block.pinned = true;
    if (!usable(index, block) && pages_.access(index) != vm::Access::none)
      pages_.set_access(index, vm::Access::none);
  }
  do {
    make_usable(index, block);
    prepare_write(index, block);
  } while (open(index, 1, vm::Access::write) == 0);
}

void LeaseSegment::unpin(vm::BlockIndex index) {
  const SignalSection section;
  Block& block = states_[index];
  const std::lock_guard busy(block.busy);
  {
    const StateGuard guard(block.state);
    block.pinned = false;
    // An acquire may have left it open, to bring it up to date.
    if (!strong(index) && !usable(index, block) && pages_.access(index) != vm::Access::none)
      pages_.set_access(index, vm::Access::none);
  }
  const StateGuard guard(pinned_lock_);
  std::erase(pinned_, index);
  pins_.store(pinned_.size());
}

/// With `busy`. Makes blocks in a row accessible, up to the first whose copy has become too old meanwhile.
/// \returns how many
std::uint64_t LeaseSegment::open(std::uint64_t first, std::uint64_t count, vm::Access access) {
  const std::uint64_t end = first + count;
  for (std::uint64_t index = first; index < end; ++index) states_[index].state.lock();
  const ScopeExit unlock([&]() noexcept {
    for (std::uint64_t index = first; index < end; ++index) states_[index].state.unlock();
  });
  // First into the heap, then the look at the times: who raises min_write_ts_ does it the other way round.
  // And with the state lock: who takes a block out of the heap looks then whether it is open.
  for (std::uint64_t index = first; index < end && !directory(); ++index)
    keep_in_heap(states_[index], states_[index].copy_read_ts);
  std::uint64_t usable_end = first;
  bool is_open = true;
  // These blocks are listed: a release that freezes after this look finds them there, and closes them.
  const bool may_wait = dials_.causal && access == vm::Access::write;
  const bool is_frozen = may_wait && space_.is_frozen();
  for (; usable_end < end && usable(usable_end, states_[usable_end]); ++usable_end) {
    Block& block = states_[usable_end];
    if (may_wait && (is_frozen || block.in_cut.load()) && !block.pinned) break;
    block.seen = true;
    is_open = is_open && pages_.access(usable_end) >= access;
  }
  const vm::Run run{.first = first, .count = usable_end - first};
  if (!is_open) pages_.set_access({&run, 1}, access);
  return run.count;
}

/// Not what is pinned.
void LeaseSegment::close_to_reads(std::uint64_t index, Block& block) {
  if (block.pinned) return;
  const StateGuard guard(block.state);
  if (pages_.access(index) == vm::Access::write) pages_.set_access(index, vm::Access::read);
}

/// Takes away access beyond `most` from blocks, neighbours with one system call; not from pinned or strong
/// ones.
/// \param indices in order, none twice
/// \param is_due from which of them; asked under the state lock
/// \returns from how many
std::uint64_t LeaseSegment::close_to(vm::Access most, std::span<const std::uint64_t> indices,
                                     FunctionRef<bool(std::uint64_t index, const Block& block)> is_due) {
  for (const std::uint64_t index : indices) states_[index].state.lock();
  const ScopeExit unlock([&]() noexcept {
    for (const std::uint64_t index : indices) states_[index].state.unlock();
  });
  std::uint64_t closed = 0;
  std::vector<vm::Run> runs;
  for (const std::uint64_t index : indices) {
    const Block& block = states_[index];
    if (pages_.access(index) <= most || block.pinned || strong(index) || !is_due(index, block)) continue;
    ++closed;
    if (!runs.empty() && runs.back().first + runs.back().count == index) {
      ++runs.back().count;
    } else {
      runs.push_back({.first = index, .count = 1});
    }
  }
  if (!runs.empty()) pages_.set_access(runs, most);
  return closed;
}

/// With `busy`. Bytes that other ranks have published are about to come into the copy. Where that is causal,
/// the program must not find them before this rank has learnt what went before them: the next fault sees to
/// that.
void LeaseSegment::expect_arrival(std::uint64_t index, Block& block) {
  if (!dials_.causal) return;
  ++block.arrivals;
  const StateGuard guard(block.state);
  if (!block.pinned && pages_.access(index) != vm::Access::none) pages_.set_access(index, vm::Access::none);
}

// ---- Bytes of other ranks

void LeaseSegment::start_get_bytes(fabric::Rank from, fabric::RegionId region, std::uint64_t index,
                                   std::byte* to, fabric::Completion& completion) {
  fabric_.get(to, {.rank = from, .region = region, .offset = index * block_bytes_}, block_bytes_, completion);
  Counters::add(counters_.fetched_bytes, block_bytes_);
}

void LeaseSegment::get_bytes(fabric::Rank from, fabric::RegionId region, std::uint64_t index, std::byte* to) {
  fabric::Completion completion;
  start_get_bytes(from, region, index, to, completion);
  waits_.wait(completion);
}

void LeaseSegment::put_bytes(fabric::Rank to, fabric::RegionId region, std::uint64_t index,
                             std::size_t first_byte, const std::byte* from, std::size_t bytes) {
  fabric::Completion completion;
  fabric_.put({.rank = to, .region = region, .offset = index * block_bytes_ + first_byte}, from, bytes,
              completion);
  waits_.wait(completion);
  Counters::add(counters_.put_bytes, bytes);
}

void LeaseSegment::back_off(unsigned& round) {
  const TimeNs pause_ns = first_back_off_ns << std::min(round++, back_off_doublings);
  const auto lost = [this] { return fabric_.lost_ranks() != 0; };
  if (waits_.wait_until(lost, fabric_.clock().now_ns() + pause_ns) == fabric::Status::ok) throw_lost(fabric_);
}

// ---- Getting ready to be written

/// With `busy`. Afterwards writes of this rank can be told from those of others, and the block is listed.
void LeaseSegment::prepare_write(std::uint64_t index, Block& block) {
  settle(index, block);
  const auto is_clean = [&] {
    const StateGuard guard(block.state);
    CRATON_ASSERT(block.sole <= block.dirty);  // a clean sole one is open, and may end at any time
    return !block.dirty;
  };
  if (is_clean()) {
    block.unchanged = 0;
    block.cooled = false;
    if (floating() && lock_.try_lock_own(index)) {
      const ScopeExit unlock([&]() noexcept { lock_.unlock(index); });
      if (write_kept(index, block)) return;
      if (has_clean_twin(index, block)) {
        block.has_twin = true;
      } else if (has_published_twins()) {
        make_twin(index, block);
      } else {  // whoever takes the home from here makes the twin (section 3.4.6)
        words_.set_own_exposed(index, true);
      }
    } else {
      settle(index, block);
      make_twin(index, block);
    }
    block.dirty = true;
    expect_next_write(index, block);
  }
  list_dirty(index, block);
}

/// With `busy`, of a closed block whose home is here. Whether its twin is what was published last.
bool LeaseSegment::has_clean_twin(std::uint64_t index, const Block& block) const noexcept {
  return block.clean_twin_ts != 0 && block.clean_twin_ts == words_.own_write_ts(index);
}

void LeaseSegment::make_twin(std::uint64_t index, Block& block) {
  block.has_twin = true;
  if (block.behind) return;         // it has its base
  if (is_untouched(block)) return;  // both are zero bytes
  std::memcpy(twin(index), data(index), block_bytes_);
  Counters::add(counters_.twins);
}

/// With `busy`. If the home was here and has been taken: waits until its bytes are no longer read here, and
/// the twin is what the new home started from.
void LeaseSegment::settle(std::uint64_t index, Block& block) {
  if (!floating() || words_.own_link(index) == link::unlocked) return;
  for (;;) {
    const std::uint64_t seen = words_.own_lease(index);
    if (lease::is_moved(seen)) break;
    if ((seen & lease::awaited) == 0) {
      words_.exchange_lease(fabric_.rank(), index, seen, seen | lease::awaited);
      continue;
    }
    const auto done = [&] { return lease::is_moved(words_.own_lease(index)) || fabric_.lost_ranks() != 0; };
    // Who took it may have closed it after we asked to be woken, and then has forgotten that: look again.
    const bool in_time =
        waits_.wait_until(done, fabric_.clock().now_ns() + (first_back_off_ns << back_off_doublings)) ==
        fabric::Status::ok;
    if (in_time && !lease::is_moved(words_.own_lease(index))) throw_lost(fabric_);
  }
  // If the copy was sole, who took it has asked for it before, on another thread of this rank.
  const StateGuard guard(block.state);
  if (words_.own_exposed(index)) {
    words_.set_own_exposed(index, false);
    block.has_twin = true;
  }
}

void LeaseSegment::list_dirty(std::uint64_t index, Block& block) {
  const StateGuard guard(list_lock_);
  if (block.listed) return;
  block.listed = true;
  block.next_listed = first_listed_.load(std::memory_order_relaxed);
  first_listed_.store(index + 1, std::memory_order_release);
}

void LeaseSegment::keep_in_heap(Block& block, Timestamp key) {
  const StateGuard guard(heap_lock_);
  if (!block.in_heap) heap_.insert(block, key);
}

// ---- Messages

void LeaseSegment::tell(void* self, fabric::Rank to, std::uint64_t index, BlockLock::Answer answer) {
  auto& segment = *static_cast<LeaseSegment*>(self);
  segment.space_.send(LeaseRelease::Message::lock_answer, to, segment.id_, index, answer);
}

void LeaseSegment::drop_by_message(std::uint64_t index) noexcept {
  Block& block = states_[index];
  const StateGuard guard(block.state);
  block.dropped = true;
  if (strong(index)) return;
  if (pages_.access(index) != vm::Access::none && !block.pinned) pages_.set_access(index, vm::Access::none);
  Counters::add(counters_.invalidations);
}

}  // namespace craton::coherence
