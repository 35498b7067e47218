#include "job/launcher.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error.hpp"
#include "job/descendants.hpp"
#include "job/launcher_state.hpp"

namespace craton::job {

namespace {

/// Credit is told to a node in lumps of this size. A quarter of what a window has left over when both streams
/// of a rank hold back their longest unfinished line.
constexpr std::uint32_t credit_lump_bytes =
    (output_window_bytes - stream_count * LineAssembler::max_line_bytes) / 4;

/// A node is asked so many times before it is lost.
constexpr unsigned pings_unanswered = 10;

/// timeout(1) sends a signal to its command and then to its group, which has the command in it: what comes
/// from one process within this time has been sent once.
constexpr TimeNs same_signal_ns = 100'000'000;

Rank size_of_job(const LaunchRequest& request) {
  Rank size = 0;
  for (const Placement& place : request.placements) size += place.rank_count;
  return size;
}

/// What nohup, or a shell that puts jobs into the background, has made this process ignore stays ignored.
std::vector<int> watched_signals() {
  std::vector<int> signals{SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
  for (const int number : {SIGHUP, SIGINT, SIGQUIT}) {
    struct sigaction inherited {};
    if (::sigaction(number, nullptr, &inherited) != 0 || inherited.sa_handler != SIG_IGN)
      signals.push_back(number);
  }
  return signals;
}

bool asks_for_end(int number) noexcept {
  return number == SIGINT || number == SIGTERM || number == SIGQUIT || number == SIGHUP;
}

[[noreturn]] void refuse(const std::string& happened) {
  throw Error(ErrorCode::protocol,
              {.asked = "cannot follow a node daemon", .happened = happened, .limit = {}, .remedy = {}});
}

}  // namespace

Launcher::Launcher(const LaunchRequest& request)
    : request_(request),
      loop_(clock_),
      size_(size_of_job(request)),
      output_(loop_, request.output, size_, STDOUT_FILENO, STDERR_FILENO,
              [this](Rank rank, std::size_t bytes) { credit_output(rank, bytes); }),
      ranks_(size_),
      exchange_parts_(size_),
      credit_(size_, 0),
      watchers_(
          loop_, [this] { return told(); }, [this](bool wanted) { look(wanted); }) {
  if (::getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) {
    throw Error::from_errno("cannot make the secret of the job", errno);
  }
  adopt_orphans();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  loop_.watch_signals(watched_signals(), [this](const signalfd_siginfo& signal) {
    if (!is_sent_twice(signal)) take_signal(static_cast<int>(signal.ssi_signo));
  });
  output_.on_progress([this] { check_written(); });
}

Launcher::~Launcher() = default;

int Launcher::run() {
  start_nodes();
  loop_.run_until(done_);
  const int exit_code = exit_code_.value_or(0);
  return exit_code == 0 && output_lost_ ? failure_exit_code : exit_code;
}

void Launcher::start_nodes() {
  nodes_.resize(request_.placements.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    NodeLink& node = nodes_[i];
    node.place = request_.placements[i];
    node.host = node.place.host;
    for (Rank rank = 0; rank < node.place.rank_count; ++rank) ranks_[node.place.first_rank + rank].node = i;
    StartedNode started = start_node(node.host, request_.launch_agent, node.place.first_rank == 0);
    if (started.has_input) input_open_ = false;
    node.agent = started.agent;
    node.command = std::move(started.command);
    node.channel = std::make_unique<Channel>(
        loop_, std::move(started.from_node), std::move(started.to_node), max_node_body_bytes,
        [this, i](const Frame& frame) { from_node(i, frame); },
        [this, i](const std::string& why) { node_channel_closed(i, why); });
  }
  loop_.start_timer(request_.connect_timeout_ns, [this] {
    for (const NodeLink& node : nodes_) {
      if (phase_ != Phase::starting || node.prepared) continue;
      fail(fmt::format("host {} has not answered within {} (started by: {})", node.host,
                       describe_duration(request_.connect_timeout_ns), node.command),
           failure_exit_code);
    }
  });
}

void Launcher::tell_nodes(FrameKind kind, std::string_view body) {
  for (NodeLink& node : nodes_) {
    if (node.channel) node.channel->send(kind, body);
  }
}

/// The record of a rank that a node speaks of. \throws Error protocol if it is not one of its own
Launcher::RankRecord& Launcher::record(std::size_t node, Rank rank) {
  if (rank >= size_ || ranks_[rank].node != node)
    refuse(fmt::format("it speaks of rank {}, which it has not", rank));
  return ranks_[rank];
}

void Launcher::from_node(std::size_t index, const Frame& frame) {
  NodeLink& node = nodes_[index];
  if (!node.greeted && frame.kind != FrameKind::hello) refuse("its first frame was no greeting");
  node.unanswered = 0;
  switch (frame.kind) {
    case FrameKind::pong:
      return;
    case FrameKind::hello:
      return node_greets(node, NodeHello::decode(frame.body));
    case FrameKind::prepared:
      return node_prepared(node, StartResult::decode(frame.body));
    case FrameKind::started: {
      const RankNumber started = RankNumber::decode(frame.body);
      RankRecord& rank = record(index, started.rank);
      rank.pid = started.number;
      rank.started = true;
      return;
    }
    case FrameKind::start_failed: {
      const StartResult result = StartResult::decode(frame.body);
      return fail(result.message, result.exit_code);
    }
    case FrameKind::exited: {
      const RankExit exit = RankExit::decode(frame.body);
      record(index, exit.rank);
      return rank_exited(exit);
    }
    case FrameKind::output:
    case FrameKind::output_closed: {
      const RankOutput output = RankOutput::decode(frame.body);
      record(index, output.rank);
      if (frame.kind == FrameKind::output) return output_.add(output.rank, output.stream, output.bytes);
      return output_.close(output.rank, output.stream);
    }
    case FrameKind::input_credit: {
      const std::uint32_t bytes = decode_number(frame.body);
      if (bytes > input_window_bytes - input_credit_) refuse("it gives back more input than it got");
      input_credit_ += bytes;
      return watch_input(true);
    }
    case FrameKind::input_closed:
      watch_input(false);
      input_open_ = false;
      return;
    case FrameKind::bye:
      if (!frame.body.empty()) output_.say("craton: " + frame.body);
      node.processes_gone = true;
      return check_nodes_gone();
    default:
      return from_rank(index, frame);
  }
}

/// What a rank says through its node.
void Launcher::from_rank(std::size_t index, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::join: {
      RankRecord& rank = record(index, decode_number(frame.body));
      rank.joined = true;
      rank.ready = rank.finalized = false;
      rank.is_seen = true;
      return;
    }
    case FrameKind::ready:
      record(index, decode_number(frame.body)).ready = true;
      return;
    case FrameKind::finalized:
      record(index, decode_number(frame.body)).finalized = true;
      return;
    case FrameKind::exchange: {
      const RankBytes part = RankBytes::decode(frame.body);
      record(index, part.rank);
      return take_exchange(part.rank, part.bytes);
    }
    case FrameKind::activity: {
      const RankActivity activity = RankActivity::decode(frame.body);
      record(index, activity.rank).answer = activity;
      if (asked_where_ && all_have_answered()) time_is_over();
      return;
    }
    case FrameKind::seen: {
      const RankLook seen = RankLook::decode(frame.body);
      RankRecord& rank = record(index, seen.rank);
      rank.is_seen = true;
      return rank.seen.add(seen);
    }
    case FrameKind::peer_lost: {
      const RankNumber report = RankNumber::decode(frame.body);
      record(index, report.rank);
      if (report.number >= size_) refuse(fmt::format("it speaks of rank {} of {}", report.number, size_));
      return rank_lost_peer(report.rank, report.number);
    }
    case FrameKind::ended: {
      const RankNumber ended = RankNumber::decode(frame.body);
      record(index, ended.rank);
      if (ended.number > 255) refuse(fmt::format("it speaks of exit code {}", ended.number));
      return program_ended(static_cast<int>(ended.number));
    }
    case FrameKind::fault: {
      const RankBytes fault = RankBytes::decode(frame.body);
      record(index, fault.rank);
      return fail(fmt::format("{} broke the rules: {}", name_rank(fault.rank), fault.bytes),
                  failure_exit_code, fault.rank);
    }
    default:
      break;
  }
  refuse(fmt::format("it sent a frame of kind {}", static_cast<int>(frame.kind)));
}

void Launcher::node_greets(NodeLink& node, const NodeHello& hello) {
  if (hello.version != control_version) {
    return fail(
        fmt::format(
            "host {} has a craton that speaks version {}, this one speaks version {}; install the same "
            "version on both",
            node.host, hello.version, control_version),
        failure_exit_code);
  }
  node.greeted = true;
  // Network namespaces share a host name with their host; the name that the user gave tells them apart.
  if (hello.host != node.place.host) {
    node.host =
        is_this_host(node.place.host) ? hello.host : fmt::format("{} ({})", node.place.host, hello.host);
  }
  std::array<char, 4096> directory{};
  if (::getcwd(directory.data(), directory.size()) == nullptr) directory[0] = '\0';
  const StartOrder order{.first_rank = node.place.first_rank,
                         .rank_count = node.place.rank_count,
                         .size = size_,
                         .secret = secret_,
                         .directory = directory.data(),
                         .environment = request_.environment,
                         .command = request_.command};
  std::string body = order.encode();
  if (body.size() > max_node_body_bytes) {
    return fail(fmt::format("the command and its environment have {} bytes; the limit is {}", body.size(),
                            max_node_body_bytes),
                failure_exit_code);
  }
  node.channel->send(FrameKind::prepare, body);
}

void Launcher::node_prepared(NodeLink& node, const StartResult& result) {
  if (result.exit_code != 0) return fail(result.message, result.exit_code);
  node.prepared = true;
  const bool all =
      std::all_of(nodes_.begin(), nodes_.end(), [](const NodeLink& other) { return other.prepared; });
  if (all && phase_ == Phase::starting) start_ranks();
}

void Launcher::start_ranks() {
  phase_ = Phase::running;
  tell_nodes(FrameKind::go);
  watch_input(true);
  if (request_.timeout_ns != 0) {
    loop_.start_timer(request_.timeout_ns, [this] { ask_where_ranks_are(); });
  }
  if (request_.node_timeout_ns != 0) ping_nodes();
}

/// A host that has lost its power or its network says nothing of it, and who started its daemon may never
/// notice. Pings are counted and not timed, so that a launcher that was stopped meanwhile takes no node for
/// lost. Of this host's daemon the pipes tell all there is to tell.
void Launcher::ping_nodes() {
  if (phase_ != Phase::running) return;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    NodeLink& node = nodes_[i];
    if (node.lost || node.processes_gone || is_this_host(node.place.host)) continue;
    if (node.unanswered == pings_unanswered) {
      node_lost(i, "it has not answered for " + describe_duration(request_.node_timeout_ns));
      continue;
    }
    ++node.unanswered;
    node.channel->send(FrameKind::ping);
  }
  loop_.start_timer(request_.node_timeout_ns / pings_unanswered, [this] { ping_nodes(); });
}

void Launcher::take_exchange(Rank rank, std::string_view part) {
  if (part.size() > max_exchange_bytes || exchange_parts_[rank])
    refuse("a rank came to an exchange out of turn");
  exchange_parts_[rank] = part;
  if (++exchange_count_ < size_) return;
  for (Rank source = 0; source < size_; ++source) {
    tell_nodes(FrameKind::exchanged, RankBytes{source, *exchange_parts_[source]}.encode());
    exchange_parts_[source].reset();
  }
  exchange_count_ = 0;
}

void Launcher::credit_output(Rank rank, std::size_t bytes) {
  credit_[rank] += static_cast<std::uint32_t>(bytes);
  if (credit_[rank] < credit_lump_bytes) return;
  NodeLink& node = node_of(rank);
  if (node.channel)
    node.channel->send(FrameKind::output_credit, RankNumber{rank, std::exchange(credit_[rank], 0)}.encode());
}

void Launcher::watch_input(bool wanted) {
  // A job in the background must not take what is typed to the shell; it would be stopped for trying.
  if (wanted && ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) wanted = false;
  if (!input_open_ || (wanted && (phase_ != Phase::running || input_credit_ == 0))) return;
  if (!input_waitable_) {
    if (wanted) read_input();
    return;
  }
  if (wanted == input_watched_) return;
  input_watched_ = wanted;
  if (!wanted) return loop_.unwatch(STDIN_FILENO);
  try {
    input_waitable_ = loop_.watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { read_input(); });
  } catch (const Error&) {
    // No standard input at all is the same as an empty one.
    input_watched_ = input_open_ = false;
    return node_of(0).channel->send(FrameKind::input);
  }
  if (!input_waitable_) {
    input_watched_ = false;
    read_input();
  }
}

void Launcher::read_input() {
  std::array<char, 16 * 1024> buffer;
  const ssize_t count = ::read(STDIN_FILENO, buffer.data(), std::min(buffer.size(), input_credit_));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    watch_input(false);
    input_open_ = false;
    return node_of(0).channel->send(FrameKind::input);
  }
  input_credit_ -= static_cast<std::size_t>(count);
  node_of(0).channel->send(FrameKind::input, {buffer.data(), static_cast<std::size_t>(count)});
  if (input_credit_ == 0) watch_input(false);
}

/// Of signals that ask for the end. What is typed at a terminal is no process's.
bool Launcher::is_sent_twice(const signalfd_siginfo& signal) {
  if (signal.ssi_signo == SIGCHLD || signal.ssi_code != SI_USER) return false;
  const SentSignal sent{.number = signal.ssi_signo, .sender = signal.ssi_pid};
  const bool asks_again = sent == last_sent_ && asks_for_end(static_cast<int>(sent.number)) &&
                          clock_.now_ns() - last_sent_ns_ < same_signal_ns;
  if (asks_again) return true;
  last_sent_ = sent;
  last_sent_ns_ = clock_.now_ns();
  return false;
}

void Launcher::take_signal(int number) {
  if (number == SIGCHLD) return agent_exited();
  if (asks_for_end(number)) {
    if (phase_ == Phase::starting) {
      return fail(fmt::format("{} came before the ranks were started", signal_name(number)), 128 + number);
    }
    // A second one means now. What is only being written out by then is not waited for either.
    if (last_signal_ != 0) {
      if (phase_ == Phase::closing) done_ = true;
      asked_again_ = true;
      if (phase_ == Phase::running) {
        fail(fmt::format("{} came again", signal_name(number)), 128 + number);
      }
      return tell_nodes(FrameKind::end, encode_number(0));
    }
    last_signal_ = number;
  }
  if (phase_ == Phase::running)
    tell_nodes(FrameKind::signal, encode_number(static_cast<std::uint32_t>(number)));
  if (number == SIGTSTP) ::kill(::getpid(), SIGSTOP);
  if (number == SIGCONT) watch_input(true);
}

int launch(const LaunchRequest& request) {
  return Launcher(request).run();
}

}  // namespace craton::job
