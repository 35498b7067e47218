/// \file
/// What faults open beyond their own block, and what of other ranks' bytes comes before it may be used.
#include <algorithm>
#include <array>
#include <utility>

#include "base/runs.hpp"
#include "base/scope_exit.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"

namespace craton::coherence {

// ---- To be written

/// With `busy`, of a block that is ready to be written. Opens it, and with it those around it that probably
/// are written now as well, unless their bytes would have to be fetched: those that were written between the
/// same two fences the last time that this rank came from this place; and, where it writes block after block,
/// as many behind it as are open before it. One that is not written then is a copy and a comparison too many.
/// \param first_touch this rank had never used the block; the same may hold of the next
/// \returns false: it has become too old meanwhile
bool LeaseSegment::open_with_neighbours(std::uint64_t index, bool first_touch) {
  const std::uint8_t place = space_.place_.load(std::memory_order_relaxed);
  const std::uint32_t written_in = states_[index].written_in[place];
  const bool is_known = written_in != Block::never && written_in != Block::not_there;
  const std::uint64_t reach = std::min(dials_.open_ahead, open_ahead_most);
  const auto is_open = [&](std::uint64_t at) { return pages_.access(at) == vm::Access::write; };
  std::uint64_t open_before = 0;
  while (open_before < reach && open_before < index && is_open(index - open_before - 1)) ++open_before;
  std::array<std::uint64_t, 2 * open_ahead_most + 1> ready{};
  std::size_t count = 0;
  const ScopeExit unlock([&]() noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (ready[i] != index) states_[ready[i]].busy.unlock();
    }
  });
  const auto prepare = [&](std::uint64_t next, bool is_in_a_row) {
    Block& block = states_[next];
    if (!block.busy.try_lock()) return false;
    const std::uint32_t then = block.written_in[place];
    const bool is_wanted = (is_known && then == written_in) || (is_in_a_row && then == Block::never);
    if (!is_wanted || !can_prepare(next, block, first_touch)) {
      block.busy.unlock();
      return false;
    }
    ready[count++] = next;
    {
      const StateGuard guard(block.state);
      learn_written(block);
    }
    if (prepare_ahead(next, block)) return true;
    --count;
    block.busy.unlock();
    return false;
  };
  for (std::uint64_t step = 1; step <= std::min(reach, index); ++step)
    if (!is_open(index - step) && !prepare(index - step, false)) break;
  std::reverse(ready.begin(), ready.begin() + static_cast<std::ptrdiff_t>(count));
  ready[count++] = index;
  for (std::uint64_t step = 1; step <= reach && index + step < blocks(); ++step)
    if (!is_open(index + step) && !prepare(index + step, step <= open_before)) break;
  return open_to_write(std::span(ready).first(count), index);
}

/// With `busy`. Whether a block that nobody has asked for can be written at no more cost than that of a twin.
bool LeaseSegment::can_prepare(std::uint64_t index, Block& block, bool may_be_new) noexcept {
  if (strong(index) || pages_.access(index) == vm::Access::write || block.in_cut.load()) return false;
  const StateGuard guard(block.state);
  return (usable(index, block) || (may_be_new && !block.seen)) && !block.probed;
}

/// With `busy`. Whether it takes a copy, of the block to its twin or from elsewhere, to open a closed block
/// for writing.
bool LeaseSegment::needs_copy(std::uint64_t index, const Block& block) const noexcept {
  const std::uint64_t own = words_.own_lease(index);
  if (lease::is_kept(own) && lease::is_sole(own)) return false;
  return !owns(index) || !has_clean_twin(index, block);
}

/// With `busy`, if it can_prepare(). \returns false: it has bytes of whose past this rank has not learnt
bool LeaseSegment::prepare_ahead(std::uint64_t index, Block& block) {
  make_usable(index, block);
  if (block.arrivals != block.learnt_arrival) return false;
  if (block.cooled) learn_gap(block);
  prepare_write(index, block);
  return true;
}

/// With `busy`, of blocks that are ready to be written, in order. \returns whether that one is among those
/// that were opened: none is that has become too old meanwhile
bool LeaseSegment::open_to_write(std::span<const std::uint64_t> indices, std::uint64_t wanted) {
  bool is_open = false;
  std::uint64_t opened = 0;
  for_runs(indices, [&](std::span<const std::uint64_t> run) {
    const std::uint64_t first = run.front();
    const std::uint64_t count = open(first, run.size(), vm::Access::write);
    is_open = is_open || (first <= wanted && wanted < first + count);
    note_opening(first, count, indices.size());
    opened += count;
  });
  Counters::add(counters_.opened_ahead, opened - (is_open ? 1 : 0));
  return is_open;
}

/// With `busy`, of blocks in a row that are opened for writing. \param together so many with one fault or
/// acquire
void LeaseSegment::note_opening(std::uint64_t first, std::uint64_t count, std::uint64_t together) noexcept {
  for (std::uint64_t index = first; index < first + count; ++index)
    states_[index].opened_with = static_cast<std::uint8_t>(std::min<std::uint64_t>(together, 255));
}

// ---- To be read

/// With `busy`, of a block that was fetched. The same for who reads block after block of what other ranks
/// have written. In causal segments that is open only when what went before it has been learnt, with what
/// went before the block itself.
void LeaseSegment::read_ahead(std::uint64_t index) {
  const std::uint64_t count = lock_ahead(index);
  if (count == 0) return;
  const std::uint64_t first = index + 1;
  const ScopeExit unlock([&]() noexcept { unlock_ahead(first, count); });
  for (std::uint64_t next = first; next < first + count; ++next) expect_arrival(next, states_[next]);
  std::array<Source, read_ahead_most> sources{};
  fetch_run(first, std::span(sources).first(count));
  if (dials_.causal) {
    for (std::uint64_t next = first; next < first + count; ++next) note_arrived(next, 0);
  } else {
    Counters::add(counters_.read_ahead, open(first, count, vm::Access::read));
  }
}

/// With `busy`. Takes that of the blocks behind it that probably are read next: as many as are open to be
/// read before it. \returns how many
std::uint64_t LeaseSegment::lock_ahead(std::uint64_t index) {
  std::uint64_t before = 0;
  while (before < std::min(dials_.read_ahead, read_ahead_most) && before < index &&
         pages_.access(index - before - 1) != vm::Access::none && !owns(index - before - 1))
    ++before;
  const std::uint64_t end = std::min(index + 1 + before, blocks());
  std::uint64_t next = index + 1;
  for (; next < end && states_[next].busy.try_lock(); ++next) {
    Block& block = states_[next];
    const auto is_wanted = [&] {
      if (strong(next) || owns(next) || block.dirty || pages_.access(next) != vm::Access::none) return false;
      const StateGuard guard(block.state);
      return !block.probed;
    };
    if (is_wanted()) continue;
    block.busy.unlock();
    break;
  }
  return next - index - 1;
}

void LeaseSegment::unlock_ahead(std::uint64_t first, std::uint64_t count) noexcept {
  for (std::uint64_t next = first; next < first + count; ++next) states_[next].busy.unlock();
}

// ---- What comes before it may be used (causal)

/// With `busy`, of a closed block whose bytes have come, and that the next learn_from_all() may open.
/// \param site of the acquire that brought them; 0: a fault did
void LeaseSegment::note_arrived(std::uint64_t index, SiteBits site) {
  const StateGuard guard(arrived_lock_);
  arrived_.push_back({.index = index, .arrival = states_[index].arrivals, .site = site});
}

std::vector<LeaseSegment::Arrived> LeaseSegment::take_arrived() noexcept {
  const StateGuard guard(arrived_lock_);
  return std::exchange(arrived_, {});
}

/// This rank has learnt what went before those arrivals. Opens the blocks as the acquires would have that
/// brought them, neighbours with one system call; not those that are too old by now.
void LeaseSegment::open_arrived(std::vector<Arrived>& arrived) {
  std::sort(arrived.begin(), arrived.end(),
            [](const Arrived& left, const Arrived& right) { return left.index < right.index; });
  const auto is_ready = [&](const Arrived& each) {
    Block& block = states_[each.index];
    block.learnt_arrival = std::max(block.learnt_arrival, each.arrival);
    if (block.learnt_arrival != block.arrivals || strong(each.index)) return false;
    const StateGuard guard(block.state);
    return pages_.access(each.index) == vm::Access::none && usable(each.index, block);
  };
  const auto goes_on = [](const Arrived& before, const Arrived& each) {
    return each.index == before.index + 1 && each.site == before.site;
  };
  for (std::span<const Arrived> left(arrived); !left.empty();) {
    const auto batch = left.first(std::min<std::size_t>(left.size(), open_ahead_most));
    left = left.subspan(batch.size());
    std::vector<Arrived> ready;
    const ScopeExit unlock([&]() noexcept {
      for (const Arrived& each : ready) states_[each.index].busy.unlock();
    });
    for (const Arrived& each : batch) {
      std::unique_lock busy(states_[each.index].busy, std::try_to_lock);
      if (!busy.owns_lock() || !is_ready(each)) continue;
      ready.push_back(each);
      busy.release();
    }
    for_runs(std::span<const Arrived>(ready), goes_on, [&](std::span<const Arrived> run) {
      open_refreshed(run.front().index, run.size(), run.front().site);
      if (run.front().site == 0) Counters::add(counters_.read_ahead, run.size());
    });
  }
}

}  // namespace craton::coherence
