/// \file
/// What the synchronisation objects of pthreads have in common where all ranks share them (monitor.hpp).
/// States lie in the objects, where the C library's own initialisers and init functions leave zero or the
/// value that is meant, so that those need no versions of ours.
///
/// Functions take the caller's monitor. What blocks takes a deadline of its clock, says ETIMEDOUT where that
/// has passed, and else what the pthread function of the same name says.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "posix/waits/monitor.hpp"

namespace craton::posix {

/// A state over the bytes of an object of the C library.
template <typename State, typename Object>
State& state_of(Object* object) noexcept {
  static_assert(sizeof(State) <= sizeof(Object) && std::is_const_v<State> == std::is_const_v<Object>);
  return *reinterpret_cast<State*>(object);
}

/// Calls `take` until it returns true. Which ranks have threads that wait for that stands in the object, a
/// bit each, so that who gives back what they want has a thread of one of them look.
///
/// A rank whose bit is chosen (Monitor::choose) loses it, and one of its threads looks; whoever of a rank has
/// waited or was about to, and stops, sets the bit anew where others of the rank still do. Should there be
/// more to take, or nobody have taken it, one who stops has the next look.
template <typename Take, typename MayTake>
class WaitingTake {
 public:
  WaitingTake(Monitor& monitor, const void* object, std::uint32_t& waiting, Take take, MayTake may_take)
      : monitor_(monitor), object_(object), waiting_(waiting), take_(take), may_take_(may_take) {}

  bool operator()() {
    if (take_()) {
      // The bit may have been for this thread, and so may the last wake-up, before its first look.
      if (waits_ || (waiting_ & monitor_.bit_here()) != 0)
        stop();
      else
        choose_next();
      return true;
    }
    waiting_ |= monitor_.bit_here();
    waits_ = true;
    return false;
  }
  bool waits() const { return waits_; }
  /// In inside(), without another look.
  void stop() {
    waits_ = false;
    monitor_.mark_here(object_, waiting_);
    choose_next();
  }
  void wake_next() { monitor_.wake_one(object_, std::exchange(next_, 0)); }

 private:
  void choose_next() {
    if (may_take_()) next_ |= monitor_.choose(waiting_);
  }

  Monitor& monitor_;
  const void* object_;
  std::uint32_t& waiting_;
  Take take_;
  MayTake may_take_;
  bool waits_ = false;
  std::uint32_t next_ = 0;
};

/// Waits until `take` has got what it wants. \param may_take whether another one could
/// \returns false if the deadline has passed
template <typename Take, typename MayTake>
bool wait_to_take(Monitor& monitor, const void* object, std::uint32_t& waiting, Take take, MayTake may_take,
                  TimeNs deadline_ns) {
  WaitingTake step(monitor, object, waiting, take, may_take);
  const bool in_time = monitor.wait(object, step, deadline_ns);
  if (!in_time) monitor.inside(object, [&] { step.stop(); });
  step.wake_next();
  return in_time;
}

/// Of the threads that wait for an object, those that look again.
enum class Wakes { nobody, one, all };

/// Calls `change` alone, and has those look again that it returns.
/// \param waiting the ranks that wait, as WaitingTake has them
template <typename Change>
void change_and_wake(Monitor& monitor, const void* object, std::uint32_t& waiting, Change change) {
  Wakes wakes = Wakes::nobody;
  std::uint32_t ranks = 0;
  monitor.inside(object, [&] {
    wakes = change();
    if (wakes == Wakes::one) ranks = monitor.choose(waiting);
    if (wakes == Wakes::all) ranks = std::exchange(waiting, 0);
  });
  if (wakes == Wakes::one) monitor.wake_one(object, ranks);
  if (wakes == Wakes::all) monitor.wake_all(object, ranks);
}

}  // namespace craton::posix
