/// \file
/// Blocks that several ranks write, whose homes stay where they are: what others have written is sent there
/// (sending.hpp), as with the fixed homes of home-based protocols, but from any rank to any.
///
/// Why that is right: the home's handler has the block's lock, and does what a release of the home would do:
/// its twin, which others fetch, gets the bytes first, then a time follows that is later than all leases. The
/// notice of it is told by who sent it, and names the home.
///
/// The home's threads must not see it before they have acquired it: who spins on a flag with flushes would
/// find it set without the flush that brings what went before it. So the home's copy stays as it was, with
/// the times that it had, and what was sent is put by (put_by.hpp). The copy is *behind* then, and usable by
/// its times, like any other. Who acquires the notice, or a later minimum, has what it needs here:
/// catch_up(). Releases of the home look at what was written here since the base, and not at the twin. All of
/// it is merged where the block's newest bytes are needed, or come anyway: by an atomic update, by who makes
/// the block strong, and by a release that finds the home elsewhere. Until then a copy may stay behind
/// although its home has gone: its twin, which notices name, must not become what the copy is.
///
/// Who has sent something has all that was published until then if the home had been written no later than
/// its copy. Else its copy is as old as it was, with its own writes in it, which other ranks' twins may be
/// without: it goes on from the home's alone (Block::copied_from).
#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "coherence/lease_release.hpp"
#include "coherence/lease_segment.hpp"
#include "coherence/sending.hpp"

namespace craton::coherence {

namespace {
/// Releases in a row that find nobody else writing, after which the home is taken.
constexpr std::uint8_t alone_most = 4;
/// How often what was sent follows a home that has gone.
constexpr unsigned hops_most = 3;
}  // namespace

// ---- Who has written

/// With `busy`, of a dirty block whose home is elsewhere.
bool LeaseSegment::is_time_to_send(const Block& block) const noexcept {
  const bool can = fast() && has_published_twins() && !directory() && !is_untouched(block);
  return can && block.returned >= dials_.send_after && dials_.send_after != Dials::never;
}

/// With `busy`, when a release takes the home.
void LeaseSegment::note_return(std::uint64_t index, Block& block) noexcept {
  const bool was_here = lease::time(words_.own_lease(index)) != 0;
  if (was_here && block.returned < Dials::never - 1) ++block.returned;
}

/// With `busy`, of a dirty block whose copy is not behind. Sends what was written to the home, if it is
/// little. Where that cannot be it is not tried again before the home has come back as often. \returns
/// whether it is published
bool LeaseSegment::send_home(std::uint64_t index, Block& block, std::vector<WriteNotice>& notices) {
  const std::uint64_t own = words_.own_link(index);
  CRATON_ASSERT(link::is_rank(own));
  fabric::Rank home = later_home(index, block).value_or(link::rank(own));
  if (!space_.asks(home)) return false;
  std::vector<DiffPiece> pieces;
  const std::size_t most = block_bytes_ / DiffPiece::bytes / dials_.send_one_in;
  if (!make_diff(data(index), twin(index), block_bytes_, most, pieces)) {
    block.returned = 0;
    return false;
  }
  MergedWords merged = send_to(home, index, pieces);
  for (unsigned hop = 0; merged.write_ts == 0 && link::is_rank(merged.link) && hop < hops_most; ++hop) {
    const fabric::Rank next = link::rank(merged.link);
    if (!space_.asks(next)) break;
    home = next;
    merged = send_to(home, index, pieces);
  }
  if (merged.write_ts == 0) {
    block.returned = 0;
    Counters::add(counters_.sent_in_vain);
    return false;
  }
  if (events::wants(events::sharing)) [[unlikely]]
    note_writes(index, merged.before_ts != block.copy_write_ts);
  note_diff(pieces, twin(index));
  note_sent(index, block, home, merged, notices);
  return true;
}

/// With `busy`. \returns what the rank says
MergedWords LeaseSegment::send_to(fabric::Rank home, std::uint64_t index, std::span<const DiffPiece> pieces) {
  Sending sending(space_.sendings());
  space_.send_diff(home, id_, index, sending.number(), {.least = space_.min_write_ts_.load()}, pieces);
  wait_for(fabric_, waits_, [&] { return sending.is_answered(); });
  return sending.answer();
}

/// With `busy`.
void LeaseSegment::note_sent(std::uint64_t index, Block& block, fabric::Rank home, const MergedWords& merged,
                             std::vector<WriteNotice>& notices) {
  const Timestamp read_ts = merged.write_ts + dials_.lease;
  block.taken_alone = 0;
  block.alone = false;
  block.sent_alone = merged.before_ts == block.sent_ts ? static_cast<std::uint8_t>(block.sent_alone + 1) : 0;
  block.sent_ts = merged.write_ts;
  if (block.sent_alone >= alone_most) block.returned = block.sent_alone = 0;
  {
    const StateGuard guard(block.state);
    if (merged.before_ts == block.copy_write_ts) {
      block.copy_write_ts = merged.write_ts;
      block.required_ts = std::max(block.required_ts, merged.write_ts);
      block.copy_read_ts = read_ts;
      block.copied_from = 0;
    } else {
      block.copied_from = home + 1;
    }
    block.told_by = home;
    block.told_ts = merged.write_ts;
    block.opened_after = 0;
    block.untold = false;
  }
  notices.push_back(
      {.source = home, .segment = id_, .block = index, .write_ts = merged.write_ts, .read_ts = read_ts});
  Counters::add(counters_.notices);
  Counters::add(counters_.sent);
}

// ---- Its home

/// In a handler, for a rank that has written a block, perhaps one whose home is here. Waits for nobody.
void LeaseSegment::merge_sent(fabric::Rank from, std::uint64_t index, std::uint64_t sending,
                              const SendTerms& terms, std::vector<DiffPiece> pieces) noexcept {
  Block& block = states_[index];
  MergedWords merged{};
  {
    const std::unique_lock busy(block.busy, std::try_to_lock);
    if (busy.owns_lock() && lock_.try_lock_own_now(index)) {
      if (can_put_by(index, block)) merged = publish_sent(from, index, block, terms, std::move(pieces));
      lock_.unlock_now(index);
    }
  }
  merged.link = words_.own_link(index);
  space_.send(LeaseRelease::Message::merged, from, id_, index, sending, merged);
}

/// With `busy` and the block's lock: the home is here. Whether its twin is what was published last, and has
/// memory.
bool LeaseSegment::can_put_by(std::uint64_t index, Block& block) noexcept {
  const StateGuard guard(block.state);
  const std::uint64_t own = words_.own_lease(index);
  return !strong(index) && !block.sole && !lease::is_sole(own) && !lease::is_kept(own) &&
         !is_untouched(block);
}

/// The same, if it can be.
MergedWords LeaseSegment::publish_sent(fabric::Rank from, std::uint64_t index, Block& block,
                                       const SendTerms& terms, std::vector<DiffPiece> pieces) noexcept {
  for (const DiffPiece& piece : pieces) CRATON_ASSERT(piece.index < block_bytes_ / DiffPiece::bytes);
  if (!block.behind) {
    const StateGuard guard(put_by_lock_);
    put_by_.try_emplace(index, twin(index), block_bytes_);
  }
  {
    const StateGuard guard(block.state);
    block.behind = true;
  }
  note_diff(pieces, twin(index));
  const Timestamp before_ts = words_.own_write_ts(index);
  const Timestamp write_ts =
      extend_for_write(words_.own_lease(index), before_ts, terms.least, 0, dials_.lease,
                       [&](std::uint64_t expected, std::uint64_t desired) {
                         return words_.exchange_own_lease(index, expected, desired);
                       });
  words_.set_own_write_ts(index, write_ts);
  {
    const StateGuard guard(block.state);
    CRATON_ASSERT(write_ts > block.copy_read_ts);  // so the copy has the times that it had
  }
  put_by(index).add(from, write_ts, std::move(pieces));
  if (block.clean_twin_ts == before_ts && before_ts != 0) block.clean_twin_ts = write_ts;
  block.sole_delay = std::max(block.sole_delay, sole_delay_after(block));
  return {.write_ts = write_ts, .before_ts = before_ts, .link = link::locked};
}

/// With `busy`, of a copy that is behind.
PutBy& LeaseSegment::put_by(std::uint64_t index) noexcept {
  const StateGuard guard(put_by_lock_);
  const auto found = put_by_.find(index);
  CRATON_ASSERT(found != put_by_.end());
  return found->second;
}

void LeaseSegment::forget_put_by(std::uint64_t index, Block& block) noexcept {
  {
    const StateGuard guard(block.state);
    block.behind = false;
  }
  const StateGuard guard(put_by_lock_);
  put_by_.erase(index);
}

/// With `busy`. What writes of this rank are told by.
const std::byte* LeaseSegment::base(std::uint64_t index) noexcept {
  return states_[index].behind ? put_by(index).base() : twin(index);
}

/// With `busy`. A home's copy gets what this rank has acquired.
void LeaseSegment::catch_up(std::uint64_t index, Block& block) {
  Timestamp acquired = 0;
  {
    const StateGuard guard(block.state);
    acquired = std::max(block.required_ts, space_.min_write_ts_.load(std::memory_order_acquire));
  }
  catch_up(index, block, acquired);
}

/// The same, with what was published until then. Its home may go elsewhere meanwhile.
void LeaseSegment::catch_up(std::uint64_t index, Block& block, Timestamp until) {
  if (!block.behind) return;
  PutBy& sent = put_by(index);
  sent.catch_up(until, data(index),
                [&](fabric::Rank from, const MergeOutcome& outcome) { report_races(index, from, outcome); });
  {
    const StateGuard guard(block.state);
    const Timestamp write_ts = sent.empty() ? words_.own_write_ts(index) : sent.first_ts() - 1;
    block.copy_write_ts = write_ts;
    block.copy_read_ts = sent.empty() ? write_ts + dials_.lease : write_ts;
    if (sent.empty()) block.copied_from = 0;
  }
  if (sent.empty()) forget_put_by(index, block);
}

}  // namespace craton::coherence
