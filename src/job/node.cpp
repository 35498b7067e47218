#include "job/node.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "job/descendants.hpp"
#include "job/placement.hpp"
#include "job/rank_process.hpp"

namespace craton::job {

namespace {

/// How often the processes that are left are looked for while a job ends.
constexpr TimeNs look_again_ns = 50'000'000;
/// How long processes may take to vanish after SIGKILL; only one inside a stuck system call needs longer.
constexpr TimeNs kill_patience_ns = 2'000'000'000;

}  // namespace

struct Node::OutputPipe {
  UniqueFd fd;
  bool watched = false;
};

struct Node::LocalRank {
  Rank rank = 0;
  pid_t pid = -1;  ///< -1 once it has been reaped
  std::unique_ptr<Channel> control;
  std::array<OutputPipe, stream_count> outputs;
  UniqueFd input;
  std::size_t output_credit = output_window_bytes;
  bool joined = false;
  bool finalized = false;
};

Node::Node(const Clock& clock, UniqueFd from_launcher, UniqueFd to_launcher, UniqueFd input)
    : loop_(clock),
      launcher_(
          loop_, std::move(from_launcher), std::move(to_launcher), max_node_body_bytes,
          [this](const Frame& frame) { this->from_launcher(frame); },
          [this](const std::string& why) { launcher_gone(why); }),
      given_input_(std::move(input)) {
  adopt_orphans();
  // These come to all processes of a group, from a terminal or from timeout(1); it is the launcher that
  // passes them on to ranks, and that ends this process.
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE})
    std::signal(number, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // inherited as ignored, no exit could be seen
  loop_.watch_signals({SIGCHLD}, [this](const signalfd_siginfo&) { reap(); });
}

Node::~Node() = default;

int Node::run() {
  launcher_.send(FrameKind::hello,
                 NodeHello{.host = this_host_name(), .pid = static_cast<std::uint32_t>(::getpid())}.encode());
  loop_.run_until(done_);
  return 0;
}

void Node::from_launcher(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::prepare:
      return prepare(StartOrder::decode(frame.body));
    case FrameKind::go:
      return start_ranks();
    case FrameKind::output_credit: {
      const RankNumber credit = RankNumber::decode(frame.body);
      LocalRank* rank = find(credit.rank);
      if (rank == nullptr || credit.number > output_window_bytes - rank->output_credit) break;
      rank->output_credit += credit.number;
      for (const Stream stream : {Stream::out, Stream::error}) {
        watch_output(*rank, stream, true);
        if (processes_gone_) read_output(*rank, stream);
      }
      return;
    }
    case FrameKind::unread: {
      const std::uint32_t stream = decode_number(frame.body);
      if (stream >= stream_count) break;
      for (const auto& rank : ranks_) close_output(*rank, static_cast<Stream>(stream));
      return;
    }
    case FrameKind::input:
      return take_input(frame.body);
    case FrameKind::signal:
      return pass_on(static_cast<int>(decode_number(frame.body)));
    case FrameKind::end:
      return end_processes(TimeNs{decode_number(frame.body)} * 1'000'000);
    case FrameKind::look: {
      const RankNumber order = RankNumber::decode(frame.body);
      LocalRank* rank = find(order.rank);
      if (rank != nullptr && rank->joined && !rank->finalized)
        rank->control->send(FrameKind::look, encode_number(order.number));
      return;
    }
    case FrameKind::ping:
      return launcher_.send(FrameKind::pong);
    case FrameKind::exchanged:
    case FrameKind::where:
    case FrameKind::lost:
      return tell_ranks(frame.kind, frame.body);
    default:
      break;
  }
  throw Error(ErrorCode::protocol, {.asked = "cannot follow the launcher",
                                    .happened = "frame kind " + std::to_string(static_cast<int>(frame.kind)) +
                                                " has no place or a wrong value here",
                                    .limit = {},
                                    .remedy = {}});
}

void Node::prepare(const StartOrder& order) {
  order_ = order;
  StartResult result;
  if (!order.directory.empty() && ::chdir(order.directory.c_str()) != 0) {
    const Error error =
        Error::from_errno("cannot change to " + order.directory + " on host " + this_host_name(), errno, {},
                          "start craton in a directory that every host has");
    result = {.exit_code = 126, .message = error.what()};
  } else {
    result = check_program(order);
  }
  launcher_.send(FrameKind::prepared, result.encode());
}

void Node::start_ranks() {
  if (!order_ || !ranks_.empty() || ending_) return;
  for (Rank number = order_->first_rank; number < order_->first_rank + order_->rank_count; ++number) {
    RankProcess process;
    try {
      process = start_rank(*order_, number, number == 0 ? std::move(given_input_) : UniqueFd());
    } catch (const Error& error) {
      return launcher_.send(FrameKind::start_failed,
                            StartResult{.exit_code = 126, .message = error.what()}.encode());
    }
    if (process.exec_errno != 0) {
      return launcher_.send(FrameKind::start_failed, exec_failure(*order_, process.exec_errno).encode());
    }
    auto rank = std::make_unique<LocalRank>();
    LocalRank& local = *rank;
    local.rank = number;
    local.pid = process.pid;
    local.input = std::move(process.input);
    local.outputs[0].fd = std::move(process.out);
    local.outputs[1].fd = std::move(process.error);
    // A control socket that closes means nothing by itself: a program may close descriptors that it does not
    // know. Only a violation of the protocol has a text.
    local.control = std::make_unique<Channel>(
        loop_, std::move(process.control), UniqueFd(), max_rank_body_bytes,
        [this, &local](const Frame& frame) { from_rank(local, frame); },
        [this, &local](const std::string& why) {
          if (!why.empty() && local.pid > 0) rank_broke_rules(local, why);
        });
    ranks_.push_back(std::move(rank));
    launcher_.send(FrameKind::started, RankNumber{number, static_cast<std::uint32_t>(local.pid)}.encode());
    for (const Stream stream : {Stream::out, Stream::error}) watch_output(local, stream, true);
  }
}

void Node::tell_ranks(FrameKind kind, std::string_view body) {
  for (const auto& rank : ranks_) {
    if (rank->joined && !rank->finalized) rank->control->send(kind, body);
  }
}

/// A signal that was sent to `craton run`. Ranks that are one program have one handler of it, and none of
/// them but rank 0 may die of what that handles; stopping and going on concerns all.
void Node::pass_on(int number) {
  if (number == SIGTSTP || number == SIGCONT || !is_one_program(*order_)) return signal_ranks(number);
  const LocalRank* const first = find(0);
  if (first != nullptr && first->pid > 0) ::kill(-first->pid, number);
}

void Node::signal_ranks(int number) {
  for (const auto& rank : ranks_) {
    // Not reaped, so neither its pid nor its group can be somebody else's.
    if (rank->pid > 0) ::kill(-rank->pid, number);
  }
}

Node::LocalRank* Node::find(Rank rank) noexcept {
  if (!order_ || rank < order_->first_rank || rank - order_->first_rank >= ranks_.size()) return nullptr;
  return ranks_[rank - order_->first_rank].get();
}

void Node::from_rank(LocalRank& rank, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::join:
      if (rank.joined && !rank.finalized) {
        return rank_broke_rules(rank, "it called craton_init a second time (two programs in one rank?)");
      }
      rank.joined = true;
      rank.finalized = false;
      rank.control->send(FrameKind::welcome,
                         {reinterpret_cast<const char*>(order_->secret.data()), order_->secret.size()});
      return launcher_.send(FrameKind::join, encode_number(rank.rank));
    case FrameKind::exchange:
      return launcher_.send(FrameKind::exchange, RankBytes{rank.rank, frame.body}.encode());
    case FrameKind::ready:
      return launcher_.send(FrameKind::ready, encode_number(rank.rank));
    case FrameKind::finalized:
      rank.finalized = true;
      return launcher_.send(FrameKind::finalized, encode_number(rank.rank));
    case FrameKind::activity: {
      RankActivity activity = RankActivity::decode(frame.body);
      activity.rank = rank.rank;
      return launcher_.send(FrameKind::activity, activity.encode());
    }
    case FrameKind::seen: {
      RankLook seen = RankLook::decode(frame.body);
      seen.rank = rank.rank;
      return launcher_.send(FrameKind::seen, seen.encode());
    }
    case FrameKind::ended:
      return launcher_.send(FrameKind::ended, RankNumber{rank.rank, decode_number(frame.body)}.encode());
    case FrameKind::peer_lost:
      return launcher_.send(FrameKind::peer_lost, RankNumber{rank.rank, decode_number(frame.body)}.encode());
    default:
      return rank_broke_rules(rank,
                              "it sent a frame of kind " + std::to_string(static_cast<int>(frame.kind)));
  }
}

void Node::rank_broke_rules(LocalRank& rank, const std::string& what) {
  launcher_.send(FrameKind::fault, RankBytes{rank.rank, what}.encode());
}

void Node::watch_output(LocalRank& rank, Stream stream, bool wanted) {
  OutputPipe& pipe = rank.outputs[static_cast<std::size_t>(stream)];
  if (!pipe.fd || pipe.watched == wanted) return;
  pipe.watched = wanted;
  if (!wanted) return loop_.unwatch(pipe.fd.get());
  loop_.watch(pipe.fd.get(), EPOLLIN, [this, &rank, stream](std::uint32_t) { read_output(rank, stream); });
}

void Node::read_output(LocalRank& rank, Stream stream) {
  OutputPipe& pipe = rank.outputs[static_cast<std::size_t>(stream)];
  std::array<char, 16 * 1024> buffer;
  while (pipe.fd) {
    const std::size_t room = std::min(buffer.size(), rank.output_credit);
    if (room == 0) return watch_output(rank, stream, false);
    const ssize_t count = ::read(pipe.fd.get(), buffer.data(), room);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      rank.output_credit -= static_cast<std::size_t>(count);
      launcher_.send(
          FrameKind::output,
          RankOutput{rank.rank, stream, {buffer.data(), static_cast<std::size_t>(count)}}.encode());
    } else if (count < 0 && errno == EAGAIN && !processes_gone_) {
      return;
    } else {
      // Its end; or with no process left, nobody of this job can write to it any more.
      close_output(rank, stream);
    }
  }
}

void Node::close_output(LocalRank& rank, Stream stream) {
  if (!rank.outputs[static_cast<std::size_t>(stream)].fd) return;
  watch_output(rank, stream, false);
  rank.outputs[static_cast<std::size_t>(stream)].fd.reset();
  launcher_.send(FrameKind::output_closed, RankOutput{rank.rank, stream, {}}.encode());
  finish_when_all_is_said();
}

void Node::take_input(std::string_view bytes) {
  if (bytes.empty()) input_ended_ = true;
  input_ += bytes;
  write_input();
}

void Node::write_input() {
  LocalRank* reader = find(0);
  if (reader == nullptr || !reader->input) return input_.clear();
  std::size_t written = 0;
  while (written < input_.size()) {
    const ssize_t count = ::write(reader->input.get(), input_.data() + written, input_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return close_input();
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  input_.erase(0, written);
  if (written != 0)
    launcher_.send(FrameKind::input_credit, encode_number(static_cast<std::uint32_t>(written)));
  if (input_.empty() && input_ended_) return close_input();
  const bool wait = !input_.empty();
  if (wait == input_waits_) return;
  input_waits_ = wait;
  if (wait) {
    loop_.watch(reader->input.get(), EPOLLOUT, [this](std::uint32_t) { write_input(); });
  } else {
    loop_.unwatch(reader->input.get());
  }
}

void Node::close_input() {
  LocalRank* reader = find(0);
  if (reader == nullptr || !reader->input) return;
  loop_.unwatch(reader->input.get());
  input_waits_ = false;
  reader->input.reset();
  input_.clear();
  launcher_.send(FrameKind::input_closed);
}

void Node::reap() {
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid <= 0) break;
    for (const auto& rank : ranks_) {
      if (rank->pid == pid) rank_exited(*rank, wait_status);
    }
  }
  if (ending_) check_ended();
}

void Node::rank_exited(LocalRank& rank, int wait_status) {
  rank.pid = -1;
  // First what it said and wrote before: the launcher judges its end by that.
  if (rank.control->is_open()) rank.control->receive_available();
  rank.control->close();
  if (rank.rank == 0) close_input();
  for (const Stream stream : {Stream::out, Stream::error}) read_output(rank, stream);
  launcher_.send(FrameKind::exited,
                 RankExit{rank.rank, wait_status, rank.joined && !rank.finalized}.encode());
}

void Node::launcher_gone(const std::string& why) {
  if (!why.empty()) {
    const std::string line = "craton: node daemon on host " + this_host_name() + ": " + why + "\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());  // best effort
  }
  ending_ = true;
  kill_processes();
  finish_when_all_is_said();
}

void Node::end_processes(TimeNs grace_ns) {
  if (killing_) return;
  if (grace_ns == 0) {
    ending_ = true;
    return kill_processes();
  }
  if (ending_) return;
  ending_ = true;
  signal_ranks(SIGTERM);
  signal_ranks(SIGCONT);  // a stopped process cannot end in order
  // Those that have left their rank's group: each by itself.
  for (const pid_t pid : live_descendants()) {
    const pid_t group = ::getpgid(pid);
    const bool reached =
        std::any_of(ranks_.begin(), ranks_.end(), [group](const auto& rank) { return rank->pid == group; });
    if (!reached) ::kill(pid, SIGTERM);
  }
  loop_.start_timer(grace_ns, [this] { kill_processes(); });
  check_ended();
}

void Node::kill_processes() {
  if (processes_gone_ || killing_) return;
  killing_ = true;
  give_up_ns_ = loop_.clock().now_ns() + kill_patience_ns;
  check_ended();
}

void Node::check_ended() {
  if (processes_gone_) return;
  const std::vector<pid_t> left = live_descendants();
  std::string complaint;
  if (!left.empty()) {
    if (!killing_) return;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    if (loop_.clock().now_ns() < give_up_ns_) {
      // What they fork before they die is found by looking again.
      if (!std::exchange(looks_again_, true)) {
        loop_.start_timer(look_again_ns, [this] {
          looks_again_ = false;
          check_ended();
        });
      }
      return;
    }
    complaint = "process " + std::to_string(left.front()) + " on host " + this_host_name() +
                " does not die of SIGKILL";
  }
  processes_gone_ = true;
  reap();  // the last ones, so that the launcher hears of every rank before the end
  launcher_.send(FrameKind::bye, complaint);
  for (const auto& rank : ranks_) {
    for (const Stream stream : {Stream::out, Stream::error}) read_output(*rank, stream);
  }
  finish_when_all_is_said();
}

void Node::finish_when_all_is_said() {
  if (!processes_gone_) return;
  const bool open = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return std::any_of(rank->outputs.begin(), rank->outputs.end(),
                       [](const OutputPipe& pipe) { return static_cast<bool>(pipe.fd); });
  });
  if (!launcher_.is_open()) {
    done_ = true;  // nobody to say it to
  } else if (!open) {
    launcher_.finish_sending([this] { done_ = true; });
  }
}

}  // namespace craton::job
