#include "posix/waits/conditions.hpp"

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/scope_exit.hpp"
#include "posix/waits/mutexes.hpp"
#include "posix/waits/taking.hpp"

namespace craton::posix {

namespace {

/// Who waits has a number, from `released` up to `next`; all others have been let on.
struct Condition {
  static constexpr std::uint64_t remembered = 16;

  std::uint64_t next;
  std::uint64_t released;
  std::uint8_t bits[remembered];  ///< of the last who came, by their numbers: which one their rank has
  std::uint32_t unused;
  std::uint32_t clock;  ///< where the C library has it
  const void* mutex;    ///< that the last who came wants
};
static_assert(offsetof(Condition, clock) == offsetof(pthread_cond_t, __data.__wrefs));

/// Before its turn, or so it seems. A number in the middle cannot be taken back: then all go on, and come
/// again. \returns whether it has been let on, and is only about to be told
bool leave(Monitor& monitor, pthread_cond_t* object, const Monitor::Turn& turn) {
  auto& condition = state_of<Condition>(object);
  bool was_let_on = false;
  bool let_all_on = false;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  monitor.inside(object, [&] {
    was_let_on = turn.number() - condition.released >= condition.next - condition.released;
    if (was_let_on) return;
    if (turn.number() == condition.released)
      ++condition.released;
    else if (turn.number() + 1 == condition.next)
      --condition.next;
    else
      let_all_on = true;
    if (!let_all_on) return;
    first = condition.released;
    end = condition.released = condition.next;
  });
  if (let_all_on) monitor.let_on(object, first, end);
  return was_let_on;
}

}  // namespace

int signal(Monitor& monitor, pthread_cond_t* object, Wakes wakes) {
  auto& condition = state_of<Condition>(object);
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint32_t ranks = 0;
  const void* mutex = nullptr;
  monitor.inside(object, [&] {
    first = condition.released;
    if (first == condition.next) return;
    end = condition.released = wakes == Wakes::one ? first + 1 : condition.next;
    const bool are_known = condition.next - first <= Condition::remembered;
    for (std::uint64_t each = first; are_known && each != end; ++each)
      ranks |= std::uint32_t{1} << condition.bits[each % Condition::remembered];
    if (!are_known) ranks = Monitor::every_rank;
    mutex = condition.mutex;
  });
  const std::uint32_t now = has_locked_last(monitor, mutex) ? ranks & monitor.near_ranks() : ranks;
  monitor.let_on(object, first, end, now);
  if (now != ranks) put_off_signal(monitor, object, first, end, ranks & ~now);
  return 0;
}

int wait(Monitor& monitor, pthread_cond_t* object, const HeldMutex& mutex, TimeNs deadline_ns) {
  auto& condition = state_of<Condition>(object);
  Monitor::Turn turn(monitor, object);
  monitor.inside(object, [&] {
    if (condition.next == condition.released) condition.next = condition.released = monitor.fresh_number();
    condition.bits[condition.next % Condition::remembered] =
        static_cast<std::uint8_t>(std::countr_zero(monitor.bit_here()));
    condition.mutex = mutex.object;
    turn.enter(condition.next++);
  });
  if (const int error = mutex.unlock(); error != 0) {
    if (leave(monitor, object, turn)) signal(monitor, object, Wakes::one);
    return error;
  }
  // Also where the thread is cancelled, whose handlers are to find the mutex locked, and others the signal
  // that was meant for it. Else who is let on looks at the condition no more: it may be gone by then.
  bool is_cancelled = true;
  const ScopeExit end([&] {
    if (!is_cancelled) return;
    if (turn.is_let_on() || leave(monitor, object, turn)) signal(monitor, object, Wakes::one);
    mutex.lock();
  });
  Monitor::Slept slept = Monitor::Slept::woken;
  while (slept == Monitor::Slept::woken) {
    monitor.host().test_cancellation();
    slept = turn.sleep(deadline_ns);
  }
  is_cancelled = false;
  const bool in_time = slept == Monitor::Slept::holds || leave(monitor, object, turn);
  if (const int error = mutex.lock(); error != 0) return error;
  return in_time ? 0 : ETIMEDOUT;
}

}  // namespace craton::posix
