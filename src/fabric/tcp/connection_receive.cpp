/// \file
/// The receiving side of a connection: takes what has arrived apart, serves requests, and completes
/// operations with their answers. Runs in poll(), one thread at a time; trusts nothing that it reads.
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "fabric/tcp/connection.hpp"
#include "fabric/words.hpp"

namespace craton::fabric::tcp {

namespace {

/// Payloads up to this are always taken whole from the input buffer; longer ones may be received in place.
constexpr std::size_t in_place_bytes = max_message_bytes;
/// Read from one connection before the others have their turn.
constexpr std::size_t bytes_per_turn = std::size_t{1} << 20;

}  // namespace

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
    if (words_of_a_line(header.offset, header.payload_bytes)) {
      copy_words_out(to, payload, header.payload_bytes);
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
  if (words_of_a_line(header.offset, header.argument)) {
    std::array<std::byte, line_bytes> words;
    copy_words_in(words.data(), from, header.argument);
    reply(answer, {words.data(), header.argument}, false);
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

}  // namespace craton::fabric::tcp
