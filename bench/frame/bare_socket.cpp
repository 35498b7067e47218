#include "frame/bare_socket.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "frame/measure.hpp"

namespace craton::bench {
namespace {

using Kind = BareRequest::Kind;

constexpr std::size_t message_buffer_bytes = 64 * 1024;

[[noreturn]] void fail(const char* asked) {
  throw Error::from_errno(asked, errno);
}

UniqueFd tcp_socket() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) fail("cannot make a socket");
  return fd;
}

void send_at_once(const UniqueFd& fd) {
  const int on = 1;
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) fail("cannot set TCP_NODELAY");
}

[[noreturn]] void broken_off() {
  throw Error(ErrorCode::peer_lost, {"cannot go on with the bare socket", "the other end is closed", "", ""});
}

/// Receives what there is, at least a byte: non-blocking for bare_spin_ns, then blocking. \returns 0 at the
/// end
std::size_t receive_some(int fd, void* to, std::size_t bytes) {
  TimeNs spin_until = 0;
  for (;;) {
    const bool block = spin_until != 0 && now_ns() >= spin_until;
    const ssize_t got = ::recv(fd, to, bytes, block ? 0 : MSG_DONTWAIT);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EAGAIN) {
      if (spin_until == 0) spin_until = now_ns() + bare_spin_ns;
    } else if (errno != EINTR) {
      fail("cannot receive on the bare socket");
    }
  }
}

}  // namespace

TcpPair::TcpPair() {
  const UniqueFd listener = tcp_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.get(), generic, length) != 0) fail("cannot bind to 127.0.0.1");
  if (::listen(listener.get(), 1) != 0) fail("cannot listen on 127.0.0.1");
  if (::getsockname(listener.get(), generic, &length) != 0) fail("cannot see the port of a socket");
  // The kernel completes the handshake on the listener's behalf, so one thread can do both sides.
  ends_[0] = tcp_socket();
  if (::connect(ends_[0].get(), generic, length) != 0) fail("cannot connect to 127.0.0.1");
  ends_[1].reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!ends_[1]) fail("cannot accept a connection");
  for (const UniqueFd& end : ends_) send_at_once(end);
}

UniqueFd TcpPair::keep(unsigned rank) noexcept {
  ends_[1 - rank].reset();
  return std::move(ends_[rank]);
}

bool receive_all(int fd, void* to, std::size_t bytes) {
  char* next = static_cast<char*>(to);
  std::size_t held = 0;
  while (held != bytes) {
    const std::size_t got = receive_some(fd, next + held, bytes - held);
    if (got == 0 && held == 0) return false;
    if (got == 0) broken_off();
    held += got;
  }
  return true;
}

void send_all(int fd, const void* from, std::size_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes != 0) {
    const ssize_t sent = ::send(fd, next, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) fail("cannot send on the bare socket");
    next += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

void send_both(int fd, const void* head, std::size_t head_bytes, const void* body, std::size_t body_bytes) {
  iovec pieces[2] = {{const_cast<void*>(head), head_bytes}, {const_cast<void*>(body), body_bytes}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  ssize_t sent = 0;
  do sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) fail("cannot send on the bare socket");
  const auto done = static_cast<std::size_t>(sent);
  if (done < head_bytes) send_all(fd, static_cast<const char*>(head) + done, head_bytes - done);
  const std::size_t body_done = done < head_bytes ? 0 : done - head_bytes;
  send_all(fd, static_cast<const char*>(body) + body_done, body_bytes - body_done);
}

BareSocket::BareSocket(UniqueFd fd) : fd_(std::move(fd)) {}

BareSocket::~BareSocket() {
  const BareRequest request{Kind::quit, 1, 0, 1, 0};
  // If the server is gone there is nobody to tell.
  static_cast<void>(::send(fd_.get(), &request, sizeof request, MSG_NOSIGNAL));
}

void BareSocket::get(void* destination, std::size_t bytes) {
  const BareRequest request{Kind::get, 1, bytes, 1, 0};
  send_all(fd_.get(), &request, sizeof request);
  if (!receive_all(fd_.get(), destination, bytes)) broken_off();
}

void BareSocket::put(const void* source, std::size_t bytes) {
  const BareRequest request{Kind::put, 1, bytes, 1, 0};
  send_both(fd_.get(), &request, sizeof request, source, bytes);
  std::uint64_t answer = 0;
  if (!receive_all(fd_.get(), &answer, sizeof answer)) broken_off();
}

std::uint64_t BareSocket::fetch_add() {
  const BareRequest request{Kind::fetch_add, 1, 8, 1, 0};
  send_all(fd_.get(), &request, sizeof request);
  std::uint64_t previous = 0;
  if (!receive_all(fd_.get(), &previous, sizeof previous)) broken_off();
  return previous;
}

void BareSocket::stream_put(const void* source, std::size_t bytes, std::uint32_t window,
                            std::uint64_t count) {
  const BareRequest request{Kind::stream_in, window, bytes, count, 0};
  send_all(fd_.get(), &request, sizeof request);
  for (std::uint64_t i = 0; i < count; ++i)
    send_all(fd_.get(), static_cast<const std::byte*>(source) + i % window * bytes, bytes);
  std::uint64_t answer = 0;
  if (!receive_all(fd_.get(), &answer, sizeof answer)) broken_off();
}

void BareSocket::stream_get(void* destination, std::size_t bytes, std::uint32_t window, std::uint64_t count) {
  const BareRequest request{Kind::stream_out, window, bytes, count, 0};
  send_all(fd_.get(), &request, sizeof request);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!receive_all(fd_.get(), static_cast<std::byte*>(destination) + i % window * bytes, bytes))
      broken_off();
  }
}

BareServer::BareServer(UniqueFd fd, std::byte* memory, std::size_t memory_bytes)
    : fd_(std::move(fd)), memory_(memory), memory_bytes_(memory_bytes), thread_([this] {
        try {
          serve();
        } catch (const std::exception& error) {
          // Nothing can be measured any more; the parent sees the exit code and ends the other rank.
          std::fprintf(stderr, "bare server: %s\n", error.what());
          std::_Exit(1);
        }
      }) {}

BareServer::~BareServer() {
  thread_.join();
}

void BareServer::serve() {
  BareRequest request{};
  while (receive_all(fd_.get(), &request, sizeof request)) {
    // A mistake in a kernel must end it, not write past the memory of the target.
    const bool in_memory = request.kind != Kind::messages && request.kind != Kind::quit;
    const std::size_t most_bytes = in_memory ? memory_bytes_ : message_buffer_bytes;
    if (request.window == 0 || request.bytes > most_bytes / request.window ||
        (request.kind == Kind::messages && request.bytes == 0)) {
      throw Error(ErrorCode::invalid_argument,
                  {"cannot serve a bare request",
                   fmt::format("it asks for {} x {} bytes of {}", request.window, request.bytes, most_bytes),
                   "", ""});
    }
    const std::uint64_t done = 0;
    switch (request.kind) {
      case Kind::get:
        send_all(fd_.get(), memory_, request.bytes);
        break;
      case Kind::fetch_add: {
        const std::uint64_t previous =
            std::atomic_ref(*reinterpret_cast<std::uint64_t*>(memory_)).fetch_add(1);
        send_all(fd_.get(), &previous, sizeof previous);
        break;
      }
      case Kind::put:
      case Kind::stream_in:
        for (std::uint64_t i = 0; i < request.count; ++i) {
          if (!receive_all(fd_.get(), memory_ + i % request.window * request.bytes, request.bytes))
            broken_off();
        }
        send_all(fd_.get(), &done, sizeof done);
        break;
      case Kind::stream_out:
        for (std::uint64_t i = 0; i < request.count; ++i) {
          send_all(fd_.get(), memory_ + i % request.window * request.bytes, request.bytes);
        }
        break;
      case Kind::messages:
        serve_messages(request.bytes);
        break;
      case Kind::quit:
        return;
    }
  }
}

void BareServer::serve_messages(std::size_t frame_bytes) {
  // Received in bulk, as many frames as there are: one system call a frame would make the baseline slow.
  std::vector<char> buffer(message_buffer_bytes / frame_bytes * frame_bytes);
  std::size_t held = 0;
  std::uint64_t frames = 0;
  for (bool last = false; !last;) {
    held += receive_some(fd_.get(), buffer.data() + held, buffer.size() - held);
    std::size_t at = 0;
    for (; held - at >= frame_bytes; at += frame_bytes) {
      ++frames;
      last = buffer[at] != 0;
    }
    held -= at;
    std::memmove(buffer.data(), buffer.data() + at, held);
  }
  send_all(fd_.get(), &frames, sizeof frames);
}

}  // namespace craton::bench
