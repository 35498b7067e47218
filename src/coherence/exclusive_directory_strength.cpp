/// \file
/// How a block becomes strong and weak again, as its manager leads it. Two phases, so that no rank uses the
/// block by the one rule while another uses it by the other:
///
///     rise   every rank closes it and publishes          ▶ the home owns it          ▶ all others have none
///     fall   every rank closes it, or says that it is     ▶ its owner is the home,    ▶ all others' copies
///            in the middle of an atomic operation           at a new time               are older than that
///
/// A rise is a release of every rank, and an acquire at the new owner; a fall is a release at the owner and
/// an acquire at every rank. So what is known before a change is known after it.
#include "base/assert.hpp"
#include "coherence/exclusive_directory.hpp"

namespace craton::coherence {

using Kind = ExclusiveMessage::Kind;

void ExclusiveDirectory::answer_change(const Entry& entry, const Request& request, bool agreed,
                                       Orders& orders) const {
  if (request.rank == nobody) return;
  order(entry, request.rank, {.kind = Kind::changed, .agreed = agreed, .number = request.number}, orders);
}

void ExclusiveDirectory::fall_later(Entry& entry, TimeNs now_ns) {
  entry.fall_at_ns = now_ns + segments_[entry.segment].fall_after_ns;
  wake_at(entry, entry.fall_at_ns);
}

void ExclusiveDirectory::begin_rise(Entry& entry, Orders& orders) {
  if (entry.strong) {
    entry.kept |= entry.current.kept;
    return answer_change(entry, entry.current, true, orders);
  }
  entry.phase = Phase::preparing;
  entry.answers_due = ranks_;
  order_all(entry, {.kind = Kind::prepare, .strength = Strength::strong}, orders);
}

void ExclusiveDirectory::begin_fall(Entry& entry, Orders& orders) {
  if (!entry.strong) return answer_change(entry, entry.current, true, orders);
  if (segments_[entry.segment].has_store) return answer_change(entry, entry.current, false, orders);
  entry.phase = Phase::preparing;
  entry.answers_due = ranks_;
  // By itself it falls only if nobody has used an atomic operation on it lately.
  const bool by_itself = entry.current.rank == nobody;
  order_all(entry,
            {.kind = Kind::prepare,
             .strength = Strength::release,
             .hold_ns = by_itself ? segments_[entry.segment].fall_after_ns : 0},
            orders);
}

void ExclusiveDirectory::prepared(Entry& entry, fabric::Rank from, const ExclusiveMessage& message,
                                  Orders& orders) {
  CRATON_ASSERT(entry.phase == Phase::preparing);
  if (message.answer != ExclusiveMessage::Answer::closed) entry.refused = true;
  // The home may have moved while the ranks closed the block one after the other; each move has a later time.
  if (message.home && (entry.home == nobody || message.write_ts > entry.home_write_ts)) {
    entry.home = from;
    entry.home_write_ts = message.write_ts;
  }
  if (--entry.answers_due != 0) return;
  if (entry.refused) return call_off(entry, orders);
  fabric::Rank next = entry.home;
  if (entry.current.kind == Request::Kind::fall) {
    next = entry.owner;
    if (next == nobody && !entry.holders.empty()) next = entry.holders.access();
    // Nobody has ever touched it: it is what it was at first.
    if (next == nobody) return conclude_release(entry, {}, orders);
  }
  CRATON_ASSERT(next != nobody);
  entry.source = next;
  entry.phase = Phase::taking_over;
  order(entry, next,
        {.kind = Kind::take_over,
         .strength = entry.current.kind == Request::Kind::fall ? Strength::release : Strength::strong},
        orders);
}

/// A rank has said no: everything stays as it was.
void ExclusiveDirectory::call_off(Entry& entry, Orders& orders) {
  if (entry.current.kind == Request::Kind::rise) return conclude_release(entry, {}, orders);
  Counters::add(counters_.falls_called_off);
  conclude(entry, {.strength = Strength::strong}, orders);
}

void ExclusiveDirectory::taken_over(Entry& entry, const ExclusiveMessage& message, Orders& orders) {
  CRATON_ASSERT(entry.phase == Phase::taking_over);
  if (entry.current.kind == Request::Kind::fall) return conclude_release(entry, message, orders);
  Counters::add(counters_.rises);
  entry.strong = true;
  entry.kept = entry.current.kept;
  entry.state = CopyState::modified;
  entry.owner = entry.source;
  entry.holders.clear();
  entry.holders.push(entry.source);
  conclude(entry, {.strength = Strength::strong}, orders);
}

void ExclusiveDirectory::conclude_release(Entry& entry, ExclusiveMessage message, Orders& orders) {
  if (entry.current.kind == Request::Kind::fall) Counters::add(counters_.falls);
  entry.goes_weak = true;
  message.strength = Strength::release;
  message.generation = ++entry.generation;
  message.source = entry.source;
  conclude(entry, message, orders);
}

/// All ranks answer, as everything is answered before the next transaction: so none overtakes this message.
void ExclusiveDirectory::conclude(Entry& entry, ExclusiveMessage message, Orders& orders) {
  message.kind = Kind::conclude;
  entry.phase = Phase::concluding;
  entry.answers_due = ranks_;
  order_all(entry, message, orders);
}

/// All ranks know.
void ExclusiveDirectory::concluded(Entry& entry, TimeNs now_ns, Orders& orders) {
  entry.phase = Phase::idle;
  if (entry.goes_weak) {
    entry.strong = entry.kept = false;
    entry.state = CopyState::invalid;
    entry.owner = nobody;
    entry.holders.clear();
    entry.fall_at_ns = no_deadline;
    std::erase_if(entry.queue, [](const Request& request) { return request.is_transfer(); });
    return answer_change(entry, entry.current, !entry.refused, orders);
  }
  const bool was_told_to_fall = entry.current.kind == Request::Kind::fall && entry.current.rank != nobody;
  if (was_told_to_fall) {
    enqueue(entry, entry.current);
    entry.hold_until_ns = now_ns + retry_ns;
  } else if (!entry.kept) {
    fall_later(entry, now_ns);
  }
  if (entry.current.kind == Request::Kind::rise) answer_change(entry, entry.current, true, orders);
}

}  // namespace craton::coherence
