/// \file
/// Bringing a copy up to date: from where a notice says that a block is, or from its home, which extends its
/// lease (dissertation, section 3.4.5).
#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "base/runs.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"

namespace craton::coherence {

namespace {
constexpr unsigned lease_doublings_most = 10;
}  // namespace

/// With `busy`. Afterwards the copy is as new as what this rank had acquired when it began.
void LeaseSegment::fetch(std::uint64_t index, Block& block) {
  const events::Span transfer(events::Kind::transfer, block_address(index));
  while (!fetch_from(find_source(index, block), index, block)) {
  }
}

/// The same, but \returns false where it would have to wait for another rank to give the block's lock back,
/// or the home writes it meanwhile.
bool LeaseSegment::try_fetch(std::uint64_t index, Block& block) {
  const std::optional<Source> source = try_find_source(index, block);
  return source.has_value() && fetch_from(*source, index, block);
}

/// \returns false: the home has written it meanwhile
bool LeaseSegment::fetch_from(const Source& source, std::uint64_t index, Block& block) {
  if (source.written) {  // else what we have is right
    expect_arrival(index, block);
    if (!block.dirty && pages_.access(index) == vm::Access::none) {
      if (!get_to(data(index), index, source)) {
        forget_copy(block);
        return false;
      }
    } else {
      const ScratchPool::Buffer incoming(scratch_);
      if (!get_to(incoming.data(), index, source)) return false;
      if (block.dirty) {
        CRATON_ASSERT(block.has_twin);
        merge(index, source.rank, incoming.data());
      } else {
        std::memcpy(data(index), incoming.data(), block_bytes_);
      }
    }
  }
  note_copy(block, source);
  return true;
}

/// \returns false: the home wrote it meanwhile, and what came may be anything
bool LeaseSegment::get_to(std::byte* to, std::uint64_t index, const Source& source) {
  get_bytes(source.rank, region_of(source), index, to);
  return is_still(index, source);
}

/// After its bytes have come: whether they are those that were published. From a home that keeps them they
/// are if it does so still; who has once fetched them there ends that at the home's next write.
bool LeaseSegment::is_still(std::uint64_t index, const Source& source) {
  if (!source.kept) return true;
  const BlockWords words = words_.get(source.rank, index);
  return lease::is_open(words.lease) && lease::is_kept(words.lease) && words.write_ts == source.write_ts;
}

/// With `busy`, of a closed copy: it was overwritten by who knows what, and cannot be used, whatever this
/// rank has acquired.
void LeaseSegment::forget_copy(Block& block) noexcept {
  const StateGuard guard(block.state);
  block.copy_write_ts = block.copy_read_ts = 0;
  block.required_ts = std::max<Timestamp>(block.required_ts, 1);
}

/// The same for blocks in a row that are not dirty, those that come from one rank with one get, all of them
/// at a time.
void LeaseSegment::fetch_run(std::uint64_t first, std::span<Source> sources) {
  const events::Span transfer(events::Kind::transfer, block_address(first));
  waits_.run(sources.size(), [&](std::size_t i) { sources[i] = find_source(first + i, states_[first + i]); });
  fabric::Completion arrived;
  const auto is_alike = [](const Source& before, const Source& each) {
    return each.written == before.written && each.rank == before.rank && each.kept == before.kept;
  };
  std::uint64_t index = first;
  for_runs(sources, is_alike, [&](std::span<const Source> run) {
    const std::size_t bytes = run.size() * block_bytes_;
    if (run.front().written) {
      fabric_.get(
          data(index),
          {.rank = run.front().rank, .region = region_of(run.front()), .offset = index * block_bytes_}, bytes,
          arrived);
      Counters::add(counters_.fetched_bytes, bytes);
    }
    index += run.size();
  });
  waits_.wait(arrived);
  const auto note = [&](std::size_t i) {
    Block& block = states_[first + i];
    if (is_still(first + i, sources[i])) {
      note_copy(block, sources[i]);
    } else {
      forget_copy(block);
    }
  };
  std::array<std::size_t, read_ahead_most> kept{};  // whose homes have to be looked at again
  std::size_t kept_count = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].kept) {
      kept[kept_count++] = i;
    } else {
      note(i);
    }
  }
  waits_.run(kept_count, [&](std::size_t i) { note(kept[i]); });
}

/// Where the bytes of a block are to be had: here, or from where notices told of, or where its home is.
LeaseSegment::Source LeaseSegment::find_source(std::uint64_t index, Block& block) {
  for (unsigned round = 0;;) {
    if (const std::optional<Source> source = try_find_source(index, block)) return *source;
    back_off(round);
  }
}

/// \returns nothing while the block changes hands
std::optional<LeaseSegment::Source> LeaseSegment::try_find_source(std::uint64_t index, Block& block) {
  settle(index, block);
  for (;;) {
    catch_up(index, block);
    const StateGuard guard(block.state);
    // Closed, but not old: a release has merged it since, and it may be newer than what notices told of.
    if (usable(index, block))
      return Source{.rank = fabric_.rank(),
                    .write_ts = block.copy_write_ts,
                    .read_ts = block.copy_read_ts,
                    .written = false};
    if (block.behind) continue;  // this rank has acquired more meanwhile
    // From now on a message that drops the copy drops also the one that we are about to get.
    block.dropped = false;
    block.fetched = true;
    const Source known = known_source(block);
    if (known.write_ts != 0) {
      Counters::add(counters_.fast_reads);
      return known;
    }
    break;
  }
  const std::optional<Source> source = try_ask_home(index, block);
  if (source.has_value()) {
    Counters::add(source->written ? counters_.slow_reads : counters_.zero_reads);
  } else {
    const StateGuard guard(block.state);
    block.dropped = true;  // none is to come
  }
  return source;
}

/// Under the block's state lock. Where notices say that what this rank needs is to be had. Its write_ts is 0:
/// they do not, or it is put by here, or that could be older than what the copy has already. A thread may
/// have seen that, and written it over: the copy must not go back to before. What a rank's twin has only
/// becomes newer, and the home's is the newest.
LeaseSegment::Source LeaseSegment::known_source(const Block& block) const noexcept {
  const bool is_known = !directory() && !block.behind && block.source_write_ts != 0 &&
                        block.source_write_ts >= block.required_ts &&
                        (block.copied_from == 0 || block.copied_from == block.source + 1) &&
                        block.source_read_ts >= space_.min_write_ts_.load(std::memory_order_acquire);
  if (!is_known) return {.rank = fabric_.rank(), .write_ts = 0, .read_ts = 0, .written = false};
  return {.rank = block.source,
          .write_ts = block.source_write_ts,
          .read_ts = block.source_read_ts,
          .written = true};
}

void LeaseSegment::note_copy(Block& block, const Source& source) {
  // The home's words may be of before and after its first write; the bytes are of after: see is_untouched().
  const Timestamp least = source.written ? 1 : 0;
  const StateGuard guard(block.state);
  block.copy_write_ts = std::max(source.write_ts, least);
  block.copy_read_ts = source.read_ts;
  if (source.written) block.copied_from = source.kept ? 0 : source.rank + 1;
}

/// Finds the home and gets its leave to read the block there: a lease that reaches beyond all that this rank
/// has acquired, or a place among the sharers. No lock is taken: a writer that has not seen our extension
/// makes it fail. \returns nothing while the block changes hands
std::optional<LeaseSegment::Source> LeaseSegment::try_ask_home(std::uint64_t index, Block& block) {
  const fabric::Rank self = fabric_.rank();
  const auto next_of_own = [&] {
    const std::uint64_t own = words_.own_link(index);
    CRATON_ASSERT(link::is_rank(own));
    return link::rank(own);
  };
  const fabric::Rank first = floating() ? next_of_own() : fixed_home(index);
  fabric::Rank at = first;
  for (;;) {
    const LendTerms terms = terms_for(block);
    std::optional<LentWords> lent;
    if (directory()) {
      lent = try_join_sharers(at, index);
    } else {
      lent = space_.asks(at) ? ask_to_lend(at, index, terms) : try_borrow(at, index, terms);
    }
    if (!lent.has_value()) continue;
    if (floating() && !lease::is_open(lent->lease)) {
      if (!link::is_rank(lent->link)) return {};
      at = link::rank(lent->link) == self ? next_of_own() : link::rank(lent->link);
      continue;
    }
    // Next time the way is shorter. Others change our link only while we hold or have the lock.
    if (floating() && at != first) words_.exchange_link(self, index, link::to(first), link::to(at));
    if (!directory()) note_lent(block, lent->write_ts);
    return Source{.rank = at,
                  .write_ts = lent->write_ts,
                  .read_ts = lent->until,
                  .written = (lent->lease & lease::written) != 0,
                  .kept = !directory() && lease::is_kept(lent->lease)};
  }
}

/// \returns nothing: another rank joined at the same time
std::optional<LentWords> LeaseSegment::try_join_sharers(fabric::Rank home, std::uint64_t index) {
  const std::uint64_t own_bit = std::uint64_t{1} << std::min<fabric::Rank>(fabric_.rank(), 63);
  const auto seen = [](const BlockWords& words) {
    return LentWords{.link = words.link,
                     .lease = words.lease,
                     .write_ts = words.write_ts,
                     .until = lease::time(words.lease)};
  };
  const BlockWords words = words_.get(home, index);
  if (floating() && !lease::is_open(words.lease)) return seen(words);
  if ((words.sharers & own_bit) == 0 &&
      words_.exchange_sharers(home, index, words.sharers, words.sharers | own_bit) != words.sharers)
    return {};
  // Whoever publishes changes the lease first, then asks for the sharers: what the lease says now, after we
  // are among them, we are told when it changes.
  return seen(words_.get(home, index));
}

/// By one-sided operations. \returns nothing: the lease was changed at the same time
std::optional<LentWords> LeaseSegment::try_borrow(fabric::Rank home, std::uint64_t index,
                                                  const LendTerms& terms) {
  const BlockWords words = words_.get(home, index);
  LentWords lent{.link = words.link, .lease = words.lease, .write_ts = words.write_ts, .until = 0};
  if (floating() && !lease::is_open(words.lease)) return lent;
  const Timestamp leased_until = lease::time(words.lease);
  if (lease::is_sole(words.lease) && !lease::is_kept(words.lease)) {
    const Timestamp next = checked_timestamp(std::max(share(home, index) + dials_.lease, leased_until));
    words_.exchange_lease(home, index, words.lease,
                          lease::open_until(next) | (lease::marks(words.lease) & ~lease::sole));
    return {};
  }
  lent.until = std::max(leased_until, terms.until(words.write_ts));
  // Where it was kept for who takes the home next, that ends: see is_still().
  const std::uint64_t extended =
      lease::open_until(checked_timestamp(lent.until)) | (lease::marks(words.lease) & ~lease::sole);
  if (words.lease != extended && words_.exchange_lease(home, index, words.lease, extended) != words.lease)
    return {};
  return lent;
}

/// The same by one question, which its handler answers: lend().
LentWords LeaseSegment::ask_to_lend(fabric::Rank home, std::uint64_t index, const LendTerms& terms) {
  Lending lending(space_.lendings());
  space_.send(LeaseRelease::Message::lend, home, id_, index, lending.number(), terms);
  wait_for(fabric_, waits_, [&] { return lending.is_answered(); });
  return lending.answer();
}

/// In a handler, for a rank that wants a copy, perhaps from here: does what it would do by one-sided
/// operations.
void LeaseSegment::lend(fabric::Rank to, std::uint64_t index, std::uint64_t lending,
                        const LendTerms& terms) noexcept {
  LentWords lent{};
  std::uint64_t extended = 0;
  std::uint64_t before = words_.own_lease(index);
  do {
    lent = {.link = words_.own_link(index), .lease = before, .write_ts = 0, .until = 0};
    if (floating() && !lease::is_open(before)) break;
    Timestamp least = lease::time(before);
    if (lease::is_sole(before) && !lease::is_kept(before))
      least = std::max(least, end_sole(index, states_[index]) + dials_.lease);
    lent.write_ts = words_.own_write_ts(index);
    lent.until = std::max(least, terms.until(lent.write_ts));
    extended = lease::open_until(checked_timestamp(lent.until)) | (lease::marks(before) & ~lease::sole);
    before = words_.exchange_own_lease(index, before, extended);
  } while (before != lent.lease);
  space_.send(LeaseRelease::Message::lent, to, id_, index, lending, lent);
}

/// A lease is extended by twice as much as the last time where the block was not written since, so that what
/// is only read is soon asked for no more (after Tardis 2.0, Yu et al. 2016, section IV).
LendTerms LeaseSegment::terms_for(Block& block) const noexcept {
  const StateGuard guard(block.state);
  const unsigned doublings = std::min(block.lease_doublings + 1U, lease_doublings_most);
  return {.least = space_.min_write_ts_.load(std::memory_order_acquire),
          .known_write_ts = block.copy_write_ts,
          .if_known = dials_.lease << doublings,
          .if_written = dials_.lease};
}

void LeaseSegment::note_lent(Block& block, Timestamp write_ts) noexcept {
  const StateGuard guard(block.state);
  if (write_ts != block.copy_write_ts) {
    block.lease_doublings = 0;
  } else if (block.lease_doublings < lease_doublings_most) {
    ++block.lease_doublings;
  }
}

}  // namespace craton::coherence
