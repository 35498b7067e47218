/// \file
/// Messages about strong blocks, and the thread that does what their handlers must not wait for.
#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "coherence/exclusive.hpp"

namespace craton::coherence {

// ---- Messages

/// What a rank tells itself takes no way through the fabric. Nobody holds a lock meanwhile.
void Exclusive::send(fabric::Rank to, const ExclusiveMessage& message) {
  if (to == fabric_.rank()) return process(to, message);
  static_cast<void>(
      fabric_.send(to, handler_, &message, sizeof message));  // to the dead: who waits will notice
}

void Exclusive::answer(const Place& at, ExclusiveMessage message) {
  message.segment = at.segment.id();
  message.block = at.index;
  send(manager(at), message);
}

void Exclusive::arrived(void* self, fabric::Rank source, const std::byte* payload,
                        std::size_t bytes) noexcept {
  ExclusiveMessage message;
  CRATON_ASSERT(bytes == sizeof message);
  std::memcpy(&message, payload, sizeof message);
  static_cast<Exclusive*>(self)->process(source, message);
}

void Exclusive::process(fabric::Rank source, const ExclusiveMessage& message) {
  CRATON_ASSERT(message.segment < parts_.size());
  CRATON_ASSERT(message.block < parts_[message.segment].blocks.blocks());
  const Place at = place(message.segment, message.block);
  switch (message.kind) {
    case Kind::grant:
      return granted(at, message);
    case Kind::serve:
      return pass_on(at, message);
    case Kind::invalidate:
      drop(at);
      return answer(at, {.kind = Kind::gone});
    case Kind::changed:
      change_agreed_ = message.agreed;
      change_answered_.store(message.number);
      return fabric_.notify();
    case Kind::prepare:
      if (message.strength == Strength::release) return prepare_fall(at, message.hold_ns);
      return later(at.copy, message);
    case Kind::conclude:
      if (message.strength == Strength::strong) return stay_strong(at);
      return later(at.copy, message);
    case Kind::take_over:
    case Kind::fill:
      return later(at.copy, message);
    default:
      return direct(source, message);
  }
}

/// A message to the manager.
void Exclusive::direct(fabric::Rank source, const ExclusiveMessage& message) {
  ExclusiveDirectory::Orders orders;
  bool is_sooner = false;
  {
    const StateGuard guard(directory_lock_);
    directory_.arrived(source, message, fabric_.clock().now_ns(), orders);
    const TimeNs due_ns = directory_.due_ns();
    is_sooner = due_ns < due_ns_.exchange(due_ns);
  }
  if (is_sooner) wake_service();
  for (const ExclusiveDirectory::Order& order : orders) send(order.to, order.message);
}

// ---- Copies that come and go

void Exclusive::granted(const Place& at, const ExclusiveMessage& grant) {
  at.copy.grant = grant;
  at.copy.granted.store(grant.number);
  fabric_.notify();
}

/// Under the state lock, before the copy goes, as a whole or to be written.
void Exclusive::note_loss(const Place& at) noexcept {
  constexpr std::uint8_t most_losses_counted = 6;
  Copy& copy = at.copy;
  if (copy.on_trust || copy.state == CopyState::shared) copy.migrations = 0;  // it was only read
  copy.on_trust = false;
  const bool early = fabric_.clock().now_ns() - copy.opened_ns < at.segment.dials().hold_ns;
  if (early && copy.lost_early < most_losses_counted) ++copy.lost_early;
  if (!early && copy.lost_early > 0) --copy.lost_early;
}

/// Closes the copy, as far as it must be, so that all writes to it are in memory; then makes known what its
/// reader must know.
void Exclusive::pass_on(const Place& at, ExclusiveMessage serve) {
  bool written = false;
  {
    const StateGuard guard(at.block.state);
    note_loss(at);
    vm::PageTable& pages = at.segment.pages_;
    written = at.copy.state == CopyState::modified || at.copy.state == CopyState::owned;
    if (serve.write) {
      at.copy.state = CopyState::invalid;
      if (pages.access(at.index) != vm::Access::none) pages.set_access(at.index, vm::Access::none);
    } else {
      at.copy.state = written ? CopyState::owned : CopyState::shared;
      if (pages.access(at.index) == vm::Access::write) pages.set_access(at.index, vm::Access::read);
    }
  }
  ExclusiveMessage ready{.kind = Kind::ready, .write = written};
  if (protocol_.show_if_published(ready.shown)) return answer(at, ready);
  serve.write = written;
  later(at.copy, serve);
}

void Exclusive::drop(const Place& at) {
  const StateGuard guard(at.block.state);
  note_loss(at);
  at.copy.state = CopyState::invalid;
  if (at.segment.pages_.access(at.index) != vm::Access::none)
    at.segment.pages_.set_access(at.index, vm::Access::none);
}

// ---- The service thread

/// A rank has one thing at a time to do for a block, since the block's manager does one thing at a time.
void Exclusive::later(Copy& copy, const ExclusiveMessage& work) {
  {
    const StateGuard guard(work_lock_);
    copy.work = work;
    copy.next_work = nullptr;
    (first_work_ == nullptr ? first_work_ : last_work_->next_work) = &copy;
    last_work_ = &copy;
    if (work.kind == Kind::serve) releases_due_.fetch_add(1);
  }
  // A helper that leaves does it the other way round: it finds what is due, or we find it gone.
  if (work.kind == Kind::serve && helpers_.load() != 0) return fabric_.notify();
  wake_service();
}

bool Exclusive::take_work(Work kind, ExclusiveMessage& work) {
  const StateGuard guard(work_lock_);
  Copy* before = nullptr;
  Copy* copy = first_work_;
  while (copy != nullptr && kind == Work::release && copy->work.kind != Kind::serve) {
    before = copy;
    copy = copy->next_work;
  }
  if (copy == nullptr) return false;
  work = copy->work;
  (before == nullptr ? first_work_ : before->next_work) = copy->next_work;
  if (copy == last_work_) last_work_ = before;
  if (work.kind == Kind::serve) releases_due_.fetch_sub(1);
  return true;
}

Exclusive::Helper::Helper(Exclusive& exclusive) noexcept : exclusive_(exclusive) {
  exclusive_.helpers_.fetch_add(1);
}

Exclusive::Helper::~Helper() {
  exclusive_.helpers_.fetch_sub(1);
  if (exclusive_.has_release()) exclusive_.wake_service();
}

void Exclusive::help_releasing() {
  ExclusiveMessage work;
  if (take_work(Work::release, work)) do_work(work);
}

void Exclusive::wake_service() {
  service_calls_.fetch_add(1);
  if (started_.exchange(true)) return fabric_.wake_sleepers(service_calls_);
  start_(context_);
}

void Exclusive::serve() {
  try {
    while (!stopping_.load()) {
      const std::uint32_t calls = service_calls_.load();
      if (fabric_.lost_ranks() != 0) return;
      ExclusiveDirectory::Orders orders;
      {
        const StateGuard guard(directory_lock_);
        directory_.tick(fabric_.clock().now_ns(), orders);
        due_ns_.store(directory_.due_ns());
      }
      for (const ExclusiveDirectory::Order& order : orders) send(order.to, order.message);
      for (ExclusiveMessage work; take_work(Work::any, work);) do_work(work);
      fabric_.sleep_while(service_calls_, calls, due_ns_.load());
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost) throw;  // else all who wait notice for themselves
  }
}

void Exclusive::stop() noexcept {
  stopping_.store(true);
  service_calls_.fetch_add(1);
  fabric_.wake_sleepers(service_calls_);
}

void Exclusive::do_work(const ExclusiveMessage& work) {
  const Place at = place(work.segment, work.block);
  switch (work.kind) {
    case Kind::serve:
      Counters::add(at.segment.counters().strong_releases);
      protocol_.release();
      return answer(at, {.kind = Kind::ready, .write = work.write, .shown = protocol_.known_.shown()});
    case Kind::prepare:
      return prepare_rise(at);
    case Kind::take_over:
      return work.strength == Strength::strong ? own(at) : become_home(at);
    case Kind::conclude:
      return become_weak(at, work);
    case Kind::fill:
      return fill(at, work.source);
    default:
      CRATON_ASSERT(false);
  }
}

/// The bytes of a block come to its manager's memory, for the requester to get them there: from the store,
/// and if a rank has written them, by way of the store. The manager has no copy then, or the same bytes.
void Exclusive::fill(const Place& at, fabric::Rank source) {
  BlockStore& store = *parts_[at.segment.id()].store;
  std::byte* const bytes = at.segment.data(at.index);
  if (source != nobody) {
    if (source != fabric_.rank()) at.segment.get_bytes(source, at.segment.data_region_, at.index, bytes);
    store.write(at.index, bytes);
  }
  store.read(at.index, bytes);
  answer(at, {.kind = Kind::filled});
}

}  // namespace craton::coherence
