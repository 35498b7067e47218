#include "job/watch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/unix_socket.hpp"

namespace craton::job {

namespace {

constexpr std::string_view name_begin = "craton-job-";
/// How long a launcher may take to answer.
constexpr int answer_ms = 5'000;
constexpr const char* no_answer = "its launcher does not answer (is it stopped?)";

/// Nobody can take the name before: its end is random.
UniqueFd listen_for_watchers() {
  std::uint64_t end = 0;
  if (::getrandom(&end, sizeof end, 0) != static_cast<ssize_t>(sizeof end)) return {};
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address(fmt::format("{}{}-{:016x}", name_begin, ::getpid(), end));
  if (!listener || ::bind(listener.get(), address.get(), address.bytes()) != 0 ||
      ::listen(listener.get(), static_cast<int>(Watchers::watchers_most)) != 0)
    return {};
  return listener;
}

/// \returns nothing, and EAGAIN in errno where its listener has a full queue: one that is stopped, or that
/// never accepts because it belongs to somebody who only took the name
UniqueFd connect_to(const std::string& name) {
  // Blocking, it would wait for as long as that listener likes.
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const AbstractAddress address(name);
  if (!socket || ::connect(socket.get(), address.get(), address.bytes()) != 0) return {};
  if (is_same_user(socket.get()) && ::fcntl(socket.get(), F_SETFL, 0) == 0) return socket;
  errno = EACCES;
  return {};
}

/// The listening sockets that have the name of a launcher's, whoever made them.
std::multimap<pid_t, std::string> named_launchers() {
  std::multimap<pid_t, std::string> launchers;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const std::size_t at = line.rfind(" @");
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + 2);
    if (!name.starts_with(name_begin) || name.size() > AbstractAddress::name_bytes_most) continue;
    pid_t pid = 0;
    const char* const digits = name.data() + name_begin.size();
    const auto [end, error] = std::from_chars(digits, name.data() + name.size(), pid);
    // Connections that were accepted have the name of their listener as well.
    const bool is_new = std::none_of(launchers.begin(), launchers.end(),
                                     [&](const auto& other) { return other.second == name; });
    if (error == std::errc{} && *end == '-' && pid > 0 && is_new) launchers.emplace(pid, name);
  }
  return launchers;
}

}  // namespace

struct Watchers::Watcher {
  std::unique_ptr<Channel> channel;
  bool is_told = true;  ///< the last answer has left
};

Watchers::Watchers(EventLoop& loop, std::function<JobLook()> told, std::function<void(bool)> look)
    : loop_(loop), told_(std::move(told)), look_(std::move(look)), listener_(listen_for_watchers()) {
  if (listener_) loop_.watch(listener_.get(), EPOLLIN, [this](std::uint32_t) { accept(); });
}

Watchers::~Watchers() {
  if (listener_) loop_.unwatch(listener_.get());
}

void Watchers::accept() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket || !is_same_user(socket.get()) || watchers_.size() == watchers_most) return;
  Watcher& watcher = *watchers_.emplace_back(std::make_unique<Watcher>());
  watcher.channel = std::make_unique<Channel>(
      loop_, std::move(socket), UniqueFd(), 0,
      [this, &watcher](const Frame& frame) { answer(watcher, frame); }, [](const std::string& /*why*/) {});
  if (watchers_.size() == 1) look_again();
}

void Watchers::answer(Watcher& watcher, const Frame& frame) {
  // Who asks and does not read would fill this process's memory.
  if (frame.kind != FrameKind::watch || !watcher.is_told) return watcher.channel->close();
  watcher.is_told = false;
  watcher.channel->send(FrameKind::job_seen, told_().encode());
  watcher.channel->finish_sending([&watcher] { watcher.is_told = true; });
}

void Watchers::look_again() {
  std::erase_if(watchers_, [](const auto& watcher) { return !watcher->channel->is_open(); });
  const bool wanted = !watchers_.empty();
  look_(wanted);
  if (wanted) loop_.start_timer(look_again_ns, [this] { look_again(); });
}

std::vector<pid_t> WatchedJob::running() {
  std::vector<pid_t> launchers;
  for (const auto& [pid, name] : named_launchers()) {
    if (connect_to(name) && (launchers.empty() || launchers.back() != pid)) launchers.push_back(pid);
  }
  return launchers;
}

WatchedJob::WatchedJob(pid_t launcher) : launcher_(launcher) {
  const auto named = named_launchers();
  bool is_mute = false;
  for (auto [each, end] = named.equal_range(launcher); each != end && !socket_; ++each) {
    socket_ = connect_to(each->second);
    is_mute = is_mute || (!socket_ && errno == EAGAIN);
  }
  if (socket_) return;
  if (is_mute) fail(ErrorCode::timed_out, no_answer);
  throw Error(ErrorCode::not_found, {.asked = fmt::format("cannot watch job {}", launcher),
                                     .happened = "this user has no such job on this host",
                                     .limit = {},
                                     .remedy = "a job has the pid of its craton run; craton top lists them"});
}

void WatchedJob::fail(ErrorCode code, const char* happened) const {
  throw Error(code, {.asked = fmt::format("cannot watch job {}", launcher_),
                     .happened = happened,
                     .limit = {},
                     .remedy = {}});
}

JobLook WatchedJob::look() {
  std::string wire;
  append_frame(wire, FrameKind::watch, {});
  // A few bytes, and the launcher has read those before.
  if (::send(socket_.get(), wire.data(), wire.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(wire.size()))
    fail(ErrorCode::peer_lost, "it has ended");
  for (;;) {
    if (const std::optional<Frame> frame = reader_.next()) {
      if (frame->kind != FrameKind::job_seen) fail(ErrorCode::protocol, "its launcher sent something else");
      return JobLook::decode(frame->body);
    }
    pollfd ready{socket_.get(), POLLIN, 0};
    const int count = ::poll(&ready, 1, answer_ms);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(ErrorCode::timed_out, no_answer);
    std::array<char, 16 * 1024> buffer;
    const ssize_t bytes = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) fail(ErrorCode::peer_lost, "it has ended");
    reader_.add(buffer.data(), static_cast<std::size_t>(bytes));
  }
}

bool WatchedJob::runs_for(TimeNs duration_ns) {
  const SteadyClock clock;
  const TimeNs end_ns = clock.now_ns() + duration_ns;
  for (TimeNs left_ns = duration_ns; left_ns > 0; left_ns = end_ns - clock.now_ns()) {
    // Nothing comes unasked, so what is readable is the end.
    pollfd ready{socket_.get(), POLLIN, 0};
    const TimeNs left_ms = (left_ns + 999'999) / 1'000'000;
    if (::poll(&ready, 1, static_cast<int>(std::min<TimeNs>(left_ms, 1'000'000))) > 0) return false;
  }
  return true;
}

}  // namespace craton::job
