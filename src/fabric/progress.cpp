#include "fabric/progress.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/assert.hpp"
#include "base/cancellation.hpp"
#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/processors.hpp"
#include "base/signal_section.hpp"
#include "base/signals_blocked.hpp"
#include "fabric/courtesy.hpp"

namespace craton::fabric {

namespace {

// What an event of the set `sources_` or `agent_set_` is about; watches have their id added to `first_watch`.
constexpr std::uint64_t tag_pollable = 0;
constexpr std::uint64_t tag_wake = 1;
constexpr std::uint64_t tag_sources = 2;
constexpr std::uint64_t tag_stop = 3;
constexpr std::uint64_t first_watch = 16;

/// How often an application thread that leaves looks again for what arrived meanwhile before the agent takes
/// over.
constexpr int looks_on_leaving = 2;
/// While traffic keeps a thread from sleeping, it looks this often at what it would see when it sleeps:
/// watches.
constexpr TimeNs look_every_ns = 1'000'000;
/// Reading the clock costs as much as a few polls of shared memory.
constexpr unsigned polls_per_clock_reading = 8;
/// The same for assistants, whether they poll or not.
constexpr unsigned assists_per_clock_reading = 64;

thread_local bool thread_is_inside_poll = false;

void control(int epoll_fd, int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll_fd, operation, fd, &event) != 0) {
    throw Error::from_errno(fmt::format("cannot watch descriptor {}", fd), errno, "ulimit -n");
  }
}

void write_eventfd(int fd) noexcept {
  const KeptErrno kept;
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then it is readable, which is all we want.
  [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

UniqueFd make_eventfd() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd)
    throw Error::from_errno("cannot create an eventfd", errno, "ulimit -n", "raise the limit of open files");
  return fd;
}

UniqueFd make_epoll() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd)
    throw Error::from_errno("cannot create an epoll set", errno, "ulimit -n",
                            "raise the limit of open files");
  return fd;
}

/// After a ring. With sleep_on_doorbell(): it counts itself before it looks at its condition for the last
/// time. \returns whether any was counted: one that is not asleep any more, or not yet, looks once more
/// before it leaves
bool wake_futex_sleepers(Doorbell& doorbell) noexcept {
  if (doorbell.futex_sleepers.load() == 0) return false;
  doorbell.rung_on.store(::sched_getcpu(), std::memory_order_relaxed);
  // All of them: what is there may be room for messages, which one that wakes up and leaves would not pass
  // on.
  futex_wake(doorbell.sequence, INT_MAX);
  return true;
}

}  // namespace

void ring_waiters(Doorbell& doorbell) noexcept {
  doorbell.sequence.fetch_add(1);
  wake_futex_sleepers(doorbell);
}

void ring(Doorbell& doorbell, int wake_fd) noexcept {
  doorbell.sequence.fetch_add(1);
  if (doorbell.polling.load() != 0) return;
  if (wake_futex_sleepers(doorbell)) return;
  if (doorbell.epoll_sleepers.load() != 0) write_eventfd(wake_fd);
}

Progress::Progress(const Clock& clock, ProgressOptions options, Doorbell& doorbell)
    : clock_(clock),
      options_(options),
      doorbell_(doorbell),
      sources_(make_epoll()),
      agent_set_(make_epoll()),
      wake_fd_(make_eventfd()),
      stop_fd_(make_eventfd()) {
  control(sources_.get(), EPOLL_CTL_ADD, wake_fd_.get(), EPOLLIN, tag_wake);
  control(agent_set_.get(), EPOLL_CTL_ADD, sources_.get(), EPOLLIN, tag_sources);
  control(agent_set_.get(), EPOLL_CTL_ADD, stop_fd_.get(), EPOLLIN, tag_stop);
}

Progress::~Progress() {
  stop();
}

void Progress::add(Pollable& pollable, bool network) {
  CRATON_ASSERT(!agent_.joinable());
  pollables_.push_back(&pollable);
  network_ = network_ || network;
  if (pollable.descriptor() >= 0) {
    control(sources_.get(), EPOLL_CTL_ADD, pollable.descriptor(), EPOLLIN, tag_pollable);
  }
}

void Progress::start() {
  try {
    const SignalsBlocked blocked;
    agent_ = std::thread([this] { agent_main(); });
  } catch (const std::system_error& failure) {
    throw Error::from_errno("cannot start the agent thread", failure.code().value(), "ulimit -u, ulimit -d");
  }
  pthread_setname_np(agent_.native_handle(), "craton-agent");
}

void Progress::stop() noexcept {
  if (!agent_.joinable()) return;
  stopping_.store(true);
  write_eventfd(stop_fd_.get());
  agent_.join();
}

bool Progress::inside_poll() noexcept {
  return thread_is_inside_poll;
}

Progress::InsidePoll::InsidePoll() noexcept {
  CRATON_ASSERT(!thread_is_inside_poll);
  thread_is_inside_poll = true;
}

Progress::InsidePoll::~InsidePoll() {
  thread_is_inside_poll = false;
}

bool Progress::poll_all() {
  const InsidePoll inside;
  bool worked = false;
  for (Pollable* pollable : pollables_) worked = pollable->poll() || worked;
  return worked;
}

bool Progress::try_poll() {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  std::unique_lock lock(poll_lock_, std::try_to_lock);
  if (!lock) return false;
  const bool worked = poll_all();
  lock.unlock();
  if (worked) notify();
  return worked;
}

bool Progress::ready_to_sleep() {
  const std::lock_guard lock(poll_lock_);
  return std::all_of(pollables_.begin(), pollables_.end(),
                     [](Pollable* pollable) { return pollable->ready_to_sleep(); });
}

void Progress::wait_for_descriptors(int epoll_fd, TimeNs deadline_ns) {
  epoll_event event{};
  timespec timeout{};
  const timespec* limit = nullptr;
  if (deadline_ns != no_deadline) {
    const TimeNs left_ns = std::max<TimeNs>(deadline_ns - clock_.now_ns(), 0);
    timeout = timespec_of(left_ns);
    limit = &timeout;
  }
  if (::epoll_pwait2(epoll_fd, &event, 1, limit, nullptr) < 0 && errno == ENOSYS) {  // before Linux 5.11
    const TimeNs left_ms =
        limit == nullptr ? -1 : timeout.tv_sec * 1000 + (timeout.tv_nsec + 999'999) / 1'000'000;
    ::epoll_wait(epoll_fd, &event, 1, static_cast<int>(std::min<TimeNs>(left_ms, INT_MAX)));
  }
}

/// Empties the wake-up eventfd and runs watches whose descriptor is readable; either may be what a waiter
/// waits for.
void Progress::look_at_sources() {
  std::array<epoll_event, 16> events{};
  const int count = ::epoll_wait(sources_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool passed_on = false;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t tag = events[static_cast<std::size_t>(i)].data.u64;
    if (tag == tag_wake) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t taken = ::read(wake_fd_.get(), &rings, sizeof rings);
      passed_on = true;
    } else if (tag >= first_watch) {
      run_watch(tag - first_watch);
      passed_on = true;
    }
  }
  if (passed_on) notify();
}

void Progress::look_now_and_then(TimeNs now_ns) {
  if (now_ns - looked_ns_.load(std::memory_order_relaxed) < look_every_ns) return;
  looked_ns_.store(now_ns, std::memory_order_relaxed);
  look_at_sources();
}

void Progress::agent_main() {
  CourteousThread courteous(options_.courteous);
  doorbell_.polling.fetch_add(1);
  TimeNs spin_until_ns = 0;
  while (!stopping_.load()) {
    const bool on_duty = application_pollers_.load() == 0;
    if (on_duty) {
      if (try_poll()) {
        const TimeNs now_ns = clock_.now_ns();
        courteous.worked();
        look_now_and_then(now_ns);
        spin_until_ns = now_ns + options_.agent_spin_ns;
        continue;
      }
      if (clock_.now_ns() < spin_until_ns) {
        spin_pause();
        continue;
      }
    }
    doorbell_.epoll_sleepers.fetch_add(1);
    doorbell_.polling.fetch_sub(1);
    // Also off duty: whoever rang while the agent was counted as polling relied on it, and the application
    // thread that is on duty may be asleep.
    const bool nothing_left = ready_to_sleep();
    if (nothing_left) {
      const TimeNs deadline_ns = courteous.next_deadline_ns(clock_.now_ns());
      wait_for_descriptors(agent_set_.get(), deadline_ns);
      courteous.woke(deadline_ns, clock_.now_ns());
    }
    doorbell_.polling.fetch_add(1);
    doorbell_.epoll_sleepers.fetch_sub(1);
    look_at_sources();
    if (!on_duty && !nothing_left) try_poll();
  }
  doorbell_.polling.fetch_sub(1);
}

void Progress::begin_application_polling() {
  doorbell_.polling.fetch_add(1);
  if (!network_) {
    application_pollers_.fetch_add(1);
    return;
  }
  const std::lock_guard lock(role_lock_);
  if (application_pollers_.fetch_add(1) == 0) {
    control(agent_set_.get(), EPOLL_CTL_MOD, sources_.get(), 0, tag_sources);
  }
}

void Progress::end_application_polling() {
  if (!network_) {
    application_pollers_.fetch_sub(1);
  } else {
    const std::lock_guard lock(role_lock_);
    if (application_pollers_.fetch_sub(1) == 1) {
      control(agent_set_.get(), EPOLL_CTL_MOD, sources_.get(), EPOLLIN, tag_sources);
    }
  }
  // Whoever rang while this thread polled relied on it. If it is the last, it looks once more, then leaves
  // the rest to the agent.
  int looks = 0;
  while (doorbell_.polling.fetch_sub(1) == 1 && !ready_to_sleep()) {
    if (++looks > looks_on_leaving) {
      write_eventfd(wake_fd_.get());
      return;
    }
    doorbell_.polling.fetch_add(1);
    try_poll();
  }
}

void Progress::begin_assisting() {
  begin_application_polling();
  assistants_.fetch_add(1, std::memory_order_relaxed);
}

void Progress::end_assisting() {
  assistants_.fetch_sub(1, std::memory_order_relaxed);
  end_application_polling();
}

bool Progress::assist() {
  // While somebody assists, the agent does not look at watches. A leader that sleeps does, but is counted as
  // a poller like those that are awake.
  if ((assists_.fetch_add(1, std::memory_order_relaxed) + 1) % assists_per_clock_reading == 0)
    look_now_and_then(clock_.now_ns());
  const std::uint32_t asleep = leader_asleep_.load(std::memory_order_relaxed) ? 1 : 0;
  const std::uint32_t beside =
      application_pollers_.load(std::memory_order_relaxed) - assistants_.load(std::memory_order_relaxed);
  // The counts are read one by one: a wrong guess costs a poll too many, or one too few, once.
  return beside <= asleep && try_poll();
}

Status Progress::wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned patience) {
  if (condition()) return Status::ok;
  CRATON_ASSERT(!inside_poll());
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  begin_application_polling();
  Status status = Status::ok;
  TimeNs now_ns = clock_.now_ns();
  const TimeNs spin_ns = options_.spin_ns * patience;
  TimeNs spin_until_ns = now_ns + spin_ns;
  bool worked = false;  // since the clock was read
  for (unsigned polls = 1; !condition(); ++polls) {
    if (try_poll()) {
      worked = true;
    } else {
      spin_pause();
    }
    if (polls % polls_per_clock_reading != 0) continue;
    if (SignalSection::is_awaited()) {
      end_application_polling();
      SignalSection::let_signals_run();
      begin_application_polling();
    }
    now_ns = clock_.now_ns();
    if (now_ns >= deadline_ns) {
      status = condition() ? Status::ok : Status::timed_out;
      break;
    }
    if (worked) {
      look_now_and_then(now_ns);
      spin_until_ns = now_ns + spin_ns;
      worked = false;
    } else if (now_ns >= spin_until_ns) {
      if (sleep(condition, deadline_ns)) break;
      spin_until_ns = clock_.now_ns() + spin_ns;
    }
  }
  end_application_polling();
  return status;
}

/// Sleeps until something may have changed. \returns true if the condition held just before: then it is not
/// to be evaluated again, since it may have done something (sent a message).
bool Progress::sleep(FunctionRef<bool()> condition, TimeNs deadline_ns) {
  if (network_) {
    const std::unique_lock leader(leader_lock_, std::try_to_lock);
    if (leader) return sleep_as_leader(condition, deadline_ns);
  }
  return sleep_on_doorbell(condition, deadline_ns);
}

bool Progress::sleep_as_leader(FunctionRef<bool()> condition, TimeNs deadline_ns) {
  leader_asleep_.store(true);
  doorbell_.epoll_sleepers.fetch_add(1);
  doorbell_.polling.fetch_sub(1);
  const bool held = condition();
  if (!held && !SignalSection::is_awaited() && ready_to_sleep())
    wait_for_descriptors(sources_.get(), deadline_ns);
  doorbell_.polling.fetch_add(1);
  doorbell_.epoll_sleepers.fetch_sub(1);
  leader_asleep_.store(false);
  look_at_sources();
  return held;
}

bool Progress::sleep_on_doorbell(FunctionRef<bool()> condition, TimeNs deadline_ns) {
  std::atomic<std::uint32_t>& sleepers = network_ ? followers_ : doorbell_.futex_sleepers;
  const std::uint32_t sequence = doorbell_.sequence.load();
  sleepers.fetch_add(1);
  end_application_polling();
  const bool held = condition();
  if (!held && !SignalSection::is_awaited()) {
    doorbell_.rung_on.store(-1, std::memory_order_relaxed);
    futex_wait(doorbell_.sequence, sequence, deadline_ns);
    leave_processor(doorbell_.rung_on.load(std::memory_order_relaxed));
  }
  sleepers.fetch_sub(1);
  begin_application_polling();
  return held;
}

void Progress::notify() noexcept {
  doorbell_.sequence.fetch_add(1);
  if (doorbell_.futex_sleepers.load() != 0 || followers_.load() != 0) futex_wake(doorbell_.sequence, INT_MAX);
  if (!leader_asleep_.load()) return;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  write_eventfd(wake_fd_.get());
}

void Progress::watch(int fd, std::function<bool()> readable) {
  const std::lock_guard lock(watch_lock_);
  const std::uint64_t id = next_watch_++;
  watches_.push_back({.id = id, .fd = fd, .readable = std::move(readable)});
  control(sources_.get(), EPOLL_CTL_ADD, fd, EPOLLIN, first_watch + id);
}

void Progress::unwatch(int fd) {
  const std::lock_guard lock(watch_lock_);
  const auto found =
      std::find_if(watches_.begin(), watches_.end(), [fd](const Watch& watch) { return watch.fd == fd; });
  if (found == watches_.end()) return;
  ::epoll_ctl(sources_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(found);
}

void Progress::run_watch(std::uint64_t id) {
  const std::lock_guard lock(watch_lock_);
  const auto found =
      std::find_if(watches_.begin(), watches_.end(), [id](const Watch& watch) { return watch.id == id; });
  if (found == watches_.end() || found->readable()) return;
  ::epoll_ctl(sources_.get(), EPOLL_CTL_DEL, found->fd, nullptr);
  watches_.erase(found);
}

}  // namespace craton::fabric
