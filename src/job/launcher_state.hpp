/// \file
/// The launcher's insides, shared by launcher.cpp (talking to nodes and users), launcher_watch.cpp (telling
/// who watches) and launcher_end.cpp (why and how the job ends).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/bootstrap.hpp"
#include "job/describe.hpp"
#include "job/event_loop.hpp"
#include "job/launcher.hpp"
#include "job/messages.hpp"
#include "job/node_link.hpp"
#include "job/output.hpp"
#include "job/watch.hpp"

namespace craton::job {

/// Phases follow each other: starting (nodes answer and look for the program) → running → ending (processes
/// are told to end) → closing (every node is gone, the rest of the output is written).
class Launcher {
 public:
  explicit Launcher(const LaunchRequest& request);
  ~Launcher();
  int run();

 private:
  enum class Phase : std::uint8_t { starting, running, ending, closing };

  struct RankRecord {
    std::size_t node = 0;
    std::uint32_t pid = 0;
    bool started = false;
    bool exited = false;
    bool joined = false;
    bool ready = false;
    bool finalized = false;
    std::optional<Rank> blamed;  ///< the first rank that it lost the connection to
    std::optional<RankActivity> answer;
    JobLook::Row seen;    ///< since somebody first watched; host, pid and phase are filled in when told
    bool is_seen = true;  ///< it has answered the last look
    TimeNs asked_ns = 0;  ///< when it was asked for that
  };

  // launcher.cpp
  void start_nodes();
  void from_node(std::size_t index, const Frame& frame);
  void from_rank(std::size_t index, const Frame& frame);
  void node_greets(NodeLink& node, const NodeHello& hello);
  void node_prepared(NodeLink& node, const StartResult& result);
  void start_ranks();
  void ping_nodes();
  void take_exchange(Rank rank, std::string_view part);
  void tell_nodes(FrameKind kind, std::string_view body = {});
  NodeLink& node_of(Rank rank) { return nodes_[ranks_[rank].node]; }
  RankRecord& record(std::size_t node, Rank rank);
  void credit_output(Rank rank, std::size_t bytes);
  void watch_input(bool wanted);
  void read_input();
  bool is_sent_twice(const signalfd_siginfo& signal);
  void take_signal(int number);

  // launcher_watch.cpp
  void look(bool wanted);
  JobLook told() const;

  // launcher_end.cpp
  std::string name_rank(Rank rank) const;
  void fail(const std::string& message, int exit_code, std::optional<Rank> lost = {});
  Rank first_lost_of(Rank rank) const;
  void rank_exited(const RankExit& exit);
  void program_ended(int exit_code);
  void rank_lost_peer(Rank rank, Rank peer);
  void judge_lost_connection();
  void node_channel_closed(std::size_t index, const std::string& why);
  void node_lost(std::size_t index, const std::string& why);
  void agent_exited();
  bool all_have_answered() const;
  void ask_where_ranks_are();
  void time_is_over();
  void end_job(std::uint32_t grace_ms);
  void check_nodes_gone();
  void kill_what_is_left();
  void check_written();

  const LaunchRequest& request_;
  SteadyClock clock_;
  EventLoop loop_;
  const Rank size_;
  Output output_;
  fabric::JobSecret secret_{};
  std::vector<NodeLink> nodes_;
  std::vector<RankRecord> ranks_;
  Phase phase_ = Phase::starting;
  std::optional<int> exit_code_;    ///< of the first failure
  std::optional<Rank> complainer_;  ///< the first rank that lost another one; the cause may still come

  std::vector<std::optional<std::string>> exchange_parts_;
  Rank exchange_count_ = 0;

  std::vector<std::uint32_t> credit_;  ///< bytes written and not yet told to the node, by rank
  std::size_t input_credit_ = input_window_bytes;
  bool input_open_ = true;  ///< there may be more to send; not where rank 0 reads it itself
  bool input_watched_ = false;
  bool input_waitable_ = true;  ///< false for a regular file

  Watchers watchers_;

  struct SentSignal {
    std::uint32_t number = 0;
    std::uint32_t sender = 0;
    bool operator==(const SentSignal&) const = default;
  };
  SentSignal last_sent_;  ///< by a process
  TimeNs last_sent_ns_ = 0;
  int last_signal_ = 0;  ///< of those that ask for the end
  bool asked_again_ = false;
  bool asked_where_ = false;
  TimeNs give_up_ns_ = 0;
  std::array<bool, stream_count> told_unread_{};
  bool output_lost_ = false;  ///< some of it could not be written, which has been said
  bool all_gone_ = false;     ///< no process of the job is left
  bool done_ = false;
};

}  // namespace craton::job
