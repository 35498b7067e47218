/// \file
/// Whether a rank's agent interrupts the threads that compute.
///
/// Where it does not (SCHED_BATCH), it runs on a processor that is free or falls free, or the program's
/// thread comes to wait and takes the messages itself. In programs that meet again and again that costs
/// nobody time, for who asks a rank that computes has to wait for it anyway; interruptions do cost: two ranks
/// on two processors, NPB CG class W, 0.17 s with and 0.12 without, over tcp 0.57 and 0.39. But where all
/// processors compute for long, the agent waits for the end of a slice, 4 to 8 ms. So it notices when it woke
/// up late, and interrupts for a while then.
#pragma once

#include "base/clock.hpp"

namespace craton::fabric {

/// The decision alone.
class Courtesy {
 public:
  static constexpr TimeNs too_late_ns = 1'800'000;
  static constexpr TimeNs shortest_pause_ns = 5'000'000;
  static constexpr TimeNs longest_pause_ns = 2'000'000'000;
  static constexpr TimeNs shortest_sleep_ns = 1'000'000;
  static constexpr TimeNs longest_sleep_ns = 200'000'000;

  bool is_on() const noexcept { return is_on_; }
  /// The thread has done something, so that more may come.
  void worked() noexcept { sleep_ns_ = shortest_sleep_ns; }
  /// When the thread is to wake up at the latest, to see how late it is: ever more rarely where it has
  /// nothing to do, and then no longer.
  TimeNs next_deadline_ns(TimeNs now_ns) noexcept;
  /// Each time it has woken up.
  void woke(TimeNs deadline_ns, TimeNs now_ns) noexcept;

 private:
  bool is_on_ = true;
  TimeNs changed_ns_ = 0;
  TimeNs pause_ns_ = shortest_pause_ns;  ///< how long it is off the next time
  TimeNs sleep_ns_ = shortest_sleep_ns;
};

/// Of the thread that makes it, and uses it as above.
class CourteousThread {
 public:
  /// \param tries false: nothing happens; nor where the thread has another policy than the usual one
  explicit CourteousThread(bool tries) noexcept;

  void worked() noexcept { courtesy_.worked(); }
  TimeNs next_deadline_ns(TimeNs now_ns) noexcept;
  void woke(TimeNs deadline_ns, TimeNs now_ns) noexcept;

 private:
  const bool tries_;
  Courtesy courtesy_;
};

}  // namespace craton::fabric
