/// \file
/// Who polls, and where threads of a rank sleep. One Progress a rank: it owns the agent thread and the wait
/// primitive.
///
///   awake threads (waiting ones that spin, the agent while busy) ──poll──▶ every Pollable, under one lock
///   asleep, pure shared memory:  application waiter: futex on doorbell.sequence      agent: epoll
///   asleep, with a network:      one application waiter (the leader): epoll, others: futex     agent: epoll
///
/// Invariants
///  * Whoever has something for this rank first makes it findable (ring, socket), then increments the
///  doorbell's
///    sequence, then reads `polling`: if a thread polls, it will find it; else the ringer wakes one that
///    sleeps.
///  * A thread that stops polling first drops `polling`, then looks once more (the two are sequentially
///  consistent).
///  * While an application thread polls, the agent does not wake for network traffic: the nested epoll set
///  `sources_`
///    is taken out of the agent's set, which costs two system calls a wait and no thread switch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "base/unique_fd.hpp"
#include "fabric/batch.hpp"
#include "fabric/transport.hpp"
#include "fabric/types.hpp"

namespace craton::fabric {

/// The word that a rank's neighbours ring. In shared memory where there are neighbours, else private.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> sequence{0};        ///< counts rings; application waiters sleep on it
  std::atomic<std::uint32_t> polling{0};         ///< threads that will look before they sleep
  std::atomic<std::uint32_t> futex_sleepers{0};  ///< application waiters asleep on `sequence`
  std::atomic<std::uint32_t> epoll_sleepers{
      0};                        ///< threads asleep on descriptors, one of them `wake_fd`'s reader
  std::atomic<int> rung_on{-1};  ///< the processor of who last woke a waiter; -1: none has since one slept
};

/// Rings a doorbell after something was made findable. Costs a few ns when its rank polls, else a system
/// call. Async-signal-safe. \param wake_fd an eventfd that the doorbell's rank has in its epoll set
void ring(Doorbell& doorbell, int wake_fd) noexcept;

/// Makes the application waiters that sleep on a doorbell look at their conditions again; those that are
/// awake do so anyway. For ranks without a network, where all sleep there. Async-signal-safe.
void ring_waiters(Doorbell& doorbell) noexcept;

struct ProgressOptions {
  TimeNs spin_ns = 20'000;         ///< how long every wait polls before it sleeps
  TimeNs agent_spin_ns = spin_ns;  ///< and the agent, after it has had something to do
  bool courteous = true;           ///< the agent is, where that is not bad (courtesy.hpp)
};

class Progress {
 public:
  /// \param doorbell this rank's, outlives this object
  /// \throws Error out_of_resources
  Progress(const Clock& clock, ProgressOptions options, Doorbell& doorbell);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Adds something to poll, before start(). \param network its descriptor becomes readable on traffic
  void add(Pollable& pollable, bool network);
  /// Starts the agent. \throws Error
  void start();
  /// Stops the agent; nothing may wait any more. Idempotent.
  void stop() noexcept;

  /// Runs `readable` on the agent (or a waiting thread) whenever `fd` is readable, until it returns false.
  void watch(int fd, std::function<bool()> readable);
  /// Ends a watch and waits until its function is not running. Not from inside it.
  void unwatch(int fd);

  /// See Fabric::wait_until.
  Status wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned patience = 1);
  /// See Fabric::notify.
  void notify() noexcept;

  // For threads of the fabric's own that have other work to do beside polling (offload/).

  /// From here to end_assisting() the calling thread of control assists often; the agent may rest.
  void begin_assisting();
  void end_assisting();
  /// Polls once, unless an application thread that waits is awake to do so. \returns true if anything
  /// happened
  bool assist();

  /// Eventfd to ring this rank's doorbell with, shared with neighbours.
  int wake_fd() const noexcept { return wake_fd_.get(); }
  const Clock& clock() const noexcept { return clock_; }
  /// True on a thread that is polling, that is inside a handler or callback: where waiting is forbidden.
  static bool inside_poll() noexcept;
  /// While one exists, the calling thread counts as polling: it calls what may call back.
  class InsidePoll {
   public:
    InsidePoll() noexcept;
    ~InsidePoll();
    InsidePoll(const InsidePoll&) = delete;
    InsidePoll& operator=(const InsidePoll&) = delete;

   private:
    const Batch::Pause pause_;
  };

 private:
  struct Watch {
    std::uint64_t id;
    int fd;
    std::function<bool()> readable;
  };

  void agent_main();
  bool try_poll();
  bool poll_all();
  void look_at_sources();
  void look_now_and_then(TimeNs now_ns);
  void run_watch(std::uint64_t id);
  bool ready_to_sleep();
  void begin_application_polling();
  void end_application_polling();
  void wait_for_descriptors(int epoll_fd, TimeNs deadline_ns);
  bool sleep(FunctionRef<bool()> condition, TimeNs deadline_ns);
  bool sleep_as_leader(FunctionRef<bool()> condition, TimeNs deadline_ns);
  bool sleep_on_doorbell(FunctionRef<bool()> condition, TimeNs deadline_ns);

  const Clock& clock_;
  const ProgressOptions options_;
  Doorbell& doorbell_;
  std::vector<Pollable*> pollables_;
  bool network_ = false;

  UniqueFd sources_;    ///< epoll set: the pollables' descriptors, wake_fd_, watches
  UniqueFd agent_set_;  ///< epoll set: sources_ (while no application thread polls), stop_fd_
  UniqueFd wake_fd_;
  UniqueFd stop_fd_;
  std::mutex poll_lock_;    ///< held while pollables are polled
  std::mutex role_lock_;    ///< held while application_pollers_ leaves or reaches 0
  std::mutex leader_lock_;  ///< held by the application thread that sleeps on sources_
  std::atomic<std::uint32_t> application_pollers_{0};  ///< assistants included
  std::atomic<std::uint32_t> assistants_{0};
  std::atomic<std::uint32_t> assists_{0};  ///< counted to look at the clock now and then
  std::atomic<std::uint32_t> followers_{
      0};  ///< with a network: application threads asleep on doorbell_.sequence
  std::atomic<bool> leader_asleep_{false};
  std::atomic<TimeNs> looked_ns_{0};  ///< when watches were last looked at by a thread that was kept busy
  std::mutex watch_lock_;             ///< held while a watch runs
  std::vector<Watch> watches_;
  std::uint64_t next_watch_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread agent_;
};

}  // namespace craton::fabric
