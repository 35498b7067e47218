/// \file
/// A rank's part in a block's becoming strong or weak (exclusive_directory_strength.cpp leads it).
///
/// From `prepare` to `conclude` nobody uses the block here: threads that fault on it wait. A strong mark is
/// set under Block::busy, so that who works on the weak block there has finished; it is taken away under the
/// state lock, when nobody can be using the strong one.
#include <algorithm>
#include <mutex>
#include <vector>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/signal_section.hpp"
#include "coherence/exclusive.hpp"

namespace craton::coherence {

// ---- Who asks

/// \returns false if that cannot be
bool Exclusive::change(const Place& at, Strength strength, bool kept) {
  const std::lock_guard lock(change_lock_);
  const std::uint32_t number = ++change_number_;
  answer(at, {.kind = Kind::change, .kept = kept, .strength = strength, .number = number});
  wait([&] { return change_answered_.load() == number; });
  return change_agreed_;
}

void Exclusive::weaken(LeaseSegment& segment, std::uint64_t index) {
  const SignalSection section;
  if (change(place(segment.id(), index), Strength::release, false)) return;
  throw Error(ErrorCode::not_supported, {.asked = "cannot make a strong block weak",
                                         .happened = "its segment has a store",
                                         .limit = {},
                                         .remedy = {}});
}

void Exclusive::set_strength(SegmentId segment, std::uint64_t first, std::uint64_t count, Strength strength) {
  const SignalSection section;
  LeaseSegment& blocks = parts_[segment].blocks;
  if (strength == Strength::automatic && blocks.dials().strength != Strength::automatic) {
    throw Error(ErrorCode::invalid_argument, {.asked = "cannot make blocks strong by themselves",
                                              .happened = "their segment was not made for it",
                                              .limit = {},
                                              .remedy = "set its dial `strength` to automatic"});
  }
  for (std::uint64_t index = first; index < first + count; ++index) {
    if (strength != Strength::strong) {
      weaken(blocks, index);
    } else if (!change(place(segment, index), strength, true)) {
      throw Error(ErrorCode::not_supported, {.asked = "cannot make a block strong",
                                             .happened = "a rank has pinned it",
                                             .limit = {},
                                             .remedy = "unpin it first"});
    }
  }
}

// ---- Weak to strong

/// Closes the block and publishes what is written here, of all blocks: who finds a value in the strong block
/// finds what was known with it.
void Exclusive::prepare_rise(const Place& at) {
  LeaseSegment& segment = at.segment;
  ExclusiveMessage prepared{.kind = Kind::prepared};
  {
    const std::lock_guard busy(at.block.busy);
    if (at.block.pinned) {
      prepared.answer = ExclusiveMessage::Answer::pinned;
    } else {
      segment.end_sole(at.index, at.block);
      segment.catch_up(at.index, at.block, segment.words_.own_write_ts(at.index));
      const StateGuard guard(at.block.state);
      CRATON_ASSERT(!segment.strong(at.index));
      segment.set_strong(at.index, true);
      at.copy.changing.store(true);
      at.copy.state = CopyState::invalid;
      at.copy.lost_early = 0;
      if (segment.pages_.access(at.index) != vm::Access::none)
        segment.pages_.set_access(at.index, vm::Access::none);
    }
  }
  protocol_.release();
  prepared.home =
      segment.floating() ? segment.owns(at.index) : segment.fixed_home(at.index) == fabric_.rank();
  prepared.write_ts = segment.words_.own_write_ts(at.index);
  answer(at, prepared);
}

/// The home's copy becomes the only one. It has all writes; now this rank also knows all that went before
/// them.
void Exclusive::own(const Place& at) {
  LeaseSegment& segment = at.segment;
  CRATON_ASSERT(!at.block.dirty);
  if (!segment.floating())
    segment.get_bytes(fabric_.rank(), segment.home_region_, at.index, segment.data(at.index));
  protocol_.acquire(protocol_.others(), ~static_cast<std::uint32_t>(at.index));
  {
    const StateGuard guard(at.block.state);
    at.copy.state = CopyState::modified;
  }
  answer(at, {.kind = Kind::taken_over});
}

/// Also after a fall that was called off.
void Exclusive::stay_strong(const Place& at) {
  {
    const StateGuard guard(at.block.state);
    at.copy.changing.store(false);
  }
  fabric_.notify();
  answer(at, {.kind = Kind::concluded});
}

// ---- Strong to weak

/// Says no if an atomic operation is under way, or, if so asked, if the last was a short time ago; else
/// closes the copy, which keeps its state in case that another rank says no.
void Exclusive::prepare_fall(const Place& at, TimeNs idle_ns) {
  ExclusiveMessage prepared{.kind = Kind::prepared};
  {
    const StateGuard guard(at.block.state);
    const TimeNs last_ns = at.copy.last_atomic_ns.load(std::memory_order_relaxed);
    const bool lately = idle_ns != 0 && last_ns != 0 && fabric_.clock().now_ns() - last_ns < idle_ns;
    if (at.copy.in_flight.load() != 0 || lately) {
      prepared.answer = ExclusiveMessage::Answer::busy;
    } else {
      at.copy.changing.store(true);
      if (at.segment.pages_.access(at.index) != vm::Access::none)
        at.segment.pages_.set_access(at.index, vm::Access::none);
    }
  }
  answer(at, prepared);
}

/// This rank has the block's bytes, and becomes its home in the release protocol.
void Exclusive::become_home(const Place& at) {
  std::vector<WriteNotice> notices;
  at.segment.become_home(at.index, notices);
  protocol_.known_.learn(notices, 0);
  protocol_.release();
  answer(at, {.kind = Kind::taken_over,
              .shown = protocol_.known_.shown(),
              .write_ts = notices.back().write_ts,
              .read_ts = notices.back().read_ts});
}

/// All copies but the new home's are old from now on, whatever has happened to them. Where nobody ever had
/// the block, or it did not become strong after all, things are as they were.
void Exclusive::become_weak(const Place& at, const ExclusiveMessage& message) {
  const bool is_news = message.source != nobody && message.source != fabric_.rank();
  if (is_news) learn_from(message.source, message.shown, at.index);
  {
    const StateGuard guard(at.block.state);
    if (is_news) at.segment.make_old(at.index, message.write_ts, message.read_ts, message.source);
    at.segment.set_strong(at.index, false);
    at.copy.state = CopyState::invalid;
    at.copy.generation = message.generation;
    at.copy.settled.store(at.copy.asked.load());
    at.copy.changing.store(false);
  }
  fabric_.notify();
  answer(at, {.kind = Kind::concluded});
}

}  // namespace craton::coherence
