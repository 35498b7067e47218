#include "posix/waits/monitor.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"

namespace craton::posix {

namespace {

WaitMessage message_of(WaitMessage::Kind kind, const void* object, std::uint64_t first = 0,
                       std::uint64_t end = 0) noexcept {
  return {.kind = kind, .object = reinterpret_cast<std::uintptr_t>(object), .first = first, .end = end};
}

}  // namespace

Monitor::Monitor(WaitHost& host) noexcept : host_(host) {
  for (fabric::Rank rank = 0; rank < host.ranks(); ++rank)
    if (!host.is_near(rank)) near_ranks_ &= ~bit_of(rank);
}

bool Monitor::wait(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns) {
  for (;;) {
    const Slept slept = wait_once(object, step, deadline_ns);
    if (slept != Slept::woken) return slept == Slept::holds;
  }
}

/// In the list of those who sleep, from before the look at the state that finds that it must.
class Monitor::Registered {
 public:
  Registered(Monitor& monitor, Sleeper& sleeper) noexcept : monitor_(monitor), sleeper_(sleeper) {
    monitor_.add(sleeper_);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    monitor_.remove(sleeper_);
    // It has been woken and does not look again, so another one must.
    if (!looks_again && sleeper_.state.load() == Sleeper::woken) monitor_.pass_on(sleeper_.object);
  }

  bool looks_again = false;

 private:
  Monitor& monitor_;
  Sleeper& sleeper_;
};

Monitor::Slept Monitor::wait_once(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns) {
  Sleeper sleeper{.object = object, .thread = host_.self()};
  Registered registered(*this, sleeper);
  bool holds = false;
  inside(object, [&] { sleeper.has_got_it = holds = step(); });
  if (holds) return Slept::holds;
  if (now_ns() >= deadline_ns) return Slept::timed_out;
  host_.sleep(sleeper.state, Sleeper::asleep, deadline_ns);
  registered.looks_again = true;
  return Slept::woken;
}

// ---- Turns

std::uint64_t Monitor::fresh_number() noexcept {
  constexpr unsigned turn_bits = 28;
  constexpr unsigned rank_bits = 12;
  return (fresh_.fetch_add(1) << (turn_bits + rank_bits)) + (std::uint64_t{host_.rank()} << turn_bits);
}

void Monitor::Turn::enter(std::uint64_t number) noexcept {
  sleeper_.is_numbered = true;
  sleeper_.number = number;
  monitor_.add(sleeper_);
}

Monitor::Slept Monitor::Turn::sleep(TimeNs deadline_ns) {
  if (is_let_on()) return Slept::holds;
  if (monitor_.now_ns() >= deadline_ns) return Slept::timed_out;
  monitor_.host_.sleep(sleeper_.state, Sleeper::asleep, deadline_ns);
  if (is_let_on()) return Slept::holds;
  std::uint32_t stirred = Sleeper::stirred;
  sleeper_.state.compare_exchange_strong(stirred, Sleeper::asleep);
  monitor_.host_.look_for_lost_ranks();
  return Slept::woken;
}

void Monitor::Turn::learn() {
  if (sleeper_.by != monitor_.host_.rank()) monitor_.host_.learn_from(sleeper_.by);
}

// ---- Waking

Monitor::Bucket& Monitor::bucket_of(const void* object) noexcept {
  const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(object) >> 3U) * 0x9e3779b97f4a7c15U;
  return buckets_[(mixed >> 32U) % buckets_.size()];
}

/// Behind the others: who waits longest is woken first.
void Monitor::add(Sleeper& sleeper) noexcept {
  const SignalSection section;
  Bucket& bucket = bucket_of(sleeper.object);
  const std::lock_guard lock(bucket.lock);
  Sleeper** link = &bucket.first;
  while (*link != nullptr) link = &(*link)->next;
  *link = &sleeper;
  sleeper.link = link;
}

void Monitor::remove(Sleeper& sleeper) noexcept {
  const SignalSection section;
  Bucket& bucket = bucket_of(sleeper.object);
  const std::lock_guard lock(bucket.lock);
  if (sleeper.link == nullptr) return;
  *sleeper.link = sleeper.next;
  if (sleeper.next != nullptr) sleeper.next->link = sleeper.link;
  sleeper.link = nullptr;
}

/// Also in a handler. Who is woken stays in the list until it has seen that.
void Monitor::wake_here(const WaitMessage& message, fabric::Rank by) noexcept {
  const auto* const object = reinterpret_cast<const void*>(message.object);
  Bucket& bucket = bucket_of(object);
  const std::lock_guard lock(bucket.lock);
  for (Sleeper* each = bucket.first; each != nullptr; each = each->next) {
    if (each->object != object || each->state.load() == Sleeper::woken) continue;
    if (each->is_numbered != (message.kind == Kind::let_on)) continue;
    if (each->is_numbered && !(message.first <= each->number && each->number < message.end)) continue;
    each->by = by;
    each->state.store(Sleeper::woken);
    host_.wake(each->state);
    if (message.kind == Kind::one) return;
  }
}

void Monitor::pass_on(const void* object) noexcept {
  const SignalSection section;
  wake_here(message_of(Kind::one, object), host_.rank());
}

void Monitor::stir(pthread_t thread) noexcept {
  const SignalSection section;
  for (Bucket& bucket : buckets_) {
    const std::lock_guard lock(bucket.lock);
    for (Sleeper* each = bucket.first; each != nullptr; each = each->next) {
      std::uint32_t asleep = Sleeper::asleep;
      if (each->thread == thread && each->state.compare_exchange_strong(asleep, Sleeper::stirred))
        host_.wake(each->state);
    }
  }
}

std::uint32_t Monitor::choose(std::uint32_t& waiting) const noexcept {
  if (waiting == 0 || bits_are_shared()) return std::exchange(waiting, 0);
  const unsigned after = (host_.rank() + 1) % bits;
  const unsigned next =
      (static_cast<unsigned>(std::countr_zero(std::rotr(waiting, static_cast<int>(after)))) + after) % bits;
  const std::uint32_t chosen = std::uint32_t{1} << next;
  waiting &= ~chosen;
  return chosen;
}

/// Apart, since the object may have to be fetched, and a handler of messages may want the lock meanwhile.
bool Monitor::others_wait_here(const void* object) noexcept {
  const SignalSection section;
  Bucket& bucket = bucket_of(object);
  const std::lock_guard lock(bucket.lock);
  for (const Sleeper* each = bucket.first; each != nullptr; each = each->next)
    if (each->object == object && !each->is_numbered && !each->has_got_it && each->thread != host_.self())
      return true;
  return false;
}

void Monitor::mark_here(const void* object, std::uint32_t& waiting) noexcept {
  // If not here, then perhaps at another rank that has this bit.
  const bool others_wait = bits_are_shared() || others_wait_here(object);
  waiting = others_wait ? waiting | bit_here() : waiting & ~bit_here();
}

void Monitor::wake_all(const void* object, std::uint32_t ranks) {
  tell(message_of(Kind::all, object), ranks);
}

void Monitor::wake_one(const void* object, std::uint32_t ranks) {
  tell(message_of(Kind::one, object), ranks);
}

void Monitor::let_on(const void* object, std::uint64_t first, std::uint64_t end, std::uint32_t ranks) {
  tell(message_of(Kind::let_on, object, first, end), ranks);
}

void Monitor::let_on_here(const void* object, std::uint64_t first, std::uint64_t end) noexcept {
  const SignalSection section;
  wake_here(message_of(Kind::let_on, object, first, end), host_.rank());
}

void Monitor::tell(const WaitMessage& message, std::uint32_t ranks) {
  if (ranks == 0) return;
  const KeptErrno kept;
  const SignalSection section;
  if ((ranks & bit_here()) != 0) wake_here(message, host_.rank());
  if ((ranks & ~bit_here()) == 0 && !bits_are_shared()) return;
  host_.tell_others(message, [&](fabric::Rank rank) { return (ranks & bit_of(rank)) != 0; });
}

}  // namespace craton::posix
