/// \file
/// Faults of strong blocks, and atomic operations on them.
#include "coherence/exclusive.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/signal_section.hpp"

namespace craton::coherence {

namespace {

/// After so many early losses more than late ones, a copy is asked for with a time to keep it.
constexpr std::uint8_t losses_before_hold = 3;

template <typename Word>
void change_word(std::byte* at, FunctionRef<void(std::byte* word)> modify) {
  const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
  Word seen = word.load();
  Word next{};
  do {
    next = seen;
    modify(reinterpret_cast<std::byte*>(&next));
  } while (!word.compare_exchange_strong(seen, next));
}

}  // namespace

Exclusive::Exclusive(fabric::Fabric& fabric, fabric::HandlerId handler, LeaseRelease& protocol,
                     StartService start, void* context)
    : fabric_(fabric),
      handler_(handler),
      protocol_(protocol),
      counters_(protocol.counters()),
      start_(start),
      context_(context),
      learnt_(std::make_unique<std::atomic<std::uint64_t>[]>(fabric.size())),
      directory_(fabric.rank(), fabric.size(), protocol.counters()) {
  CRATON_ASSERT(protocol_.segments_.empty());
  protocol_.exclusive_ = this;
  fabric_.set_handler(handler_, &Exclusive::arrived, this);
}

Exclusive::~Exclusive() = default;

void Exclusive::add_segment(LeaseSegment& segment) {
  CRATON_ASSERT(segment.id() == parts_.size());
  parts_.append(std::make_unique<Part>(segment));
  const StateGuard guard(directory_lock_);
  directory_.add_segment({.strong = segment.dials().strength == Strength::strong,
                          .fall_after_ns = segment.dials().fall_after_ns});
}

void Exclusive::set_store(SegmentId segment, BlockStore& store, Transfer transfer) {
  if (parts_[segment].blocks.dials().strength != Strength::strong) {
    throw Error(ErrorCode::invalid_argument, {.asked = "cannot give a segment a store",
                                              .happened = "its blocks are not strong from the start",
                                              .limit = {},
                                              .remedy = "set its dial `strength` to strong"});
  }
  parts_[segment].store = &store;
  directory_.set_store(segment, transfer);
}

Exclusive::Place Exclusive::place(SegmentId segment, std::uint64_t index) noexcept {
  Part& part = parts_[segment];
  return {.segment = part.blocks,
          .index = index,
          .block = part.blocks.states_[index],
          .copy = part.copies[index]};
}

fabric::Rank Exclusive::manager(const Place& at) const noexcept {
  return at.segment.words_.initial_home(at.index);
}

/// The condition may hold for a moment only.
void Exclusive::wait(FunctionRef<bool()> condition) {
  bool held = false;
  const auto ended = [&] { return (held = condition()) || fabric_.lost_ranks() != 0; };
  if (fabric_.wait_until(ended) != fabric::Status::ok || !held) throw_lost(fabric_);
}

// ---- Faults

/// Returns when the block was opened, if only for a moment, or has become weak.
void Exclusive::fault(LeaseSegment& segment, std::uint64_t index, bool write) {
  const SignalSection section;
  const Place at = place(segment.id(), index);
  Copy& copy = at.copy;
  for (;;) {
    ExclusiveMessage want;
    std::uint32_t number = 0;
    bool asks = false;
    {
      const StateGuard guard(at.block.state);
      if (!segment.strong(index)) return;
      if (!copy.changing.load()) {
        if (open_if_allowed(at, write)) return;
        asks = copy.asked.load() == copy.settled.load();
        number = asks ? ask(at, write, want) : copy.asked.load();
      }
    }
    // Not only that one: until this thread looks, others may have asked again.
    const auto is_settled = [&] { return static_cast<std::int32_t>(copy.settled.load() - number) >= 0; };
    if (asks) {
      send(manager(at), want);
      wait([&] { return copy.granted.load() == number || is_settled(); });
      if (is_settled()) continue;  // it is void: the block has become weak
      return collect(at, write);
    }
    if (number == 0) {
      wait([&] { return !copy.changing.load(); });
    } else {  // another thread has asked
      wait(is_settled);
    }
  }
}

/// Under the state lock. A write to an exclusive copy tells nobody.
bool Exclusive::open_if_allowed(const Place& at, bool write) {
  if (at.copy.state < (write ? CopyState::exclusive : CopyState::shared)) return false;
  if (write) {
    at.copy.state = CopyState::modified;
    at.copy.on_trust = false;
  }
  const vm::Access wanted = write ? vm::Access::write : vm::Access::read;
  if (at.segment.pages_.access(at.index) < wanted) at.segment.pages_.set_access(at.index, wanted);
  return true;
}

/// Under the state lock. What is read and soon after written by one rank after the other, like the result of
/// a reduction, is asked for to be written at once, which saves a transfer (adaptive migration; Cox and
/// Fowler, and Stenström et al., both 1993).
bool Exclusive::will_write(const Copy& copy) noexcept {
  constexpr std::uint8_t migrations_to_trust = 2;
  return copy.migrations >= migrations_to_trust;
}

/// Under the state lock. \returns the number of the want
std::uint32_t Exclusive::ask(const Place& at, bool write, ExclusiveMessage& want) {
  Copy& copy = at.copy;
  std::uint32_t number = copy.asked.load() + 1;
  if (number == 0) number = 1;  // 0 is no want
  copy.asked.store(number);
  constexpr std::uint8_t most_migrations_counted = 3;
  const bool was_read = copy.state == CopyState::shared || copy.state == CopyState::owned;
  if (write && was_read && copy.migrations < most_migrations_counted) ++copy.migrations;
  copy.on_trust = !write && will_write(copy);
  const bool holds = copy.lost_early >= losses_before_hold;
  if (holds) Counters::add(at.segment.counters().holds);
  want = {.kind = Kind::want,
          .write = write || copy.on_trust,
          .segment = at.segment.id(),
          .block = at.index,
          .number = number,
          .generation = copy.generation,
          .hold_ns = holds ? at.segment.dials().hold_ns : 0};
  return number;
}

/// By the thread that asked, after the grant: nothing happens to the block until `done`.
void Exclusive::collect(const Place& at, bool write) {
  Copy& copy = at.copy;
  const ExclusiveMessage grant = copy.grant;
  if (grant.teacher != nobody) learn_from(grant.teacher, grant.shown, at.index);
  if (grant.source != nobody && grant.source != fabric_.rank())
    at.segment.get_bytes(grant.source, at.segment.data_region_, at.index, at.segment.data(at.index));
  Counters& counters = at.segment.counters();
  Counters::add(write ? counters.strong_writes : counters.strong_reads);
  {
    const StateGuard guard(at.block.state);
    copy.state = grant.state;
    const bool opened = open_if_allowed(at, write);
    CRATON_ASSERT(opened);
    copy.opened_ns = fabric_.clock().now_ns();
    copy.settled.store(grant.number);
  }
  fabric_.notify();
  send(manager(at), {.kind = Kind::done, .segment = at.segment.id(), .block = at.index});
}

/// Acquires what a rank had shown, unless this rank has done so already. What the listener sees to is made
/// visible without anything being shown.
void Exclusive::learn_from(fabric::Rank rank, std::uint64_t shown, std::uint64_t index) {
  std::atomic<std::uint64_t>& learnt = learnt_[rank];
  std::uint64_t before = learnt.load(std::memory_order_acquire);
  if (rank == fabric_.rank()) return;
  if (before >= shown) return protocol_.acquire_unshown([] {});
  protocol_.acquire(rank, ~static_cast<std::uint32_t>(index));
  while (before < shown && !learnt.compare_exchange_weak(before, shown)) {
  }
}

// ---- Atomic operations

/// While one exists, the block does not become weak.
class Exclusive::InFlight {
 public:
  explicit InFlight(Copy& copy) noexcept : copy_(copy) { copy_.in_flight.fetch_add(1); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  ~InFlight() { copy_.in_flight.fetch_sub(1); }

 private:
  Copy& copy_;
};

Exclusive::Footing Exclusive::footing(const Place& at) {
  const StateGuard guard(at.block.state);
  if (!at.segment.strong(at.index)) return Footing::weak;
  return at.copy.changing.load() ? Footing::changing : Footing::strong;
}

/// Until its strength is decided.
void Exclusive::await_change(const Place& at) {
  wait([&] { return !at.copy.changing.load(); });
}

/// \returns false if the block stays weak
bool Exclusive::make_strong_if_automatic(const Place& at) {
  return at.segment.dials().strength == Strength::automatic && change(at, Strength::strong, false);
}

bool Exclusive::is_weak_again(SegmentId segment, std::uint64_t offset) {
  const Place at = place(segment, offset / parts_[segment].blocks.block_bytes_);
  await_change(at);
  return footing(at) == Footing::weak;
}

bool Exclusive::run_atomic(SegmentId segment, std::uint64_t offset, FunctionRef<void()> instruction) {
  const SignalSection section;
  const Place at = place(segment, offset / parts_[segment].blocks.block_bytes_);
  for (;;) {
    Footing on = Footing::weak;
    {
      const InFlight in_flight(at.copy);
      on = footing(at);
      if (on == Footing::strong) {
        instruction();
        at.copy.last_atomic_ns.store(fabric_.clock().now_ns(), std::memory_order_relaxed);
        return true;
      }
    }
    if (on == Footing::changing) {
      await_change(at);
    } else if (!make_strong_if_automatic(at)) {
      return false;
    }
  }
}

/// Not through the application view, which may be closed at any moment.
void Exclusive::wait_while(SegmentId segment, std::uint64_t offset, std::span<const std::byte> seen,
                           TimeNs deadline_ns) {
  const SignalSection section;
  const std::size_t block_bytes = parts_[segment].blocks.block_bytes_;
  const Place at = place(segment, offset / block_bytes);
  const std::byte* const bytes = at.segment.data(at.index) + offset % block_bytes;
  const std::size_t count = std::min(seen.size(), block_bytes - offset % block_bytes);
  const auto is_other = [&] {
    const StateGuard guard(at.block.state);
    if (!at.segment.strong(at.index) || at.copy.changing.load() || at.copy.state < CopyState::shared)
      return true;
    for (std::size_t i = 0; i < count; ++i)
      if (*static_cast<const volatile std::byte*>(bytes + i) != seen[i]) return true;
    return false;
  };
  static_cast<void>(fabric_.wait_until(is_other, deadline_ns));
  if (fabric_.lost_ranks() != 0) throw_lost(fabric_);
}

/// Not through the application view: under the state lock the copy stays what it is, and no fault is needed.
bool Exclusive::update(SegmentId segment, std::uint64_t offset, std::size_t bytes,
                       FunctionRef<void(std::byte* word)> modify) {
  const SignalSection section;
  const std::size_t block_bytes = parts_[segment].blocks.block_bytes_;
  const Place at = place(segment, offset / block_bytes);
  std::byte* const word = at.segment.data(at.index) + offset % block_bytes;
  const auto change_it = [&] {
    switch (bytes) {
      case 1:
        return change_word<std::uint8_t>(word, modify);
      case 2:
        return change_word<std::uint16_t>(word, modify);
      case 4:
        return change_word<std::uint32_t>(word, modify);
      default:
        CRATON_ASSERT(bytes == 8);
        return change_word<std::uint64_t>(word, modify);
    }
  };
  for (;;) {
    Footing on = Footing::strong;
    {
      const InFlight in_flight(at.copy);
      for (on = footing(at); on == Footing::strong; fault(at.segment, at.index, true), on = footing(at)) {
        const StateGuard guard(at.block.state);
        if (!at.segment.strong(at.index) || at.copy.changing.load() || at.copy.state < CopyState::exclusive)
          continue;
        at.copy.state = CopyState::modified;
        change_it();
        at.copy.last_atomic_ns.store(fabric_.clock().now_ns(), std::memory_order_relaxed);
        Counters::add(at.segment.counters().updates);
        return true;
      }
    }
    if (on == Footing::changing) {
      await_change(at);
    } else if (!make_strong_if_automatic(at)) {
      return false;
    }
  }
}

}  // namespace craton::coherence
