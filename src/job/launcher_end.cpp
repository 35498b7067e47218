#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "job/descendants.hpp"
#include "job/launcher_state.hpp"

namespace craton::job {

namespace {

/// From SIGTERM to SIGKILL.
constexpr std::uint32_t grace_ms = 500;
/// How long the cause of a lost connection may take to come from another node before the loss itself is the
/// cause.
constexpr TimeNs judge_ns = 500'000'000;
/// How long ranks may take to say where they are.
constexpr TimeNs answer_ns = 300'000'000;
/// How long a node may take to end its processes. Its own patience is grace_ms and two seconds.
constexpr TimeNs node_patience_ns = 4'000'000'000;
/// How often it looks for what is left.
constexpr TimeNs judge_again_ns = 50'000'000;

}  // namespace

std::string Launcher::name_rank(Rank rank) const {
  return fmt::format("rank {} (pid {} on host {})", rank, ranks_[rank].pid, nodes_[ranks_[rank].node].host);
}

/// The first failure decides the message and the exit code; what follows from it is not told.
void Launcher::fail(const std::string& message, int exit_code, std::optional<Rank> lost) {
  if (exit_code_ || phase_ >= Phase::ending) return;
  exit_code_ = exit_code;
  output_.say(fmt::format("craton: {}{}", message, phase_ == Phase::running ? "; ending the job" : ""));
  if (lost) tell_nodes(FrameKind::lost, encode_number(*lost));
  end_job(asked_again_ ? 0 : grace_ms);
}

/// The rank at the end of the chain "lost the connection to", which may still run: its end may come later
/// than that of ranks that end because of it. A rank that has lost nobody is its own.
Rank Launcher::first_lost_of(Rank rank) const {
  for (Rank steps = 0; steps < size_ && ranks_[rank].blamed; ++steps) {
    rank = *ranks_[rank].blamed;
    if (!ranks_[rank].exited) break;
  }
  return rank;
}

void Launcher::rank_exited(const RankExit& exit) {
  RankRecord& rank = ranks_[exit.rank];
  rank.exited = true;
  const bool others_run =
      std::any_of(ranks_.begin(), ranks_.end(), [](const RankRecord& other) { return !other.exited; });
  // Those that it left may have ended because of it before it is seen to have ended.
  const bool was_needed = others_run || complainer_.has_value();
  const bool in_order = exit.wait_status == 0 && !(exit.unfinished && was_needed);
  if (in_order) {
    if (others_run || phase_ != Phase::running) return;
    return complainer_ ? judge_lost_connection() : end_job(grace_ms);
  }
  // A rank that ends because it lost another one is not the cause: wait for that one, see rank_lost_peer.
  if (!ranks_[first_lost_of(exit.rank)].exited) return;
  const int code = exit_code_of(exit.wait_status);
  const bool was_unread = told_unread_[0] || told_unread_[1];
  if (was_unread && WIFSIGNALED(exit.wait_status) && WTERMSIG(exit.wait_status) == SIGPIPE) {
    // The usual end of a program whose reader has seen enough: no shell says a word about it.
    exit_code_ = exit_code_.value_or(code);
    if (phase_ < Phase::ending) end_job(grace_ms);
    return;
  }
  if (WIFSIGNALED(exit.wait_status) && WTERMSIG(exit.wait_status) == last_signal_) {
    return fail(fmt::format("{} was ended by the {} that craton was sent", name_rank(exit.rank),
                            signal_name(last_signal_)),
                code, exit.rank);
  }
  const char* missing = exit.unfinished && !WIFSIGNALED(exit.wait_status) ? " without craton_finalize" : "";
  fail(fmt::format("{} {}{}", name_rank(exit.rank), describe_exit(exit.wait_status), missing),
       code != 0 ? code : failure_exit_code, exit.rank);
}

/// Its rank has said so instead of leaving the others without a word, and waits for its own end.
void Launcher::program_ended(int exit_code) {
  if (exit_code_ || phase_ >= Phase::ending) return;
  exit_code_ = exit_code;
  end_job(0);
}

void Launcher::rank_lost_peer(Rank rank, Rank peer) {
  if (!ranks_[rank].blamed) ranks_[rank].blamed = peer;
  if (exit_code_ || complainer_) return;
  complainer_ = rank;
  loop_.start_timer(judge_ns, [this] { judge_lost_connection(); });
}

/// The cause of a lost connection has not come: then the loss itself is what there is to tell.
void Launcher::judge_lost_connection() {
  const Rank cause = first_lost_of(*complainer_);
  fail(fmt::format("{} lost its connection to {}, which {}", name_rank(*complainer_), name_rank(cause),
                   ranks_[cause].exited ? "has ended" : "still runs"),
       failure_exit_code, cause);
}

void Launcher::node_channel_closed(std::size_t index, const std::string& why) {
  NodeLink& node = nodes_[index];
  if (node.processes_gone) {
    // A launch agent has nothing to do any more, but some stay.
    loop_.start_timer(judge_ns, [this, index] {
      if (nodes_[index].agent > 0) ::kill(nodes_[index].agent, SIGKILL);
    });
    return check_nodes_gone();
  }
  // How its process ended says more than that the channel has; it comes at the same moment.
  if (node.agent_status || !why.empty()) return node_lost(index, why);
  loop_.start_timer(judge_ns, [this, index] { node_lost(index, {}); });
}

void Launcher::node_lost(std::size_t index, const std::string& why) {
  NodeLink& node = nodes_[index];
  if (node.lost || node.processes_gone) return;
  node.lost = true;
  node.channel->close();
  if (node.agent > 0) ::kill(node.agent, SIGKILL);
  const std::string how = !why.empty() ? why
                          : node.agent_status
                              ? fmt::format("its process {}", describe_exit(*node.agent_status))
                              : "it closed its channel";
  if (node.greeted) {
    fail(fmt::format("lost the node daemon on host {}: {}", node.host, how), failure_exit_code);
  } else {
    fail(fmt::format("cannot start a node daemon on host {}: {} (started by: {})", node.host, how,
                     node.command),
         failure_exit_code);
  }
  for (Rank rank = node.place.first_rank; rank < node.place.first_rank + node.place.rank_count; ++rank) {
    ranks_[rank].exited = true;
    tell_nodes(FrameKind::lost, encode_number(rank));
  }
  check_nodes_gone();
}

void Launcher::agent_exited() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid <= 0) break;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      NodeLink& node = nodes_[i];
      if (node.agent != pid) continue;  // an orphan from below a node that has died
      node.agent = -1;
      node.agent_status = wait_status;
      // What it said before it ended comes first.
      if (node.channel->is_open()) node.channel->receive_available();
      if (!node.processes_gone && !node.channel->is_open()) node_lost(i, {});
    }
  }
  check_nodes_gone();
}

bool Launcher::all_have_answered() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const RankRecord& rank) {
    return rank.answer.has_value() || rank.exited || rank.finalized || !rank.ready;
  });
}

void Launcher::ask_where_ranks_are() {
  if (phase_ != Phase::running) return;
  asked_where_ = true;
  tell_nodes(FrameKind::where);
  if (all_have_answered()) return time_is_over();
  loop_.start_timer(answer_ns, [this] { time_is_over(); });
}

void Launcher::time_is_over() {
  if (phase_ != Phase::running) return;
  std::vector<StalledRank> stalled;
  for (Rank rank = 0; rank < size_; ++rank) {
    const RankRecord& record = ranks_[rank];
    stalled.push_back({.rank = rank,
                       .running = !record.exited,
                       .joined = record.joined,
                       .ready = record.ready,
                       .finalized = record.finalized,
                       .answer = record.answer});
  }
  fail(describe_stall(request_.timeout_ns, stalled), timeout_exit_code);
}

void Launcher::end_job(std::uint32_t grace) {
  phase_ = Phase::ending;
  watch_input(false);
  input_open_ = false;
  tell_nodes(FrameKind::end, encode_number(grace));
  for (NodeLink& node : nodes_) {
    if (node.greeted) continue;
    // It has started nothing and may never answer. If a daemon comes up there after all, it finds its channel
    // closed.
    node.lost = true;
    if (node.channel) node.channel->close();
    if (node.agent > 0) ::kill(node.agent, SIGKILL);
  }
  loop_.start_timer(node_patience_ns, [this] {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].processes_gone || nodes_[i].lost) continue;
      output_.say(fmt::format("craton: host {} has not ended its processes within {}", nodes_[i].host,
                              describe_duration(node_patience_ns)));
      node_lost(i, "it does not answer");
    }
  });
  check_nodes_gone();
}

/// A node is gone when its process has ended and all that it sent has been read.
void Launcher::check_nodes_gone() {
  if (phase_ != Phase::ending) return;
  for (const NodeLink& node : nodes_) {
    if (!node.lost && !node.processes_gone) return;
    if ((node.channel && node.channel->is_open()) || node.agent > 0) return;
  }
  phase_ = Phase::closing;
  give_up_ns_ = clock_.now_ns() + node_patience_ns;
  kill_what_is_left();
}

/// Only below a node that has died can anything be left; its orphans have become children of this process.
/// Otherwise what is there is not the job's: ssh, for one, may keep a connection for later.
void Launcher::kill_what_is_left() {
  const bool any_lost =
      std::any_of(nodes_.begin(), nodes_.end(), [](const NodeLink& node) { return node.lost; });
  const std::vector<pid_t> left = any_lost ? live_descendants() : std::vector<pid_t>();
  for (const pid_t pid : left) ::kill(pid, SIGKILL);
  if (!left.empty() && clock_.now_ns() < give_up_ns_) {
    loop_.start_timer(judge_again_ns, [this] { kill_what_is_left(); });
    return;
  }
  if (!left.empty()) output_.say(fmt::format("craton: process {} does not die of SIGKILL", left.front()));
  all_gone_ = true;
  output_.close_all();
  check_written();
}

void Launcher::check_written() {
  for (const Stream stream : {Stream::out, Stream::error}) {
    bool& told = told_unread_[static_cast<std::size_t>(stream)];
    if (told || !output_.is_unread(stream)) continue;
    told = true;
    tell_nodes(FrameKind::unread, encode_number(static_cast<std::uint32_t>(stream)));
  }
  // The ranks go on, as a program does that does not look at what its writes return.
  if (output_.failure() && !output_lost_) {
    output_lost_ = true;
    output_.say("craton: cannot write the output of the ranks: " +
                std::generic_category().message(*output_.failure()));
  }
  if (all_gone_ && output_.drained()) done_ = true;
}

}  // namespace craton::job
