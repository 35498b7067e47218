#include "fabric/tcp/connection.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::fabric::tcp {

namespace {

/// What a connection may have queued; handlers, which cannot wait for room, may fill it this far.
constexpr std::size_t max_queue_bytes = std::size_t{1} << 30;

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
  start({.is_put = false,
         .local = static_cast<std::byte*>(destination),
         .region = source.region,
         .offset = source.offset,
         .bytes = bytes,
         .completion = &completion});
}

void Connection::put(RemoteAddress destination, const void* source, std::size_t bytes,
                     Completion& completion) {
  start({.is_put = true,
         .local = const_cast<std::byte*>(static_cast<const std::byte*>(source)),
         .region = destination.region,
         .offset = destination.offset,
         .bytes = bytes,
         .completion = &completion});
}

void Connection::start(const Transfer& transfer) {
  std::unique_lock lock(lock_);
  if (state() == State::ready) return issue(transfer);
  lock.unlock();
  transfer.completion->finish(Status::peer_lost);
}

void Connection::atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                        Completion& completion) {
  std::unique_lock lock(lock_);
  if (state() == State::ready) return issue(operation, word, previous, completion);
  lock.unlock();
  completion.finish(Status::peer_lost);
}

bool Connection::issue(std::span<const Command> commands) {
  std::unique_lock lock(lock_);
  if (state() != State::ready) {
    lock.unlock();
    for (const Command& command : commands) command.completion->finish(Status::peer_lost);
    return true;
  }
  batching_ = true;
  for (const Command& command : commands) {
    if (command.kind == CommandKind::atomic) {
      issue({.kind = command.atomic, .first = command.first, .second = command.second}, command.address(),
            static_cast<std::uint64_t*>(command.local), *command.completion);
    } else {
      issue({.is_put = command.kind == CommandKind::put,
             .local = static_cast<std::byte*>(command.local),
             .region = command.region,
             .offset = command.offset,
             .bytes = command.first,
             .completion = command.completion});
    }
  }
  batching_ = false;
  if (!corked_ && !queue_.empty()) flush_queue();
  return false;
}

void Connection::issue(Transfer transfer) {
  transfer.epoch = flush_counter_.start();
  if (transfer.bytes <= chunk_bytes) return request(transfer, transfer.bytes, nullptr);
  transfers_.push_back(std::make_unique<Transfer>(transfer));
  for (unsigned i = 0; i < chunks_under_way; ++i) issue_chunk(*transfers_.back());
}

void Connection::issue_chunk(Transfer& transfer) {
  if (transfer.issued_bytes == transfer.bytes) return;
  const std::size_t bytes = std::min<std::size_t>(chunk_bytes, transfer.bytes - transfer.issued_bytes);
  ++transfer.chunks_in_flight;
  request(transfer, bytes, &transfer);
  transfer.issued_bytes += bytes;
}

/// Sends the request for the next bytes of a transfer. \param chunk_of the transfer, if it has several
void Connection::request(const Transfer& transfer, std::size_t bytes, Transfer* chunk_of) {
  std::byte* const local = transfer.local + transfer.issued_bytes;
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
                                     .transfer = chunk_of});
  transmit(header, transfer.is_put ? std::span<const std::byte>(local, bytes) : std::span<const std::byte>{},
           true);
}

void Connection::issue(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                       Completion& completion) {
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

// ---- The end

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
