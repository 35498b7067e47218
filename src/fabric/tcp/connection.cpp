#include "fabric/tcp/connection.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::fabric::tcp {

namespace {

constexpr std::size_t input_bytes = 64 * 1024;
/// Payloads up to this are always taken whole from the input buffer; longer ones may be received in place.
constexpr std::size_t in_place_bytes = max_message_bytes;
static_assert(input_bytes >= sizeof(FrameHeader) + in_place_bytes);
/// Payloads up to this are sent from one buffer with their header.
constexpr std::size_t joined_bytes = 512;
/// Payloads up to this are copied into the send queue rather than borrowed.
constexpr std::size_t copied_bytes = 4096;
/// From this many operations in flight on, small requests are gathered.
constexpr std::uint32_t gather_from_operations = 8;
/// And sent when this much has been gathered.
constexpr std::size_t gathered_bytes = 32 * 1024;
/// Senders of messages wait when this much is queued; handlers, which cannot, may go on until the second.
constexpr std::size_t busy_queue_bytes = std::size_t{1} << 20;
constexpr std::size_t max_queue_bytes = std::size_t{1} << 30;
/// Read from one connection before the others have their turn.
constexpr std::size_t bytes_per_turn = std::size_t{1} << 20;

std::span<const std::byte> as_bytes_of(const FrameHeader& header) {
  return {reinterpret_cast<const std::byte*>(&header), sizeof header};
}

}  // namespace

Connection::Connection(Shared& shared, UniqueFd socket, Handshake handshake, bool connecting,
                       std::string remote)
    : shared_(shared),
      remote_(std::move(remote)),
      born_ns_(shared.clock.now_ns()),
      accepted_(!connecting),
      state_(connecting ? State::connecting : State::greeting),
      handshake_(std::move(handshake)),
      socket_(std::move(socket)),
      input_(std::make_unique_for_overwrite<std::byte[]>(input_bytes)) {
  epoll_event event{};
  event.events = EPOLLIN | (connecting ? EPOLLOUT : 0U);
  event.data.ptr = this;
  wants_writable_ = connecting;
  if (::epoll_ctl(shared_.epoll_fd, EPOLL_CTL_ADD, socket_.get(), &event) != 0) {
    throw Error::from_errno("cannot watch a tcp connection", errno, "ulimit -n");
  }
}

Connection::~Connection() {
  end("the fabric was closed");
}

// ---- Issuing

std::uint64_t Connection::open_operation(const Operation& operation) {
  std::uint32_t index = 0;
  if (free_operations_.empty()) {
    index = static_cast<std::uint32_t>(operations_.size());
    CRATON_ASSERT(index < max_operations);
    operations_.push_back(operation);
    operations_.back().generation = 1;
  } else {
    index = free_operations_.back();
    free_operations_.pop_back();
    const std::uint32_t generation = operations_[index].generation + 1;
    operations_[index] = operation;
    operations_[index].generation = generation;
  }
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  return std::uint64_t{operations_[index].generation} << 32 | index;
}

void Connection::get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) {
  std::unique_lock lock(lock_);
  if (state() != State::ready) {
    lock.unlock();
    return completion.finish(Status::peer_lost);
  }
  const FlushCounter::Epoch epoch = flush_counter_.start();
  if (bytes > chunk_bytes) {
    transfers_.push_back(std::make_unique<Transfer>(Transfer{.is_put = false,
                                                             .local = static_cast<std::byte*>(destination),
                                                             .region = source.region,
                                                             .offset = source.offset,
                                                             .bytes = bytes,
                                                             .issued_bytes = 0,
                                                             .chunks_in_flight = 0,
                                                             .completion = &completion,
                                                             .epoch = epoch}));
    for (unsigned i = 0; i < chunks_under_way; ++i) issue_chunk(*transfers_.back());
    return;
  }
  FrameHeader header;
  header.kind = FrameKind::get;
  header.region = source.region;
  header.offset = source.offset;
  header.argument = static_cast<std::uint32_t>(bytes);
  header.operation = open_operation({.answer = FrameKind::data,
                                     .generation = 0,
                                     .bytes = header.argument,
                                     .epoch = epoch,
                                     .destination = static_cast<std::byte*>(destination),
                                     .previous = nullptr,
                                     .completion = &completion,
                                     .transfer = nullptr});
  transmit(header, {}, false);
}

void Connection::put(RemoteAddress destination, const void* source, std::size_t bytes,
                     Completion& completion) {
  std::unique_lock lock(lock_);
  if (state() != State::ready) {
    lock.unlock();
    return completion.finish(Status::peer_lost);
  }
  const FlushCounter::Epoch epoch = flush_counter_.start();
  if (bytes > chunk_bytes) {
    transfers_.push_back(std::make_unique<Transfer>(
        Transfer{.is_put = true,
                 .local = const_cast<std::byte*>(static_cast<const std::byte*>(source)),
                 .region = destination.region,
                 .offset = destination.offset,
                 .bytes = bytes,
                 .issued_bytes = 0,
                 .chunks_in_flight = 0,
                 .completion = &completion,
                 .epoch = epoch}));
    for (unsigned i = 0; i < chunks_under_way; ++i) issue_chunk(*transfers_.back());
    return;
  }
  FrameHeader header;
  header.kind = FrameKind::put;
  header.region = destination.region;
  header.offset = destination.offset;
  header.payload_bytes = static_cast<std::uint32_t>(bytes);
  header.operation = open_operation({.answer = FrameKind::done,
                                     .generation = 0,
                                     .bytes = 0,
                                     .epoch = epoch,
                                     .destination = nullptr,
                                     .previous = nullptr,
                                     .completion = &completion,
                                     .transfer = nullptr});
  transmit(header, {static_cast<const std::byte*>(source), bytes}, true);
}

void Connection::issue_chunk(Transfer& transfer) {
  if (transfer.issued_bytes == transfer.bytes) return;
  const std::size_t bytes = std::min<std::size_t>(chunk_bytes, transfer.bytes - transfer.issued_bytes);
  std::byte* local = transfer.local + transfer.issued_bytes;
  FrameHeader header;
  header.kind = transfer.is_put ? FrameKind::put : FrameKind::get;
  header.region = transfer.region;
  header.offset = transfer.offset + transfer.issued_bytes;
  header.payload_bytes = transfer.is_put ? static_cast<std::uint32_t>(bytes) : 0;
  header.argument = transfer.is_put ? 0 : static_cast<std::uint32_t>(bytes);
  header.operation = open_operation({.answer = transfer.is_put ? FrameKind::done : FrameKind::data,
                                     .generation = 0,
                                     .bytes = header.argument,
                                     .epoch = transfer.epoch,
                                     .destination = local,
                                     .previous = nullptr,
                                     .completion = transfer.completion,
                                     .transfer = &transfer});
  transfer.issued_bytes += bytes;
  ++transfer.chunks_in_flight;
  transmit(header, transfer.is_put ? std::span<const std::byte>(local, bytes) : std::span<const std::byte>{},
           true);
}

void Connection::atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                        Completion& completion) {
  std::unique_lock lock(lock_);
  if (state() != State::ready) {
    lock.unlock();
    return completion.finish(Status::peer_lost);
  }
  FrameHeader header;
  header.kind = FrameKind::atomic;
  header.region = word.region;
  header.offset = word.offset;
  header.argument = static_cast<std::uint32_t>(operation.kind);
  header.payload_bytes = sizeof(AtomicPayload);
  header.operation = open_operation({.answer = FrameKind::value,
                                     .generation = 0,
                                     .bytes = 0,
                                     .epoch = flush_counter_.start(),
                                     .destination = nullptr,
                                     .previous = previous,
                                     .completion = &completion,
                                     .transfer = nullptr});
  const AtomicPayload payload{.first = operation.first, .second = operation.second};
  transmit(header, {reinterpret_cast<const std::byte*>(&payload), sizeof payload}, false);
}

bool Connection::message(HandlerId handler, const void* payload, std::size_t bytes, bool may_refuse) {
  const std::lock_guard lock(lock_);
  if (state() != State::ready) return true;  // dropped: the rank is dead
  if (may_refuse && queue_.queued_bytes() > busy_queue_bytes) {
    refused_ = true;
    return false;
  }
  CRATON_ASSERT(queue_.queued_bytes() <= max_queue_bytes);
  FrameHeader header;
  header.kind = FrameKind::message;
  header.argument = handler;
  header.payload_bytes = static_cast<std::uint32_t>(bytes);
  transmit(header, {static_cast<const std::byte*>(payload), bytes}, false);
  return true;
}

void Connection::announce(RegionId region, std::uint64_t bytes) {
  const std::lock_guard lock(lock_);
  if (state() != State::ready) return;
  FrameHeader header;
  header.kind = FrameKind::region;
  header.region = region;
  header.offset = bytes;
  transmit(header, {}, false);
}

bool Connection::say_farewell() {
  const std::lock_guard lock(lock_);
  if (state() != State::ready) return true;
  if (!farewell_said_) {
    farewell_said_ = true;
    transmit(FrameHeader{}, {}, false);
  }
  flush_queue();
  return queue_.empty() && delayed_.empty();
}

void Connection::hang_up() noexcept {
  const std::lock_guard lock(lock_);
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

// ---- Sending

void Connection::transmit(const FrameHeader& header, std::span<const std::byte> payload, bool may_borrow) {
  CRATON_ASSERT_SLOW(malformation(header) == nullptr);
  if (shared_.link.active()) return delay(header, payload);
  const bool gather = corked_ || in_flight_.load(std::memory_order_relaxed) > gather_from_operations;
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
    if (result < 0 && errno != EAGAIN && errno != EINTR) broken_ = true;
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

void Connection::flush_queue() {
  while (!queue_.empty() && !broken_) {
    std::array<iovec, SendQueue::max_pieces> pieces{};
    msghdr message{};
    message.msg_iovlen = queue_.front(pieces);
    message.msg_iov = pieces.data();
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) broken_ = true;
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
  const itimerspec when{.it_interval = {},
                        .it_value = {.tv_sec = due_ns / 1'000'000'000, .tv_nsec = due_ns % 1'000'000'000}};
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

// ---- Receiving

bool Connection::receive() {
  if (state() == State::ended) return false;
  bool worked = false;
  for (std::size_t taken = 0; taken < bytes_per_turn;) {
    const bool streaming = stream_.missing_bytes != 0;
    std::byte* to = streaming ? stream_.to : input_.get() + input_end_;
    std::size_t room = streaming ? stream_.missing_bytes : input_bytes - input_end_;
    // In a run of large payloads only the header is read into the buffer, so that all of the next payload
    // goes to its place at once.
    if (!streaming && after_stream_ && input_end_ == 0) room = sizeof(FrameHeader);
    const ssize_t received = ::recv(socket_.get(), to, room, MSG_DONTWAIT);
    if (received <= 0) {
      if (received < 0 && (errno == EAGAIN || errno == EINTR)) break;
      const std::string failure =
          received == 0 ? "its connection ended" : std::generic_category().message(errno);
      end(cause_.empty() ? failure : cause_);
      return true;
    }
    if (!worked) {
      worked = true;
      const std::lock_guard lock(lock_);
      corked_ = true;
    }
    const auto bytes = static_cast<std::size_t>(received);
    taken += bytes;
    if (streaming) {
      stream_.to += bytes;
      stream_.missing_bytes -= bytes;
      if (stream_.missing_bytes == 0 && !serve(stream_.header, nullptr)) return true;
    } else {
      input_end_ += bytes;
      if (!parse()) return true;
    }
    if (bytes < room) break;  // that was all
  }
  if (!worked) return false;
  const std::lock_guard lock(lock_);
  corked_ = false;
  if (!queue_.empty()) flush_queue();
  return true;
}

/// Serves the whole frames in the input buffer. \returns false if the connection has ended
bool Connection::parse() {
  for (;;) {
    const std::size_t available = input_end_ - input_begin_;
    if (state() != State::ready) {
      if (!greet(available)) return state() != State::ended;
      continue;
    }
    if (available < sizeof(FrameHeader)) break;
    FrameHeader header;
    std::memcpy(&header, input_.get() + input_begin_, sizeof header);
    if (const char* wrong = malformation(header)) return violated(wrong);
    const std::byte* payload = input_.get() + input_begin_ + sizeof header;
    const std::size_t arrived = available - sizeof header;
    if (arrived >= header.payload_bytes) {
      after_stream_ = false;
      input_begin_ += sizeof header + header.payload_bytes;
      if (!serve(header, payload)) return false;
    } else if (header.payload_bytes > in_place_bytes) {
      input_begin_ = input_end_ = 0;
      after_stream_ = true;
      return begin_stream(header, payload, arrived);
    } else {
      break;
    }
  }
  if (input_begin_ == input_end_) {
    input_begin_ = input_end_ = 0;
  } else if (input_bytes - input_begin_ < sizeof(FrameHeader) + in_place_bytes) {
    std::memmove(input_.get(), input_.get() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  return true;
}

/// One step of the handshake. \returns true if there may be more to parse
bool Connection::greet(std::size_t available) {
  const std::size_t wanted = handshake_.wanted_bytes();
  if (state() != State::greeting || available < wanted) return false;
  handshake_.feed({input_.get() + input_begin_, wanted});
  input_begin_ += wanted;
  if (handshake_.state() == Handshake::State::refused) {
    end(handshake_.refusal());
    return false;
  }
  if (handshake_.state() == Handshake::State::proven) {
    if (const char* refusal = shared_.proven(*this)) {
      end(refusal);
      return false;
    }
  }
  const std::lock_guard lock(lock_);
  if (const std::vector<std::byte> output = handshake_.take_output(); !output.empty()) queue_.copy(output);
  if (handshake_.state() == Handshake::State::proven) {
    // The proof must be ahead of anything that other threads send once they see that it is ready.
    flush_queue();
    state_.store(State::ready, std::memory_order_release);
  }
  return true;
}

bool Connection::violated(const char* what) {
  end(fmt::format("it sent {}", what));
  return false;
}

std::byte* Connection::served_range(const FrameHeader& header, std::uint64_t bytes) const noexcept {
  const TransportEvents::LocalPart part = shared_.events.local_part(header.region);
  if (part.data == nullptr || header.offset > part.bytes || bytes > part.bytes - header.offset)
    return nullptr;
  return part.data + header.offset;
}

bool Connection::begin_stream(const FrameHeader& header, const std::byte* arrived, std::size_t bytes) {
  std::byte* to = nullptr;
  if (header.kind == FrameKind::put) {
    to = served_range(header, header.payload_bytes);
    if (to == nullptr) return violated("a put outside its region");
  } else {
    Operation operation{};
    if (find_operation(header, operation) == nullptr) return violated("an answer to no question");
    to = operation.destination;
  }
  std::memcpy(to, arrived, bytes);
  stream_ = {.to = to + bytes, .missing_bytes = header.payload_bytes - bytes, .header = header};
  return true;
}

/// \param payload null if it has been streamed to its place. \returns false if the connection has ended
bool Connection::serve(const FrameHeader& header, const std::byte* payload) {
  switch (header.kind) {
    case FrameKind::put:
      return serve_put(header, payload);
    case FrameKind::get:
      return serve_get(header);
    case FrameKind::atomic:
      return serve_atomic(header, payload);
    case FrameKind::done:
    case FrameKind::data:
    case FrameKind::value:
      return answered(header, payload);
    case FrameKind::message:
      if (reinterpret_cast<std::uintptr_t>(payload) % 8 != 0) {
        std::memcpy(aligned_message_, payload, header.payload_bytes);
        payload = aligned_message_;
      }
      shared_.events.message_arrived(peer(), static_cast<HandlerId>(header.argument), payload,
                                     header.payload_bytes);
      return true;
    case FrameKind::region:
      shared_.events.region_announced(peer(), header.region, header.offset, nullptr);
      return true;
    case FrameKind::farewell:
      peer_left_ = true;
      shared_.events.peer_left(peer());
      return true;
  }
  return violated("a frame of an unknown kind");
}

void Connection::reply(const FrameHeader& header, std::span<const std::byte> payload, bool may_borrow) {
  const std::lock_guard lock(lock_);
  transmit(header, payload, may_borrow);
}

bool Connection::serve_put(const FrameHeader& header, const std::byte* payload) {
  if (payload != nullptr) {
    std::byte* to = served_range(header, header.payload_bytes);
    if (to == nullptr) return violated("a put outside its region");
    if (header.payload_bytes == 8 && header.offset % 8 == 0) {
      std::uint64_t value = 0;
      std::memcpy(&value, payload, sizeof value);
      std::atomic_ref(*reinterpret_cast<std::uint64_t*>(to)).store(value, std::memory_order_release);
    } else {
      std::memcpy(to, payload, header.payload_bytes);
    }
  }
  FrameHeader answer;
  answer.kind = FrameKind::done;
  answer.operation = header.operation;
  std::atomic_thread_fence(std::memory_order_release);
  reply(answer, {}, false);
  return true;
}

bool Connection::serve_get(const FrameHeader& header) {
  const std::byte* from = served_range(header, header.argument);
  if (from == nullptr) return violated("a get outside its region");
  FrameHeader answer;
  answer.kind = FrameKind::data;
  answer.operation = header.operation;
  answer.payload_bytes = header.argument;
  if (header.argument == 8 && header.offset % 8 == 0) {
    const std::uint64_t value =
        std::atomic_ref(*reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(from)))
            .load(std::memory_order_acquire);
    reply(answer, {reinterpret_cast<const std::byte*>(&value), sizeof value}, false);
  } else {
    reply(answer, {from, header.argument}, true);
  }
  return true;
}

bool Connection::serve_atomic(const FrameHeader& header, const std::byte* payload) {
  std::byte* at = served_range(header, 8);
  if (at == nullptr) return violated("an atomic outside its region");
  AtomicPayload operands{};
  std::memcpy(&operands, payload, sizeof operands);
  const std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(at));
  FrameHeader answer;
  answer.kind = FrameKind::value;
  answer.operation = header.operation;
  switch (static_cast<AtomicKind>(header.argument)) {
    case AtomicKind::compare_exchange:
      answer.offset = operands.first;
      word.compare_exchange_strong(answer.offset, operands.second);
      break;
    case AtomicKind::fetch_add:
      answer.offset = word.fetch_add(operands.first);
      break;
    case AtomicKind::swap:
      answer.offset = word.exchange(operands.first);
      break;
  }
  reply(answer, {}, false);
  return true;
}

/// The operation that a frame answers, copied out; null if there is none.
Connection::Operation* Connection::find_operation(const FrameHeader& header, Operation& copy) {
  const std::lock_guard lock(lock_);
  const auto index = static_cast<std::uint32_t>(header.operation);
  if (index >= operations_.size()) return nullptr;
  Operation& operation = operations_[index];
  const bool same = operation.generation == header.operation >> 32 && operation.answer == header.kind &&
                    operation.bytes == header.payload_bytes;
  if (!same) return nullptr;
  copy = operation;
  return &copy;
}

void Connection::close_operation(const FrameHeader& header) {
  const auto index = static_cast<std::uint32_t>(header.operation);
  operations_[index].answer = FrameKind::farewell;
  free_operations_.push_back(index);
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
}

bool Connection::answered(const FrameHeader& header, const std::byte* payload) {
  Operation operation{};
  if (find_operation(header, operation) == nullptr) return violated("an answer to no question");
  if (payload != nullptr && header.payload_bytes != 0) {
    std::memcpy(operation.destination, payload, header.payload_bytes);
  }
  if (operation.previous != nullptr) *operation.previous = header.offset;
  {
    const std::lock_guard lock(lock_);
    close_operation(header);
    if (Transfer* transfer = operation.transfer) {
      --transfer->chunks_in_flight;
      issue_chunk(*transfer);
      if (transfer->chunks_in_flight != 0) return true;
      std::erase_if(transfers_, [transfer](const auto& each) { return each.get() == transfer; });
    }
  }
  operation.completion->finish(Status::ok);
  flush_counter_.finish(operation.epoch);
  return true;
}

void Connection::end(const std::string& cause) {
  if (state() == State::ended) return;
  const bool was_ready = state() == State::ready;
  cause_ = cause;
  std::vector<std::pair<Completion*, FlushCounter::Epoch>> cut;
  {
    const std::lock_guard lock(lock_);
    state_.store(State::ended, std::memory_order_release);
    for (const Operation& operation : operations_) {
      if (operation.answer != FrameKind::farewell && operation.transfer == nullptr) {
        cut.emplace_back(operation.completion, operation.epoch);
      }
    }
    for (const auto& transfer : transfers_) cut.emplace_back(transfer->completion, transfer->epoch);
    operations_.clear();
    free_operations_.clear();
    transfers_.clear();
    delayed_.clear();
    queue_.clear();
    stream_ = {};
    in_flight_.store(0);
    ::epoll_ctl(shared_.epoll_fd, EPOLL_CTL_DEL, socket_.get(), nullptr);
    socket_.reset();
  }
  for (const auto& [completion, epoch] : cut) {
    completion->finish(Status::peer_lost);
    flush_counter_.finish(epoch);
  }
  if (was_ready && !peer_left_) shared_.events.peer_lost(peer(), cause_.c_str());
}

}  // namespace craton::fabric::tcp
