/// \file
/// Transfers of strong blocks.
#include "coherence/exclusive_directory.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace craton::coherence {

using Kind = ExclusiveMessage::Kind;

void ExclusiveDirectory::add_segment(const Segment& segment) {
  segments_.push_back(segment);
  entries_.emplace_back();
}

void ExclusiveDirectory::set_store(SegmentId segment, Transfer transfer) {
  segments_[segment].has_store = true;
  segments_[segment].transfer = transfer;
}

ExclusiveDirectory::Entry& ExclusiveDirectory::entry(SegmentId segment, std::uint64_t block) {
  const bool strong = segments_[segment].strong;
  return entries_[segment]
      .try_emplace(block, Entry{.segment = segment, .block = block, .strong = strong, .kept = strong})
      .first->second;
}

void ExclusiveDirectory::order(const Entry& entry, fabric::Rank to, ExclusiveMessage message,
                               Orders& orders) {
  message.segment = entry.segment;
  message.block = entry.block;
  orders.push_back({.to = to, .message = message});
}

void ExclusiveDirectory::order_all(const Entry& entry, const ExclusiveMessage& message,
                                   Orders& orders) const {
  for (fabric::Rank rank = 0; rank < ranks_; ++rank) order(entry, rank, message, orders);
}

void ExclusiveDirectory::enqueue(Entry& entry, const Request& request) {
  CRATON_ASSERT(entry.queue.size() <= 2 * std::size_t{ranks_});  // and one of the manager's own
  entry.queue.push_back(request);
}

// ---- Time

void ExclusiveDirectory::wake_at(const Entry& entry, TimeNs due_ns) {
  const auto later = [](const Timer& left, const Timer& right) { return left.due_ns > right.due_ns; };
  timers_.push_back({.due_ns = due_ns, .segment = entry.segment, .block = entry.block});
  std::push_heap(timers_.begin(), timers_.end(), later);
}

void ExclusiveDirectory::tick(TimeNs now_ns, Orders& orders) {
  const auto later = [](const Timer& left, const Timer& right) { return left.due_ns > right.due_ns; };
  while (!timers_.empty() && timers_.front().due_ns <= now_ns) {
    const Timer timer = timers_.front();
    std::pop_heap(timers_.begin(), timers_.end(), later);
    timers_.pop_back();
    Entry& due = entry(timer.segment, timer.block);
    go_on(due, now_ns, orders);
    if (!due.strong || due.kept || now_ns < due.fall_at_ns) continue;
    due.fall_at_ns = no_deadline;
    if (due.phase == Phase::idle) {
      enqueue(due, {.kind = Request::Kind::fall});
      go_on(due, now_ns, orders);
    } else {
      fall_later(due, now_ns);
    }
  }
}

// ---- Messages

void ExclusiveDirectory::arrived(fabric::Rank from, const ExclusiveMessage& message, TimeNs now_ns,
                                 Orders& orders) {
  Entry& on = entry(message.segment, message.block);
  switch (message.kind) {
    case Kind::want:
      // Who sent it before the block became weak has been told, and asks no more.
      if (!on.strong || message.generation != on.generation) return;
      enqueue(on, {.kind = message.write ? Request::Kind::write : Request::Kind::read,
                   .rank = from,
                   .number = message.number,
                   .hold_ns = message.hold_ns});
      break;
    case Kind::change:
      enqueue(on, {.kind = message.strength == Strength::release ? Request::Kind::fall : Request::Kind::rise,
                   .rank = from,
                   .number = message.number,
                   .kept = message.kept});
      break;
    case Kind::ready:
      on.teacher = from;
      on.shown = message.shown;
      if (on.state == CopyState::modified || on.state == CopyState::exclusive) {
        on.owner = message.write ? from : nobody;
        on.state = message.write ? CopyState::owned : CopyState::shared;
      }
      [[fallthrough]];
    case Kind::gone:
      CRATON_ASSERT(on.phase == Phase::asking);
      if (--on.answers_due == 0) all_answered(on, orders);
      break;
    case Kind::filled:
      CRATON_ASSERT(on.phase == Phase::filling);
      on.source = self_;
      grant(on, orders);
      break;
    case Kind::done:
      CRATON_ASSERT(on.phase == Phase::granted);
      CRATON_ASSERT(on.current.rank == from);
      done(on, now_ns);
      break;
    case Kind::prepared:
      prepared(on, from, message, orders);
      break;
    case Kind::taken_over:
      taken_over(on, message, orders);
      break;
    case Kind::concluded:
      CRATON_ASSERT(on.phase == Phase::concluding);
      if (--on.answers_due == 0) concluded(on, now_ns, orders);
      break;
    default:
      CRATON_ASSERT(false);
  }
  go_on(on, now_ns, orders);
}

/// Begins what is next.
void ExclusiveDirectory::go_on(Entry& entry, TimeNs now_ns, Orders& orders) {
  while (entry.phase == Phase::idle && !entry.queue.empty()) {
    if (now_ns < entry.hold_until_ns) return wake_at(entry, entry.hold_until_ns);
    entry.current = entry.queue.front();
    entry.queue.pop_front();
    entry.source = entry.teacher = entry.home = nobody;
    entry.shown = 0;
    entry.home_write_ts = 0;
    entry.answers_due = 0;
    entry.refused = entry.goes_weak = false;
    switch (entry.current.kind) {
      case Request::Kind::read:
        begin_read(entry, orders);
        break;
      case Request::Kind::write:
        begin_write(entry, orders);
        break;
      case Request::Kind::rise:
        begin_rise(entry, orders);
        break;
      case Request::Kind::fall:
        begin_fall(entry, orders);
        break;
    }
  }
}

// ---- Transfers

/// The forward rank serves, cache to cache (section III-B). If it alone has the block, it stops writing.
void ExclusiveDirectory::begin_read(Entry& entry, Orders& orders) {
  entry.phase = Phase::asking;
  CRATON_ASSERT(!entry.holders.contains(entry.current.rank));
  if (entry.holders.empty()) return all_answered(entry, orders);
  entry.source = entry.holders.access();
  Counters::add(counters_.forwards);
  entry.answers_due = 1;
  order(entry, entry.source, {.kind = Kind::serve, .write = false}, orders);
}

/// All others lose their copies; one of them serves if the requester has none: who wrote the block last, so
/// that dirty bytes go to the next writer without a write-back, else the forward rank.
void ExclusiveDirectory::begin_write(Entry& entry, Orders& orders) {
  entry.phase = Phase::asking;
  const bool has_copy = entry.holders.contains(entry.current.rank);
  if (!has_copy && !entry.holders.empty())
    entry.source = entry.owner != nobody ? entry.owner : entry.holders.access();
  for (const fabric::Rank holder : entry.holders.ranks()) {
    if (holder == entry.current.rank) continue;
    ++entry.answers_due;
    if (holder == entry.source) {
      Counters::add(counters_.forwards);
      order(entry, holder, {.kind = Kind::serve, .write = true}, orders);
    } else {
      Counters::add(counters_.strong_invalidations);
      order(entry, holder, {.kind = Kind::invalidate}, orders);
    }
  }
  if (entry.answers_due == 0) all_answered(entry, orders);
}

void ExclusiveDirectory::all_answered(Entry& entry, Orders& orders) {
  const Segment& segment = segments_[entry.segment];
  const bool untouched = entry.holders.empty();
  const bool dirty = entry.source != nobody && entry.owner != nobody;
  if (segment.has_store && (untouched || (segment.transfer == Transfer::write_back && dirty))) {
    entry.phase = Phase::filling;
    return order(entry, self_, {.kind = Kind::fill, .source = entry.source}, orders);
  }
  grant(entry, orders);
}

void ExclusiveDirectory::grant(Entry& entry, Orders& orders) {
  const bool reads = entry.current.kind == Request::Kind::read;
  const CopyState read_state = entry.holders.empty() ? CopyState::exclusive : CopyState::shared;
  if (!reads && entry.source == nobody && !entry.holders.empty()) Counters::add(counters_.upgrades);
  entry.phase = Phase::granted;
  order(entry, entry.current.rank,
        {.kind = Kind::grant,
         .state = reads ? read_state : CopyState::modified,
         .number = entry.current.number,
         .source = entry.source,
         .teacher = entry.teacher,
         .shown = entry.shown},
        orders);
}

/// The requester has its copy.
void ExclusiveDirectory::done(Entry& entry, TimeNs now_ns) {
  const fabric::Rank rank = entry.current.rank;
  if (entry.current.kind == Request::Kind::write) {
    entry.holders.clear();
    entry.holders.push(rank);
    entry.state = CopyState::modified;
    entry.owner = rank;
  } else {
    if (entry.holders.empty()) entry.state = CopyState::exclusive;
    entry.holders.push(rank);
  }
  entry.hold_until_ns = now_ns + entry.current.hold_ns;
  entry.phase = Phase::idle;
}

}  // namespace craton::coherence
