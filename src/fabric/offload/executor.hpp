/// \file
/// The command queue of one endpoint and what empties it: requesters and executor of the dissertation's
/// section 4.3, on the ring of its section 5.2.5 (fiber/delegator.hpp), whose lock is held by the executor as
/// long as it is awake.
///
///   requesters ──delegate──▶ ring ──execute──▶ gathered_ ──issue, many at once──▶ endpoint
///                                                               executor ──assist──▶ polls the fabric
///
/// Where it departs: there is no completer of its own. After each batch, and while nothing is queued, the
/// executor polls if no application thread that waits does; when it has gone to sleep, the rank's agent sees
/// to the completions, as always. A completer beside it would take a third core for the same work.
///
/// Invariant: while it is awake it assists the fabric (Progress::begin_assisting); it stays awake for
/// `linger_ns` after the last command, so that a steady trickle of commands wakes nobody.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "fabric/progress.hpp"
#include "fabric/transport.hpp"
#include "fiber/fiber.hpp"

namespace craton::fabric::offload {

/// How many commands a queue holds. Who finds it full is suspended until there is room.
inline constexpr std::size_t queue_commands = 4096;
/// How many are issued in one go at most.
inline constexpr std::size_t max_batch = 64;

class Executor {
 public:
  /// \param endpoint what it issues to; nobody but handlers and callbacks issues there beside it
  /// \param linger_ns how long it stays awake without a command
  /// \param sleeps false: it stays awake from the first command until stop()
  Executor(Transport& endpoint, Progress& progress, TimeNs linger_ns, bool sleeps)
      : endpoint_(endpoint), progress_(progress), linger_ns_(linger_ns), sleeps_(sleeps) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Queues a command. Any thread that may wait: it waits while the queue is full.
  void delegate(const Command& command) {
    queue_.delegate([&command](Command& queued) { queued = command; });
  }
  /// How many commands have been queued, those of the caller among them.
  std::uint64_t queued() const noexcept { return queue_.arrivals(); }
  /// Whether the first `count` commands have been issued; if not, waiters are
  /// notified when more are.
  bool issued(std::uint64_t count) noexcept;

  /// Executes until stop(). A fiber, or a kernel thread.
  void run() { queue_.consume(*this); }
  /// Ends run() once all that is queued has been issued. Nothing may be queued any more.
  void stop();

  // What fiber/delegator.hpp calls a consumer.
  bool execute(const Command& command);
  bool progress();
  bool is_active();

 private:
  void issue_gathered();

  Transport& endpoint_;
  Progress& progress_;
  const TimeNs linger_ns_;
  const bool sleeps_;
  fiber::RingDelegator<Command> queue_{queue_commands};

  // The executor's own.
  alignas(64) std::array<Command, max_batch> gathered_;
  std::size_t gathered_count_ = 0;
  bool assisting_ = false;
  bool executed_ = false;  ///< something, since the clock was read
  unsigned looks_ = 0;
  TimeNs sleep_at_ns_ = 0;

  alignas(64) std::atomic<std::uint64_t> issued_{0};
  std::atomic<bool> awaited_{false};  ///< somebody waits for issued_ to rise
  std::atomic<bool> stopping_{false};
};

}  // namespace craton::fabric::offload
