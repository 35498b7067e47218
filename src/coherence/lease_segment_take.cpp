/// \file
/// Homes that go to another rank: who takes one, and what the home does when it is asked (taking.hpp).
#include <algorithm>
#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/taking.hpp"
#include "fabric/batch.hpp"

namespace craton::coherence {

// ---- Who takes it

/// Takes the lock from the home elsewhere, and what it has published, into which the writes of this rank are
/// merged. That is here already where nobody else has written the block since the copy was made. From then on
/// nobody has the home, until publish_taken().
LeaseSegment::Taken LeaseSegment::take_home(std::uint64_t index, Block& block) {
  expect_arrival(index, block);
  const ScratchPool::Buffer incoming(scratch_);
  Taking taking(space_.takings(), incoming.data(), terms_to_take(block));
  const fabric::Rank home = lock_.lock(
      index, block.answer, [&](fabric::Rank at) { return try_take(at, index, taking); },
      later_home(index, block));
  return take_home_from(home, index, block, taking, incoming.data());
}

/// With `busy`. Bytes that one-sided operations bring with the words may be here already: where nobody has
/// written the block, as far as we know, or where only this rank writes it while it has a copy.
bool LeaseSegment::is_to_bring_bytes(const Block& block) const noexcept {
  return fast() && block.copy_write_ts != 0 && !block.alone;
}

/// With `busy`. Without leases the copy may be older than it says.
TakeTerms LeaseSegment::terms_to_take(const Block& block) const noexcept {
  return {.known_write_ts = directory() ? 0 : block.copy_write_ts,
          .least = space_.min_write_ts_.load(),
          .needs_bytes = 1};
}

/// With `busy`. A rank that had the home after this one, if notices tell of one: who publishes has it, at
/// times that never fall on its way.
std::optional<fabric::Rank> LeaseSegment::later_home(std::uint64_t index, Block& block) const noexcept {
  const std::uint64_t own = words_.own_lease(index);
  const StateGuard guard(block.state);
  const bool is_told = floating() && block.told_ts != 0 && lease::is_moved(own) &&
                       block.told_ts >= lease::time(own) && block.told_by != fabric_.rank();
  return is_told ? std::optional(block.told_by) : std::nullopt;
}

/// BlockLock::Take.
std::uint64_t LeaseSegment::try_take(fabric::Rank at, std::uint64_t index, Taking& taking) {
  if (!space_.asks(at)) return lock_.try_take(at, index);
  taking.ask();
  space_.send(LeaseRelease::Message::take, at, id_, index, taking.number(), taking.terms);
  wait_for(fabric_, waits_, [&] { return taking.is_answered(); });
  taking.is_closed = taking.taken.link == link::unlocked;
  if (taking.taken.has_bytes != 0) Counters::add(counters_.fetched_bytes, block_bytes_);
  return taking.taken.link;
}

/// With the block's lock, which that rank had before and handed on. What the home says is the same as long as
/// we have its lock; only leases may be extended until it is closed. So all is asked for at once.
/// \param to null: without the bytes
void LeaseSegment::close_home(fabric::Rank home, std::uint64_t index, Taking& taking, std::byte* to) {
  if (taking.is_closed) return;
  BlockWords words;
  std::uint64_t lease = 0;
  {
    fabric::Completion asked;
    const fabric::Batch together;
    words_.start_swap_lease(home, index, lease::closed, lease, asked);
    words_.start_get(home, index, words, asked);
    if (to != nullptr) start_get_bytes(home, published_region(), index, to, asked);
    waits_.wait(asked);
  }
  words_.decode(home, index, words);
  lease = words_.decode_lease(home, index, lease);
  // They may be of before and after the end of a sole copy.
  lease |= words.lease & (lease::sole | lease::was_sole);
  taking.taken = {.link = link::unlocked,
                  .lease = lease,
                  .write_ts = words.write_ts,
                  .exposed = words.exposed,
                  .updater = words.updater,
                  .has_bytes = to != nullptr && (lease & (lease::was_sole | lease::kept)) == 0,
                  .moved_ts = 0};
}

/// The home goes on: nobody needs anything from there any more. To be ended by end_move(). \returns the time
/// at which the block is published here, or later: it is later than all leases
Timestamp LeaseSegment::begin_move(fabric::Rank home, std::uint64_t index, Taking& taking) {
  const TakenWords& taken = taking.taken;
  if (taken.moved_ts != 0) return taken.moved_ts;
  const Timestamp write_ts =
      later_than(lease::time(taken.lease), taken.write_ts, space_.min_write_ts_.load());
  if (space_.asks(home)) {
    space_.send(LeaseRelease::Message::moved, home, id_, index, write_ts);
  } else {
    words_.start_swap_lease(home, index, lease::moved_at(write_ts), taking.closed_lease, taking.told);
  }
  return write_ts;
}

void LeaseSegment::end_move(fabric::Rank home, std::uint64_t index, Taking& taking) {
  if (space_.asks(home) || taking.taken.moved_ts != 0) return;
  waits_.wait(taking.told);
  const std::uint64_t seen = taking.taken.lease | words_.decode_lease(home, index, taking.closed_lease);
  if ((seen & lease::awaited) != 0 && fabric_.wake(home) != fabric::Status::ok) throw_lost(fabric_);
}

/// With `busy` and the block's lock, which that rank had before.
/// \param incoming a buffer, or the copy itself, of a block that is not dirty: what comes may be read here
/// while it comes
LeaseSegment::Taken LeaseSegment::take_home_from(fabric::Rank home, std::uint64_t index, Block& block,
                                                 Taking& taking, std::byte* incoming) {
  CRATON_ASSERT(home != fabric_.rank());
  const bool in_place = incoming == data(index);
  close_home(home, index, taking, !in_place && is_to_bring_bytes(block) ? incoming : nullptr);
  TakenWords& taken = taking.taken;
  CRATON_ASSERT(lease::is_open(taken.lease));
  const bool was_sole = (taken.lease & lease::was_sole) != 0;
  // It is so as long as we have the lock.
  const bool is_kept = lease::is_kept(taken.lease);
  if (lease::is_sole(taken.lease) && !is_kept) static_cast<void>(share(home, index));
  if (was_sole) {
    const BlockWords now = words_.get(home, index);
    taken.write_ts = now.write_ts;
    taken.updater = now.updater;
  }
  const bool is_zero = (taken.lease & lease::written) == 0 && (has_published_twins() || taken.exposed == 0);
  // Others write it too, and will again.
  if (!is_zero) block.sole_delay = std::max(block.sole_delay, sole_delay_after(block));
  // While this rank has the lock.
  block.alone = has_published_twins() && !is_zero && taking.terms.is_as_new_as(taken.write_ts);
  // A block that nobody has published is zero bytes here too, but for what this rank has written.
  if (!is_zero && !block.alone) {
    if (taken.has_bytes == 0) {
      CRATON_ASSERT(taken.moved_ts == 0);
      get_bytes(home, is_kept ? data_region_ : published_region(), index, incoming);
    }
    // Where homes do not keep what they have published, the writes of this moment are taken as well, and the
    // home's twin is made of them.
    if (!has_published_twins() && taken.exposed != 0) {
      put_bytes(home, twin_region_, index, 0, incoming, block_bytes_);
      Counters::add(counters_.copied_back);
    }
  }
  const Timestamp write_ts = begin_move(home, index, taking);
  if (block.alone || is_zero) {
    if (block.alone) Counters::add(counters_.merged_alone);
    if (events::wants(events::sharing) && block.dirty) [[unlikely]]
      note_writes(index, false);
  } else if (block.dirty) {
    merge(index, home, incoming);
  } else if (!in_place) {
    std::memcpy(data(index), incoming, block_bytes_);
  }
  end_move(home, index, taking);
  return {.from = home,
          .write_ts = write_ts,
          .updater = taken.updater,
          .published_ts = taken.write_ts,
          .leased_until = lease::time(taken.lease)};
}

/// The home is here now: what is in the copy is published.
void LeaseSegment::publish_taken(std::uint64_t index, Block& block, const Taken& taken,
                                 std::vector<WriteNotice>& notices) {
  words_.set_own_updater(index, taken.updater);
  words_.set_own_write_ts(index, taken.write_ts);
  words_.set_own_lease(index,
                       lease::open_until(checked_timestamp(taken.write_ts + dials_.lease)) | lease::written);
  publish(index, block, fabric_.rank(), taken.write_ts, notices);
  if (directory()) {
    const std::uint64_t sharers = words_.swap_sharers(taken.from, index, 0);
    invalidate_sharers(index, block, sharers, taken.from);
  }
  lock_.unlock(index);
}

// ---- Who had it

/// In a handler, for a rank that wants the home, perhaps from here: does what it would do by one-sided
/// operations.
void LeaseSegment::give_home(fabric::Rank to, std::uint64_t index, std::uint64_t taking,
                             const TakeTerms& terms) noexcept {
  TakenWords words{};
  words.link = words_.exchange_own_link(index, link::unlocked, link::to(to));
  std::span<const std::byte> bytes;
  if (words.link == link::unlocked) {
    words.lease = words_.swap_own_lease(index, lease::closed);
    words.write_ts = words_.own_write_ts(index);
    words.exposed = words_.own_exposed(index) ? 1 : 0;
    words.updater = words_.own_updater(index);
    // The twin of one that was sole may be made at this moment, by another thread.
    const bool is_certain = has_published_twins() && (words.lease & lease::was_sole) == 0;
    const bool is_zero = (words.lease & lease::written) == 0;
    bool is_enough =
        terms.needs_bytes == 0 || (is_certain && (is_zero || terms.is_as_new_as(words.write_ts)));
    if (!is_enough && is_certain && block_bytes_ <= told_bytes) {
      words.has_bytes = 1;
      bytes = {lease::is_kept(words.lease) ? data(index) : twin(index), block_bytes_};
      is_enough = true;
    }
    if (is_enough) words.moved_ts = later_than(lease::time(words.lease), words.write_ts, terms.least);
  }
  space_.send_taken(to, id_, index, taking, words, bytes);
  if (words.moved_ts != 0) has_moved(index, words.moved_ts);
}

/// In a handler. Nobody needs anything from here any more: who waits for that (settle) may take the home
/// back.
void LeaseSegment::has_moved(std::uint64_t index, Timestamp write_ts) noexcept {
  const std::uint64_t before = words_.swap_own_lease(index, lease::moved_at(write_ts));
  CRATON_ASSERT(!lease::is_open(before));
  CRATON_ASSERT(!lease::is_moved(before));
}

}  // namespace craton::coherence
