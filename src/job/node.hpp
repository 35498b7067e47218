/// \file
/// The node daemon: starts the ranks of one host, passes on what they write and say, and leaves nothing
/// behind.
///
/// It lives between the launcher (pipes) and its ranks (socket pairs and pipes). Invariants: no rank outlives
/// it (PR_SET_PDEATHSIG), no descendant escapes it (PR_SET_CHILD_SUBREAPER), and when the launcher goes away
/// it kills everything and ends.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "job/channel.hpp"
#include "job/event_loop.hpp"
#include "job/messages.hpp"

namespace craton::job {

/// For single-threaded processes that do nothing else.
class Node {
 public:
  /// \param from_launcher, to_launcher pipes that nobody else uses. \param input what rank 0 reads; none:
  /// what the launcher sends. \throws Error
  Node(const Clock& clock, UniqueFd from_launcher, UniqueFd to_launcher, UniqueFd input);
  ~Node();

  /// Serves until every process is gone and all is said. \returns the exit code of the process
  int run();

 private:
  struct LocalRank;
  struct OutputPipe;

  // What the launcher says.
  void from_launcher(const Frame& frame);
  void prepare(const StartOrder& order);
  void start_ranks();
  void tell_ranks(FrameKind kind, std::string_view body);
  void pass_on(int number);
  void signal_ranks(int number);
  void take_input(std::string_view bytes);
  void launcher_gone(const std::string& why);

  // What ranks say and write.
  void from_rank(LocalRank& rank, const Frame& frame);
  void rank_broke_rules(LocalRank& rank, const std::string& what);
  void read_output(LocalRank& rank, Stream stream);
  void close_output(LocalRank& rank, Stream stream);
  void watch_output(LocalRank& rank, Stream stream, bool wanted);
  void write_input();
  void close_input();

  // How they end.
  void reap();
  void rank_exited(LocalRank& rank, int wait_status);
  void end_processes(TimeNs grace_ns);
  void kill_processes();
  void check_ended();
  void finish_when_all_is_said();
  LocalRank* find(Rank rank) noexcept;

  EventLoop loop_;
  Channel launcher_;
  std::optional<StartOrder> order_;
  std::vector<std::unique_ptr<LocalRank>> ranks_;
  UniqueFd given_input_;  ///< until rank 0 has it
  std::string input_;     ///< for rank 0, not yet written
  bool input_ended_ = false;
  bool input_waits_ = false;
  bool ending_ = false;
  bool killing_ = false;
  bool processes_gone_ = false;
  TimeNs give_up_ns_ = 0;
  bool looks_again_ = false;  ///< a timer for check_ended runs
  bool done_ = false;
};

}  // namespace craton::job
