/// \file
/// The event loop of launcher and node: descriptors, signals and deadlines in one thread, asleep in epoll
/// otherwise.
#pragma once

#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace craton::job {

/// For one thread. Callbacks may add and remove descriptors and timers, their own too.
class EventLoop {
 public:
  /// \param events EPOLLIN, EPOLLOUT, EPOLLHUP... as they came
  using Ready = std::function<void(std::uint32_t events)>;
  using TimerId = std::uint64_t;

  /// \throws Error out_of_resources
  explicit EventLoop(const Clock& clock);
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Calls `ready` whenever a descriptor has one of `events`, level-triggered. \throws Error
  /// \returns false if the descriptor cannot be waited for because it never blocks: a regular file
  bool watch(int fd, std::uint32_t events, Ready ready);
  void set_events(int fd, std::uint32_t events);
  /// Forgets a descriptor, before it is closed. Idempotent.
  void unwatch(int fd) noexcept;

  /// Blocks these signals in this process and hands them to `arrived` instead. Once a loop. \throws Error
  void watch_signals(const std::vector<int>& signals, std::function<void(const signalfd_siginfo&)> arrived);

  /// Runs `due` once, `after_ns` from now.
  TimerId start_timer(TimeNs after_ns, std::function<void()> due);
  void cancel_timer(TimerId timer) noexcept;

  /// Runs until `done` is true after an event. \throws what callbacks throw
  void run_until(const bool& done);

  const Clock& clock() const noexcept { return clock_; }

 private:
  struct Watch {
    std::uint32_t generation;  ///< tells an event for a closed descriptor from one for its successor
    Ready ready;
  };
  void run_due_timers();
  int milliseconds_to_next_timer() const;

  const Clock& clock_;
  UniqueFd epoll_;
  UniqueFd signals_;
  std::uint32_t next_generation_ = 0;
  std::map<int, std::shared_ptr<Watch>> watches_;
  TimerId next_timer_ = 1;
  std::map<std::pair<TimeNs, TimerId>, std::function<void()>> timers_;
};

}  // namespace craton::job
