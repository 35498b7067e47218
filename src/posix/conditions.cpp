// Conditions of pthreads that all ranks share (synchronised.hpp).
#include <pthread.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "base/scope_exit.hpp"
#include "posix/mutexes.hpp"
#include "posix/synchronised.hpp"

namespace {

using craton::no_deadline;
using craton::ScopeExit;
using craton::TimeNs;
using craton::posix::lock_mutex;
using craton::posix::Monitor;
using craton::posix::state_of;
using craton::posix::unlock_mutex;
using craton::posix::wait_until;
using craton::posix::Wakes;

/// Who waits has a number; those below `released` have been let on.
struct Condition {
  static constexpr std::uint64_t remembered = 16;

  std::uint64_t next;
  std::uint64_t released;
  std::uint8_t bits[remembered];  ///< of the last who came, by their numbers: which one their rank has
};
static_assert(sizeof(Condition) <= offsetof(pthread_cond_t, __data.__wrefs));  // which tells the clock

/// Where the C library's pthread_cond_init puts what pthread_condattr_setclock has said.
clockid_t clock_of(const pthread_cond_t* object) {
  constexpr unsigned is_monotonic = 2;
  return (object->__data.__wrefs & is_monotonic) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/// Before its turn, or so it seems. A number in the middle cannot be taken back: then all go on, and come
/// again. \returns whether it has been let on, and is only about to be told
bool leave(Monitor& monitor, pthread_cond_t* object, const Monitor::Turn& turn) {
  auto& condition = state_of<Condition>(object);
  bool was_let_on = false;
  bool let_all_on = false;
  std::uint64_t number = 0;
  monitor.inside(object, [&] {
    was_let_on = turn.number() < condition.released;
    if (was_let_on) return;
    if (turn.number() == condition.released)
      ++condition.released;
    else if (turn.number() + 1 == condition.next)
      --condition.next;
    else
      let_all_on = true;
    if (let_all_on) condition.released = condition.next;
    number = condition.released;
  });
  if (let_all_on) monitor.let_on(object, number);
  return was_let_on;
}

int signal(Monitor& monitor, pthread_cond_t* object, Wakes wakes) {
  auto& condition = state_of<Condition>(object);
  std::uint64_t number = 0;
  std::uint32_t ranks = 0;
  monitor.inside(object, [&] {
    const std::uint64_t first = condition.released;
    if (first == condition.next) return;
    number = condition.released = wakes == Wakes::one ? first + 1 : condition.next;
    const bool are_known = condition.next - first <= Condition::remembered;
    for (std::uint64_t each = first; are_known && each != number; ++each)
      ranks |= std::uint32_t{1} << condition.bits[each % Condition::remembered];
    if (!are_known) ranks = Monitor::every_rank;
  });
  monitor.let_on(object, number, ranks);
  return 0;
}

int wait(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex, TimeNs deadline_ns = no_deadline) {
  auto& condition = state_of<Condition>(object);
  Monitor::Turn turn(monitor, object);
  monitor.inside(object, [&] {
    if (condition.next == condition.released) condition.next = condition.released = monitor.fresh_number();
    condition.bits[condition.next % Condition::remembered] =
        static_cast<std::uint8_t>(std::countr_zero(monitor.bit_here()));
    turn.enter(condition.next++);
  });
  if (const int error = unlock_mutex(mutex); error != 0) {
    if (leave(monitor, object, turn)) signal(monitor, object, Wakes::one);
    return error;
  }
  // Also where the thread is cancelled, whose handlers are to find the mutex locked, and others the signal
  // that was meant for it. Else who is let on looks at the condition no more: it may be gone by then.
  bool is_cancelled = true;
  const ScopeExit end([&] {
    if (!is_cancelled) return;
    if (turn.is_let_on() || leave(monitor, object, turn)) signal(monitor, object, Wakes::one);
    lock_mutex(mutex);
  });
  Monitor::Slept slept = Monitor::Slept::woken;
  while (slept == Monitor::Slept::woken) {
    ::pthread_testcancel();
    slept = turn.sleep(deadline_ns);
  }
  is_cancelled = false;
  const bool in_time = slept == Monitor::Slept::holds || leave(monitor, object, turn);
  if (const int error = lock_mutex(mutex); error != 0) return error;
  return in_time ? 0 : ETIMEDOUT;
}

int wait_in_time(Monitor& monitor, pthread_cond_t* object, pthread_mutex_t* mutex, clockid_t clock,
                 const timespec* until) {
  return wait_until(clock, until,
                    [&](TimeNs deadline_ns) { return wait(monitor, object, mutex, deadline_ns); });
}

}  // namespace

CRATON_SYNCHRONISED(pthread_cond_wait, condition, (pthread_cond_t * condition, pthread_mutex_t* mutex),
                    (condition, mutex), wait(*shared, condition, mutex))
CRATON_SYNCHRONISED(pthread_cond_timedwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                    (condition, mutex, until),
                    wait_in_time(*shared, condition, mutex, clock_of(condition), until))
CRATON_SYNCHRONISED(pthread_cond_clockwait, condition,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock,
                     const timespec* until),
                    (condition, mutex, clock, until), wait_in_time(*shared, condition, mutex, clock, until))
CRATON_SYNCHRONISED(pthread_cond_signal, condition, (pthread_cond_t * condition), (condition),
                    signal(*shared, condition, Wakes::one))
CRATON_SYNCHRONISED(pthread_cond_broadcast, condition, (pthread_cond_t * condition), (condition),
                    signal(*shared, condition, Wakes::all))
// Nothing of theirs is left anywhere else, and nobody looks at them any more.
CRATON_SYNCHRONISED(pthread_cond_destroy, condition, (pthread_cond_t * condition), (condition), 0)
