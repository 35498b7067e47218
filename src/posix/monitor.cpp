#include "posix/monitor.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/signal_section.hpp"
#include "posix/remote_files.hpp"

namespace craton::posix {

namespace {

constexpr fabric::HandlerId monitor_handler = fabric::max_handlers - 3;
/// A wake-up is never lost; this is for ranks that die meanwhile.
constexpr TimeNs longest_sleep_ns = 100'000'000;

std::atomic<Monitor*> running_monitor{nullptr};

}  // namespace

Monitor* monitor() noexcept {
  return running_monitor.load(std::memory_order_acquire);
}

TimeNs deadline_after(const timespec& length) noexcept {
  TimeNs deadline_ns = 0;
  if (__builtin_mul_overflow(length.tv_sec, TimeNs{1'000'000'000}, &deadline_ns) ||
      __builtin_add_overflow(deadline_ns, length.tv_nsec, &deadline_ns) ||
      __builtin_add_overflow(deadline_ns, monitor()->now_ns(), &deadline_ns))
    return length.tv_sec < 0 ? 0 : no_deadline;  // for ever, as programs say it
  return deadline_ns;
}

TimeNs deadline_of(clockid_t clock, const timespec* until) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  timespec left{.tv_sec = 0, .tv_nsec = until->tv_nsec - now.tv_nsec};
  if (__builtin_sub_overflow(until->tv_sec, now.tv_sec, &left.tv_sec)) return 0;
  return deadline_after(left);
}

void start_monitor(SharedProgram& program) {
  if (program.fabric().size() > 1)
    running_monitor.store(new Monitor(program, monitor_handler), std::memory_order_release);
}

Monitor::Monitor(SharedProgram& program, fabric::HandlerId handler) : program_(program), handler_(handler) {
  program_.fabric().set_handler(handler_, &Monitor::arrived, this);
}

void Monitor::inside(const void* object, FunctionRef<void()> step) {
  const KeptErrno kept;
  const SignalSection section;
  try {
    space::Mutexes& mutexes = program_.space().mutexes();
    const space::MutexId mutex = program_.mutex_of(object);
    send_what_waits();
    mutexes.lock(mutex);
    step();
    if (program_.others_run()) return mutexes.unlock(mutex);
    mutexes.unlock_unpublished(mutex);
  } catch (const Error& error) {
    program_.fail(error.what());
  }
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
  Sleeper sleeper{.object = object};
  Registered registered(*this, sleeper);
  bool holds = false;
  inside(object, [&] { holds = step(); });
  if (holds) return Slept::holds;
  const TimeNs now = now_ns();
  if (now >= deadline_ns) return Slept::timed_out;
  const KeptErrno kept;
  futex_wait(sleeper.state, Sleeper::asleep, std::min(deadline_ns, now + longest_sleep_ns));
  registered.looks_again = true;
  return Slept::woken;
}

// ---- Turns

std::uint64_t Monitor::fresh_number() noexcept {
  constexpr unsigned turn_bits = 16;
  constexpr unsigned rank_bits = 12;
  return (fresh_.fetch_add(1) << (turn_bits + rank_bits)) + (std::uint64_t{program_.rank()} << turn_bits);
}

void Monitor::Turn::enter(std::uint64_t number) noexcept {
  sleeper_.is_numbered = true;
  sleeper_.number = number;
  monitor_.add(sleeper_);
}

Monitor::Slept Monitor::Turn::sleep(TimeNs deadline_ns) {
  if (is_let_on()) return Slept::holds;
  const TimeNs now = monitor_.now_ns();
  if (now >= deadline_ns) return Slept::timed_out;
  const KeptErrno kept;
  futex_wait(sleeper_.state, Sleeper::asleep, std::min(deadline_ns, now + longest_sleep_ns));
  if (is_let_on()) return Slept::holds;
  std::uint32_t stirred = Sleeper::stirred;
  sleeper_.state.compare_exchange_strong(stirred, Sleeper::asleep);
  if (monitor_.program_.fabric().lost_ranks() != 0)
    monitor_.program_.fail("a rank is gone while threads of others wait for it");
  return Slept::woken;
}

void Monitor::Turn::learn() {
  const KeptErrno kept;
  if (sleeper_.by == monitor_.program_.rank()) return;
  const SignalSection section;
  try {
    monitor_.program_.space().protocol().acquire(sleeper_.by);
  } catch (const Error& error) {
    monitor_.program_.fail(error.what());
  }
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
void Monitor::wake_here(const Message& message, fabric::Rank by) noexcept {
  constexpr std::uint64_t turns_most = std::uint64_t{1} << 16U;
  const auto* const object = reinterpret_cast<const void*>(message.object);
  Bucket& bucket = bucket_of(object);
  const std::lock_guard lock(bucket.lock);
  for (Sleeper* each = bucket.first; each != nullptr; each = each->next) {
    if (each->object != object || each->state.load() == Sleeper::woken) continue;
    const bool is_meant = message.kind == Kind::let_on
                              ? each->is_numbered && message.number - each->number - 1 < turns_most
                              : !each->is_numbered;
    if (!is_meant) continue;
    each->by = by;
    each->state.store(Sleeper::woken);
    futex_wake(each->state, 1);
    if (message.kind == Kind::one) return;
  }
}

void Monitor::pass_on(const void* object) noexcept {
  const SignalSection section;
  wake_here({.kind = Kind::one, .object = reinterpret_cast<std::uintptr_t>(object), .number = 0},
            program_.rank());
}

void Monitor::stir(pthread_t thread) noexcept {
  const SignalSection section;
  for (Bucket& bucket : buckets_) {
    const std::lock_guard lock(bucket.lock);
    for (Sleeper* each = bucket.first; each != nullptr; each = each->next) {
      std::uint32_t asleep = Sleeper::asleep;
      if (each->thread == thread && each->state.compare_exchange_strong(asleep, Sleeper::stirred))
        futex_wake(each->state, 1);
    }
  }
}

std::uint32_t Monitor::choose(std::uint32_t& waiting) const noexcept {
  if (waiting == 0 || bits_are_shared()) return std::exchange(waiting, 0);
  const unsigned after = (program_.rank() + 1) % bits;
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
    if (each->object == object && !each->is_numbered && each->thread != ::pthread_self()) return true;
  return false;
}

void Monitor::mark_here(const void* object, std::uint32_t& waiting) noexcept {
  // If not here, then perhaps at another rank that has this bit.
  const bool others_wait = bits_are_shared() || others_wait_here(object);
  waiting = others_wait ? waiting | bit_here() : waiting & ~bit_here();
}

void Monitor::wake_all(const void* object, std::uint32_t ranks) {
  tell({.kind = Kind::all, .object = reinterpret_cast<std::uintptr_t>(object), .number = 0}, ranks);
}

void Monitor::wake_one(const void* object, std::uint32_t ranks) {
  tell({.kind = Kind::one, .object = reinterpret_cast<std::uintptr_t>(object), .number = 0}, ranks);
}

void Monitor::let_on(const void* object, std::uint64_t number, std::uint32_t ranks) {
  tell({.kind = Kind::let_on, .object = reinterpret_cast<std::uintptr_t>(object), .number = number}, ranks);
}

void Monitor::let_on_here(const void* object, std::uint64_t number) noexcept {
  const SignalSection section;
  wake_here({.kind = Kind::let_on, .object = reinterpret_cast<std::uintptr_t>(object), .number = number},
            program_.rank());
}

void Monitor::tell(const Message& message, std::uint32_t ranks) {
  if (ranks == 0) return;
  const KeptErrno kept;
  const SignalSection section;
  if ((ranks & bit_here()) != 0) wake_here(message, program_.rank());
  if ((ranks & ~bit_here()) == 0 && !bits_are_shared()) return;
  if (!program_.others_run()) return;
  fabric::Fabric& fabric = program_.fabric();
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank) {
    if (rank != fabric.rank() && (ranks & bit_of(rank)) != 0)
      static_cast<void>(fabric.send(rank, handler_, &message, sizeof message));
  }
}

void Monitor::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  Message message{};
  if (bytes != sizeof message) return;
  std::memcpy(&message, payload, sizeof message);
  static_cast<Monitor*>(self)->wake_here(message, source);
}

}  // namespace craton::posix
