#include "fabric/courtesy.hpp"

#include <sched.h>

#include <algorithm>

namespace craton::fabric {

namespace {

void set_courteous(bool courteous) noexcept {
  const sched_param none{};
  static_cast<void>(::sched_setscheduler(0, courteous ? SCHED_BATCH : SCHED_OTHER, &none));
}

}  // namespace

TimeNs Courtesy::next_deadline_ns(TimeNs now_ns) noexcept {
  if (!is_on_ || sleep_ns_ > longest_sleep_ns) return no_deadline;
  const TimeNs deadline_ns = now_ns + sleep_ns_;
  sleep_ns_ *= 2;
  return deadline_ns;
}

void Courtesy::woke(TimeNs deadline_ns, TimeNs now_ns) noexcept {
  const TimeNs since_ns = now_ns - changed_ns_;
  if (!is_on_) {
    if (since_ns < pause_ns_) return;
    pause_ns_ = std::min(2 * pause_ns_, longest_pause_ns);
    worked();
  } else if (deadline_ns == no_deadline || now_ns - deadline_ns < too_late_ns) {
    if (since_ns >= pause_ns_) pause_ns_ = shortest_pause_ns;
    return;
  }
  is_on_ = !is_on_;
  changed_ns_ = now_ns;
}

CourteousThread::CourteousThread(bool tries) noexcept
    : tries_(tries && ::sched_getscheduler(0) == SCHED_OTHER) {
  if (tries_) set_courteous(true);
}

TimeNs CourteousThread::next_deadline_ns(TimeNs now_ns) noexcept {
  return tries_ ? courtesy_.next_deadline_ns(now_ns) : no_deadline;
}

void CourteousThread::woke(TimeNs deadline_ns, TimeNs now_ns) noexcept {
  if (!tries_) return;
  const bool was_on = courtesy_.is_on();
  courtesy_.woke(deadline_ns, now_ns);
  if (courtesy_.is_on() != was_on) set_courteous(courtesy_.is_on());
}

}  // namespace craton::fabric
