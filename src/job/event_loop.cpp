#include "job/event_loop.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <limits>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::job {

namespace {

std::uint64_t token_of(int fd, std::uint32_t generation) {
  return static_cast<std::uint64_t>(generation) << 32U | static_cast<std::uint32_t>(fd);
}

}  // namespace

EventLoop::EventLoop(const Clock& clock) : clock_(clock), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw Error::from_errno("cannot make an event loop", errno, "ulimit -n");
}

bool EventLoop::watch(int fd, std::uint32_t events, Ready ready) {
  const std::uint32_t generation = next_generation_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_of(fd, generation);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    if (errno == EPERM) return false;
    throw Error::from_errno("cannot wait for descriptor " + std::to_string(fd), errno,
                            "/proc/sys/fs/epoll/max_user_watches");
  }
  watches_[fd] = std::make_shared<Watch>(Watch{generation, std::move(ready)});
  return true;
}

void EventLoop::set_events(int fd, std::uint32_t events) {
  const auto found = watches_.find(fd);
  CRATON_ASSERT(found != watches_.end());
  epoll_event event{};
  event.events = events;
  event.data.u64 = token_of(fd, found->second->generation);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    throw Error::from_errno("cannot wait for descriptor " + std::to_string(fd), errno);
  }
}

void EventLoop::unwatch(int fd) noexcept {
  if (watches_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::watch_signals(const std::vector<int>& signals,
                              std::function<void(const signalfd_siginfo&)> arrived) {
  CRATON_ASSERT(!signals_);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : signals) sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) throw Error::from_errno("cannot block signals", errno);
  signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw Error::from_errno("cannot receive signals by descriptor", errno, "ulimit -n");
  watch(signals_.get(), EPOLLIN, [this, arrived = std::move(arrived)](std::uint32_t) {
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == static_cast<ssize_t>(sizeof signal))
      arrived(signal);
  });
}

EventLoop::TimerId EventLoop::start_timer(TimeNs after_ns, std::function<void()> due) {
  const TimerId timer = next_timer_++;
  timers_.emplace(std::pair(clock_.now_ns() + after_ns, timer), std::move(due));
  return timer;
}

void EventLoop::cancel_timer(TimerId timer) noexcept {
  // A launcher has a handful of timers, so looking through all of them is the simple way.
  std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; });
}

void EventLoop::run_due_timers() {
  const TimeNs now_ns = clock_.now_ns();
  while (!timers_.empty() && timers_.begin()->first.first <= now_ns) {
    const std::function<void()> due = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    due();
  }
}

int EventLoop::milliseconds_to_next_timer() const {
  if (timers_.empty()) return -1;
  const TimeNs left_ns = timers_.begin()->first.first - clock_.now_ns();
  if (left_ns <= 0) return 0;
  const TimeNs left_ms = (left_ns + 999'999) / 1'000'000;
  return left_ms > std::numeric_limits<int>::max() ? std::numeric_limits<int>::max()
                                                   : static_cast<int>(left_ms);
}

void EventLoop::run_until(const bool& done) {
  std::array<epoll_event, 64> events{};
  while (!done) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   milliseconds_to_next_timer());
    if (count < 0 && errno != EINTR) throw Error::from_errno("cannot wait for events", errno);
    for (int i = 0; i < count && !done; ++i) {
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
      const auto found = watches_.find(static_cast<int>(token & 0xFFFFFFFFU));
      if (found == watches_.end() || found->second->generation != token >> 32U) continue;
      const std::shared_ptr<Watch> watch = found->second;  // lives on if the callback forgets it
      watch->ready(events[static_cast<std::size_t>(i)].events);
    }
    run_due_timers();
  }
}

}  // namespace craton::job
