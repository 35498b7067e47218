/// \file
/// Watching a running job from outside (`craton top`): its launcher listens on a Unix socket of the abstract
/// namespace, which leaves no file and has the launcher's pid in its name. Both sides serve and ask processes
/// of their own user only. While somebody is connected, the launcher asks its ranks what they are doing, many
/// times a second; nobody connected, nothing is done.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "job/channel.hpp"
#include "job/event_loop.hpp"
#include "job/frame.hpp"
#include "job/messages.hpp"

namespace craton::job {

/// The launcher's side.
class Watchers {
 public:
  static constexpr std::size_t watchers_most = 16;
  /// How often ranks are looked at. Not a round number of milliseconds, which programs like for their turns.
  static constexpr TimeNs look_again_ns = 19'000'000;

  /// \param told what there is to tell; \param look called again and again while somebody watches, and at the
  /// end once with false. Where the system has no such socket, the job runs and cannot be watched.
  Watchers(EventLoop& loop, std::function<JobLook()> told, std::function<void(bool wanted)> look);
  ~Watchers();
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

 private:
  struct Watcher;
  void accept();
  void answer(Watcher& watcher, const Frame& frame);
  void look_again();

  EventLoop& loop_;
  std::function<JobLook()> told_;
  std::function<void(bool)> look_;
  UniqueFd listener_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
};

/// The other side: a job that is watched.
class WatchedJob {
 public:
  /// The pids of the launchers of this user's jobs on this host, in order.
  static std::vector<pid_t> running();

  /// \throws Error not_found if this user has no such job, timed_out if the launcher does not answer
  explicit WatchedJob(pid_t launcher);

  /// What the launcher has seen so far. Blocks for its answer.
  /// \throws Error peer_lost if the job has ended, timed_out if the launcher does not answer
  JobLook look();
  /// Waits. \returns false as soon as the job has ended
  bool runs_for(TimeNs duration_ns);

 private:
  [[noreturn]] void fail(ErrorCode code, const char* happened) const;

  pid_t launcher_;
  UniqueFd socket_;
  FrameReader reader_{max_node_body_bytes};
};

}  // namespace craton::job
