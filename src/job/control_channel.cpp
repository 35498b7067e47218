#include "job/control_channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/events.hpp"

namespace craton::job {

namespace {

/// Sleeps until a socket is ready or the deadline passes. \returns false at the deadline
bool wait_ready(const Clock& clock, int fd, short events, TimeNs deadline_ns) {
  for (;;) {
    const TimeNs left_ns = deadline_ns - clock.now_ns();
    if (left_ns <= 0) return false;
    pollfd ready{fd, events, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(std::min<TimeNs>(left_ns / 1'000'000 + 1, 60'000)));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw Error::from_errno("cannot wait for the launcher", errno);
  }
}

[[noreturn]] void end_without_launcher(Rank rank) {
  const std::string line = "craton: rank " + std::to_string(rank) + ": the launcher has gone, ending\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());  // best effort
  ::_exit(launcher_gone_exit_code);
}

}  // namespace

void ControlChannel::fail(ErrorCode code, const std::string& happened) const {
  throw Error(code, {.asked = "cannot join the job as rank " + std::to_string(rank_),
                     .happened = happened,
                     .limit = {},
                     .remedy = {}});
}

ControlChannel::ControlChannel(const Clock& clock, UniqueFd socket, Rank rank, Rank size, TimeNs timeout_ns)
    : clock_(clock),
      socket_(std::move(socket)),
      rank_(rank),
      size_(size),
      timeout_ns_(timeout_ns),
      reader_(max_rank_body_bytes) {
  // Not for children of system(): they are no ranks.
  if (::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC) != 0) throw Error::from_errno("cannot join the job", errno);
  send(FrameKind::join, {});
  const Frame welcome = receive(FrameKind::welcome, clock_.now_ns() + timeout_ns_);
  if (welcome.body.size() != secret_.size())
    fail(ErrorCode::protocol, "the node sent a secret of the wrong length");
  std::copy(welcome.body.begin(), welcome.body.end(), secret_.begin());
}

void ControlChannel::send(FrameKind kind, std::string_view body) {
  std::string wire;
  append_frame(wire, kind, body);
  const std::lock_guard lock(send_lock_);
  const TimeNs deadline_ns = clock_.now_ns() + timeout_ns_;
  for (std::size_t sent = 0; sent < wire.size();) {
    const ssize_t count =
        ::send(socket_.get(), wire.data() + sent, wire.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      if (!wait_ready(clock_, socket_.get(), POLLOUT, deadline_ns))
        fail(ErrorCode::timed_out, "the node does not read");
    } else if (errno != EINTR) {
      fail(ErrorCode::peer_lost, "the node has gone: " + std::generic_category().message(errno));
    }
  }
}

bool ControlChannel::send_at_once(FrameKind kind, std::string_view body) noexcept {
  std::string wire;
  append_frame(wire, kind, body);
  // A blocked sender holds the lock only while the socket is full, and then this frame would not fit either.
  const std::unique_lock lock(send_lock_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  // A stream socket takes a frame of a few bytes whole or not at all.
  return ::send(socket_.get(), wire.data(), wire.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(wire.size());
}

void ControlChannel::report_peer_lost(Rank peer) noexcept {
  send_at_once(FrameKind::peer_lost, encode_number(peer));
}

/// Reads what is there. \returns false at the end of the channel
bool ControlChannel::fill_reader() {
  std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count == 0) return false;
    if (count > 0) {
      reader_.add(buffer.data(), static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
}

Frame ControlChannel::receive(FrameKind wanted, TimeNs deadline_ns) {
  for (;;) {
    while (std::optional<Frame> frame = reader_.next()) {
      if (frame->kind == wanted) return std::move(*frame);
      if (frame->kind == FrameKind::lost) {
        fail(ErrorCode::peer_lost, "rank " + std::to_string(decode_number(frame->body)) + " has died");
      }
      // Whoever asks where we are knows that we are in craton_init; anything else has no place here.
      if (frame->kind != FrameKind::where) fail(ErrorCode::protocol, "the node sent something else");
    }
    if (!wait_ready(clock_, socket_.get(), POLLIN, deadline_ns)) {
      fail(ErrorCode::timed_out, "not every rank has called craton_init within " +
                                     std::to_string(timeout_ns_ / 1'000'000) + " ms (--connect-timeout)");
    }
    if (!fill_reader()) end_without_launcher(rank_);
  }
}

std::vector<std::string> ControlChannel::exchange(const std::string& mine) {
  if (mine.size() > max_exchange_bytes) {
    fail(ErrorCode::invalid_argument, "an exchange of " + std::to_string(mine.size()) +
                                          " bytes is over the limit of " +
                                          std::to_string(max_exchange_bytes));
  }
  send(FrameKind::exchange, mine);
  std::vector<std::string> parts(size_);
  const TimeNs deadline_ns = clock_.now_ns() + timeout_ns_;
  for (Rank source = 0; source < size_; ++source) {
    const Frame frame = receive(FrameKind::exchanged, deadline_ns);
    const RankBytes part = RankBytes::decode(frame.body);
    if (part.rank != source) fail(ErrorCode::protocol, "the parts of an exchange came out of order");
    parts[source] = part.bytes;
  }
  return parts;
}

bool ControlChannel::serve(const Handlers& handlers) {
  const bool open = fill_reader();
  while (const std::optional<Frame> frame = reader_.next()) {
    if (frame->kind == FrameKind::where) {
      send_at_once(FrameKind::activity, handlers.activity().encode());
    } else if (frame->kind == FrameKind::look) {
      const bool wanted = decode_number(frame->body) != 0;
      events::watch(wanted);
      if (wanted) send_at_once(FrameKind::seen, handlers.look().encode());
    } else if (frame->kind == FrameKind::lost) {
      const Rank lost = decode_number(frame->body);
      if (lost < size_ && lost != rank_) handlers.lost(lost);
    }
  }
  if (!open) end_without_launcher(rank_);
  return true;
}

}  // namespace craton::job
