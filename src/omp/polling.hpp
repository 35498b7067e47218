/// \file
/// A thread that flushes again and again, and finds nothing new, waits for another thread, in a loop of the
/// program's own. Where there are more threads than processors it holds the one that the other needs, so it
/// sleeps for a moment now and then. Not sched_yield(): beside a job that computes, that gives whole slices
/// away.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace craton::omp {

/// The decision alone, of one thread.
class Polling {
 public:
  /// A look that came so long after the one before was of a thread that has done something meanwhile, or that
  /// another kept from the processor: that much longer it may look. All of its patience anew would be too
  /// much, where threads are interrupted ever again.
  static constexpr TimeNs longest_gap_ns = 5'000;
  /// How long a thread looks before it sleeps: as all waits do where processors are scarce; else rather more,
  /// since a sleep takes longer than what it waits for may.
  static constexpr TimeNs patience_if_crowded_ns = 20'000;
  static constexpr TimeNs patience_ns = 200'000;
  static constexpr TimeNs sleep_ns = 50'000;

  /// After a flush. \param found anything new; \returns whether the thread is to sleep now
  bool is_to_sleep(bool found, TimeNs began_ns, TimeNs ended_ns, bool is_crowded) noexcept {
    const TimeNs patience = is_crowded ? patience_if_crowded_ns : patience_ns;
    const TimeNs gap_ns = began_ns - last_ns_;
    if (found || !polls_) {
      looked_ns_ = 0;
    } else if (gap_ns <= longest_gap_ns) {
      looked_ns_ = std::min(patience, looked_ns_ + ended_ns - last_ns_);
    } else {
      looked_ns_ = std::max<TimeNs>(0, std::min(patience, looked_ns_) - gap_ns);
    }
    polls_ = !found;
    last_ns_ = ended_ns;
    return looked_ns_ >= patience;
  }
  void woke(TimeNs now_ns) noexcept { last_ns_ = now_ns; }

 private:
  bool polls_ = false;
  TimeNs looked_ns_ = 0;  ///< in vain, of late
  TimeNs last_ns_ = 0;
};

}  // namespace craton::omp
