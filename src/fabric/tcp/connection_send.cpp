/// \file
/// The sending side of a connection: frames go to the kernel at once, or wait in the queue; on a link with
/// injected delay they wait until they are due. All but writable() and release_due() are called under the
/// connection's lock.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "fabric/tcp/connection.hpp"

namespace craton::fabric::tcp {

namespace {

/// Payloads up to this are sent from one buffer with their header.
constexpr std::size_t joined_bytes = 512;
/// Payloads up to this are copied into the send queue rather than borrowed.
constexpr std::size_t copied_bytes = 4096;
/// From this many operations in flight on, small requests are gathered.
constexpr std::uint32_t gather_from_operations = 8;
/// And sent when this much has been gathered.
constexpr std::size_t gathered_bytes = 32 * 1024;

bool is_answer(FrameKind kind) noexcept {
  return kind == FrameKind::done || kind == FrameKind::data || kind == FrameKind::value;
}

std::span<const std::byte> as_bytes_of(const FrameHeader& header) {
  return {reinterpret_cast<const std::byte*>(&header), sizeof header};
}

}  // namespace

void Connection::transmit(const FrameHeader& header, std::span<const std::byte> payload, bool may_borrow) {
  CRATON_ASSERT_SLOW(malformation(header) == nullptr);
  if (shared_.link.active()) return delay(header, payload);
  const bool gather =
      batching_ || (corked_ && (shared_.gather || is_answer(header.kind))) ||
      (shared_.gather && (in_flight_.load(std::memory_order_relaxed) > gather_from_operations ||
                          (!is_answer(header.kind) && Batch::holds(*this))));
  if (queue_.empty() && !gather && !broken_) {
    const std::span<const std::byte> head = as_bytes_of(header);
    ssize_t result = 0;
    if (payload.size() <= joined_bytes) {  // the kernel takes one piece faster than two
      std::array<std::byte, sizeof(FrameHeader) + joined_bytes> frame;
      std::memcpy(frame.data(), head.data(), head.size());
      if (!payload.empty()) std::memcpy(frame.data() + head.size(), payload.data(), payload.size());
      result = ::send(socket_.get(), frame.data(), head.size() + payload.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else {
      std::array<iovec, 2> pieces{
          iovec{.iov_base = const_cast<std::byte*>(head.data()), .iov_len = head.size()},
          iovec{.iov_base = const_cast<std::byte*>(payload.data()), .iov_len = payload.size()}};
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = pieces.size();
      result = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (result < 0 && errno != EINTR) judge_failed_send(errno);
    const auto sent = static_cast<std::size_t>(std::max<ssize_t>(result, 0));
    if (sent == head.size() + payload.size()) return;
    if (sent < head.size()) queue_.copy(head.subspan(sent));
    payload = payload.subspan(sent > head.size() ? sent - head.size() : 0);
    if (may_borrow) {
      queue_.borrow(payload);
    } else {
      queue_.copy(payload);
    }
    want_writable(true);
    return;
  }
  queue_.copy(as_bytes_of(header));
  if (may_borrow && payload.size() > copied_bytes) {
    queue_.borrow(payload);
  } else {
    queue_.copy(payload);
  }
  if (!gather || queue_.queued_bytes() >= gathered_bytes) flush_queue();
}

/// A batch has ended. Who serves arrivals flushes anyway.
void Connection::send_held() noexcept {
  const std::lock_guard lock(lock_);
  if (!corked_ && !queue_.empty()) flush_queue();
}

void Connection::flush_queue() {
  while (!queue_.empty() && !broken_) {
    std::array<iovec, SendQueue::max_pieces> pieces{};
    msghdr message{};
    message.msg_iovlen = queue_.front(pieces);
    message.msg_iov = pieces.data();
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      judge_failed_send(errno);
      break;
    }
    queue_.consume(static_cast<std::size_t>(sent));
  }
  want_writable(!queue_.empty() && !broken_);
  // Whoever sends may be the one that makes room, and then nothing arrives that would wake those who wait for
  // it.
  if (refused_ && queue_.queued_bytes() <= busy_queue_bytes) {
    refused_ = false;
    shared_.events.room_made();
  }
}

/// What is short now, the socket's room or the kernel's memory, comes again: what was not sent is tried again
/// as soon as the socket is writable. After anything else nothing can be sent any more.
void Connection::judge_failed_send(int errno_value) {
  if (errno_value == EAGAIN || errno_value == ENOBUFS || errno_value == ENOMEM) return;
  broken_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);  // receiving ends the connection, after what has arrived
}

void Connection::want_writable(bool want) {
  if (want == wants_writable_ || !socket_) return;
  epoll_event event{};
  event.events = EPOLLIN | (want ? EPOLLOUT : 0U);
  event.data.ptr = this;
  if (::epoll_ctl(shared_.epoll_fd, EPOLL_CTL_MOD, socket_.get(), &event) == 0) wants_writable_ = want;
}

void Connection::delay(const FrameHeader& header, std::span<const std::byte> payload) {
  const std::span<const std::byte> head = as_bytes_of(header);
  Delayed frame;
  frame.bytes.reserve(head.size() + payload.size());
  frame.bytes.insert(frame.bytes.end(), head.begin(), head.end());
  frame.bytes.insert(frame.bytes.end(), payload.begin(), payload.end());
  link_free_ns_ = std::max(link_free_ns_, shared_.clock.now_ns());
  if (shared_.link.bytes_per_second != 0) {
    link_free_ns_ += static_cast<TimeNs>(static_cast<double>(frame.bytes.size()) * 1e9 /
                                         static_cast<double>(shared_.link.bytes_per_second));
  }
  frame.due_ns = link_free_ns_ + shared_.link.delay_ns;
  if (delayed_.empty()) expire_at(frame.due_ns);
  delayed_.push_back(std::move(frame));
}

/// The timer is shared with other connections, whose frames may be due earlier: it is only ever brought
/// forward. Each expiry looks at all connections, and each of them sets it again.
void Connection::expire_at(TimeNs due_ns) {
  itimerspec current{};
  ::timerfd_gettime(shared_.timer_fd, &current);
  const TimeNs left_ns =
      static_cast<TimeNs>(current.it_value.tv_sec) * 1'000'000'000 + current.it_value.tv_nsec;
  if (left_ns != 0 && shared_.clock.now_ns() + left_ns <= due_ns) return;
  const itimerspec when{.it_interval = {}, .it_value = timespec_of(due_ns)};
  ::timerfd_settime(shared_.timer_fd, TFD_TIMER_ABSTIME, &when, nullptr);
}

bool Connection::release_due() {
  const std::lock_guard lock(lock_);
  if (delayed_.empty()) return false;
  const TimeNs now_ns = shared_.clock.now_ns();
  bool released = false;
  while (!delayed_.empty() && delayed_.front().due_ns <= now_ns) {
    queue_.copy(delayed_.front().bytes);
    delayed_.pop_front();
    released = true;
  }
  if (released) flush_queue();
  if (!delayed_.empty()) expire_at(delayed_.front().due_ns);
  return released;
}

void Connection::writable() {
  const std::lock_guard lock(lock_);
  if (state() == State::connecting) {
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) {
      broken_ = true;
      cause_ = fmt::format("cannot connect to {}: {}", remote_, std::generic_category().message(error));
      return;  // receive() ends it
    }
    queue_.copy(handshake_.take_output());
    state_.store(State::greeting, std::memory_order_release);
  }
  flush_queue();
}

}  // namespace craton::fabric::tcp
