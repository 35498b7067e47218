#include "job/channel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace craton::job {

namespace {

void set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw Error::from_errno("cannot set up a control channel", errno);
  }
}

/// Readable text of the start of something that is no frame.
std::string excerpt(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes.substr(0, 60)) text.push_back(byte >= ' ' && byte <= '~' ? byte : '.');
  return text;
}

}  // namespace

Channel::Channel(EventLoop& loop, UniqueFd in, UniqueFd out, std::size_t max_body_bytes, Received received,
                 Closed closed)
    : loop_(loop),
      in_(std::move(in)),
      out_(std::move(out)),
      reader_(max_body_bytes),
      received_(std::move(received)),
      closed_(std::move(closed)) {
  set_nonblocking(in_.get());
  if (out_) set_nonblocking(out_.get());
  loop_.watch(in_.get(), EPOLLIN, [this](std::uint32_t events) {
    if ((events & EPOLLOUT) != 0) write_queue();
    if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive_available();
  });
}

Channel::~Channel() {
  close();
}

void Channel::close() noexcept {
  if (in_) loop_.unwatch(in_.get());
  if (out_) loop_.unwatch(out_.get());
  in_.reset();
  out_.reset();
  queue_.clear();
  sent_ = 0;
  waits_to_write_ = false;
}

void Channel::fail(const std::string& why) {
  close();
  closed_(why);
}

void Channel::send(FrameKind kind, std::string_view body) {
  if (!is_open() || write_broken_) return;
  append_frame(queue_, kind, body);
  if (!waits_to_write_) write_queue();
}

void Channel::write_queue() {
  while (is_open() && sent_ < queue_.size()) {
    const ssize_t written = ::write(out_fd(), queue_.data() + sent_, queue_.size() - sent_);
    if (written > 0) {
      sent_ += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      // Forget what is written now and then, so that a slow reader does not make the queue grow for ever.
      if (sent_ >= (1U << 20U)) queue_.erase(0, std::exchange(sent_, 0));
      return want_to_write(true);
    } else if (errno != EINTR) {
      write_broken_ = true;
      break;
    }
  }
  queue_.clear();
  sent_ = 0;
  want_to_write(false);
  if (all_sent_) std::exchange(all_sent_, {})();
}

void Channel::finish_sending(std::function<void()> sent) {
  all_sent_ = std::move(sent);
  if (!waits_to_write_) std::exchange(all_sent_, {})();
}

void Channel::want_to_write(bool wanted) {
  if (wanted == waits_to_write_ || !is_open()) return;
  waits_to_write_ = wanted;
  if (!out_) {
    loop_.set_events(in_.get(), wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
  } else if (wanted) {
    loop_.watch(out_.get(), EPOLLOUT, [this](std::uint32_t) { write_queue(); });
  } else {
    loop_.unwatch(out_.get());
  }
}

void Channel::receive_available() {
  std::array<char, 16 * 1024> buffer;
  // Bounded, so that one busy channel does not keep the others waiting.
  for (int turn = 0; turn < 16 && is_open(); ++turn) {
    const ssize_t count = ::read(in_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    // Who is killed leaves frames unread, which resets the connection, or half written. Neither breaks a
    // rule.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return fail("");
    if (count < 0) return fail(std::generic_category().message(errno));
    reader_.add(buffer.data(), static_cast<std::size_t>(count));
    try {
      while (is_open()) {
        const std::optional<Frame> frame = reader_.next();
        if (!frame) break;
        received_(*frame);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::protocol) throw;
      return fail(std::string(error.what()) + ", it begins with \"" + excerpt(reader_.rest()) + "\"");
    }
  }
}

}  // namespace craton::job
