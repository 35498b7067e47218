#if defined(CRATON_HAVE_UCX)

#include "base/assert.hpp"
#include "fabric/ucx/ucx_transport.hpp"

namespace craton::fabric::ucx {

namespace {

ucp_atomic_op_t ucp_name_of(AtomicKind kind) noexcept {
  switch (kind) {
    case AtomicKind::compare_exchange:
      return UCP_ATOMIC_OP_CSWAP;
    case AtomicKind::fetch_add:
      return UCP_ATOMIC_OP_ADD;
    case AtomicKind::swap:
      return UCP_ATOMIC_OP_SWAP;
  }
  return UCP_ATOMIC_OP_LAST;
}

}  // namespace

/// Issues an operation and finishes it at once if it is complete by then. `issue` calls UCX, under the lock,
/// and says in the operation what has to be waited for.
template <typename Issue>
void UcxTransport::start(RemoteAddress at, std::uint64_t* previous, Completion& completion, Issue issue) {
  Peer& peer = *peers_[at.rank];
  FinishedOperation finished{&peer, &completion, previous, 0, peer.in_flight.start(), Status::ok};
  {
    const std::lock_guard lock(lock_);
    if (!start_locked(finished, at, issue)) return wake_sleeper();
  }
  finish(finished);
}

/// \returns true if it has ended: `finished` says how
template <typename Issue>
bool UcxTransport::start_locked(FinishedOperation& finished, RemoteAddress at, const Issue& issue) {
  Peer& peer = *finished.peer;
  if (peer.dead) {
    finished.status = Status::peer_lost;
    return true;
  }
  const auto found = peer.regions.find(at.region);
  CRATON_ASSERT(found != peer.regions.end());
  const RemoteRegion& region = found->second.front();
  CRATON_ASSERT(at.offset <= region.bytes);
  Operation& operation = take_operation(peer, finished.completion, finished.previous, finished.epoch);
  issue(operation, region);
  --operation.requests;
  if (!done(operation)) return false;
  finished.status = status_of(operation);
  finished.reply = operation.reply;
  release_operation(operation);
  return true;
}

bool UcxTransport::issue(std::span<const Command> commands) {
  std::vector<FinishedOperation> finished;
  {
    const std::lock_guard lock(lock_);
    batching_ = true;
    for (const Command& command : commands) {
      Peer& peer = *peers_[command.rank];
      auto* const previous =
          command.kind == CommandKind::atomic ? static_cast<std::uint64_t*>(command.local) : nullptr;
      FinishedOperation one{&peer, command.completion, previous, 0, peer.in_flight.start(), Status::ok};
      const bool ended =
          start_locked(one, command.address(), [&](Operation& operation, const RemoteRegion& region) {
            switch (command.kind) {
              case CommandKind::get:
                return issue_get(operation, region, command.local, command.address(), command.first);
              case CommandKind::put:
                return issue_put(operation, region, command.address(), command.local, command.first);
              case CommandKind::atomic:
                return issue_atomic(
                    operation, region,
                    {.kind = command.atomic, .first = command.first, .second = command.second},
                    command.address());
            }
          });
      if (ended) finished.push_back(one);
    }
    batching_ = false;
    post_pack();
    issue_wanted_flushes();
    wake_sleeper();
  }
  for (const FinishedOperation& one : finished) finish(one);
  return !finished.empty();
}

void UcxTransport::get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) {
  start(source, nullptr, completion, [&](Operation& operation, const RemoteRegion& region) {
    issue_get(operation, region, destination, source, bytes);
  });
}

void UcxTransport::put(RemoteAddress destination, const void* source, std::size_t bytes,
                       Completion& completion) {
  start(destination, nullptr, completion, [&](Operation& operation, const RemoteRegion& region) {
    issue_put(operation, region, destination, source, bytes);
  });
}

void UcxTransport::atomic(AtomicOperation wanted, RemoteAddress word, std::uint64_t* previous,
                          Completion& completion) {
  start(word, previous, completion, [&](Operation& operation, const RemoteRegion& region) {
    issue_atomic(operation, region, wanted, word);
  });
}

void UcxTransport::issue_get(Operation& operation, const RemoteRegion& region, void* destination,
                             RemoteAddress source, std::size_t bytes) {
  if (native_) {
    const ucp_request_param_t parameters = native_parameters(operation);
    expect_request(operation, ucp_.ucp_get_nbx(operation.peer->endpoint, destination, bytes,
                                               region.base + source.offset, region.key, &parameters));
  } else {
    operation.destination = static_cast<std::byte*>(destination);
    operation.offset = source.offset;
    operation.bytes = bytes;
    ask_transfer(operation, ServiceKind::get, source, nullptr, bytes);
  }
}

void UcxTransport::issue_put(Operation& operation, const RemoteRegion& region, RemoteAddress destination,
                             const void* source, std::size_t bytes) {
  if (native_) {
    const ucp_request_param_t parameters = native_parameters(operation);
    expect_request(operation, ucp_.ucp_put_nbx(operation.peer->endpoint, source, bytes,
                                               region.base + destination.offset, region.key, &parameters));
    require_flush(operation);
  } else {
    ask_transfer(operation, ServiceKind::put, destination, static_cast<const std::byte*>(source), bytes);
  }
}

void UcxTransport::issue_atomic(Operation& operation, const RemoteRegion& region,
                                const AtomicOperation& wanted, RemoteAddress word) {
  if (native_) {
    // UCX wants the value to store of a compare-exchange where the answer will be. All three fetch, also
    // where nobody looks at the answer: one that does not is complete for UCX before it has been executed.
    operation.operand = wanted.first;
    operation.reply = wanted.second;
    ucp_request_param_t parameters = native_parameters(operation);
    parameters.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    parameters.datatype = ucp_dt_make_contig(sizeof(std::uint64_t));
    parameters.reply_buffer = &operation.reply;
    expect_request(operation, ucp_.ucp_atomic_op_nbx(operation.peer->endpoint, ucp_name_of(wanted.kind),
                                                     &operation.operand, 1, region.base + word.offset,
                                                     region.key, &parameters));
  } else {
    ask_atomic(operation, wanted, word);
  }
}

ucp_request_param_t UcxTransport::native_parameters(Operation& operation) const noexcept {
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  if (batching_) parameters.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;  // UCX 1.13; others ignore it
  parameters.cb.send = &UcxTransport::operation_ended;
  parameters.user_data = &operation;
  return parameters;
}

/// UCX has answered a call: at once, not at all, or with a request that it will call back for.
void UcxTransport::expect_request(Operation& operation, ucs_status_ptr_t request) noexcept {
  if (UCS_PTR_IS_ERR(request)) {
    operation.failed = true;
    note_failure(*operation.peer, "an operation", UCS_PTR_STATUS(request));
  } else if (request != nullptr) {
    ++operation.requests;
  }
}

void UcxTransport::operation_ended(void* request, ucs_status_t status, void* operation) {
  auto& ended = *static_cast<Operation*>(operation);
  UcxTransport& transport = *ended.transport;
  transport.worked_ = true;
  transport.settle(ended, status);
  transport.ucp_.ucp_request_free(request);
}

// ---- The life of an Operation

/// It begins with one request, the issuing call itself.
Operation& UcxTransport::take_operation(Peer& peer, Completion* completion, std::uint64_t* previous,
                                        FlushCounter::Epoch epoch) {
  if (free_operations_.empty()) {
    CRATON_ASSERT(operations_.size() < max_operations);
    operations_.push_back(std::make_unique<Operation>());
    operations_.back()->index = static_cast<std::uint32_t>(operations_.size() - 1);
    free_operations_.push_back(operations_.back().get());
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  const std::uint32_t index = operation.index;
  const std::uint32_t generation = operation.generation;
  operation = Operation{};
  operation.index = index;
  operation.generation = generation;
  operation.transport = this;
  operation.peer = &peer;
  operation.completion = completion;
  operation.previous = previous;
  operation.epoch = epoch;
  operation.requests = 1;
  operation.after = peer.operations;
  if (peer.operations != nullptr) peer.operations->before = &operation;
  peer.operations = &operation;
  peer.operation_count.fetch_add(1, std::memory_order_relaxed);
  return operation;
}

void UcxTransport::release_operation(Operation& operation) noexcept {
  (operation.before != nullptr ? operation.before->after : operation.peer->operations) = operation.after;
  if (operation.after != nullptr) operation.after->before = operation.before;
  operation.peer->operation_count.fetch_sub(1, std::memory_order_relaxed);
  ++operation.generation;  // late answers name the old one
  free_operations_.push_back(&operation);
}

/// The dead do not answer; but what UCX holds, it must give back first.
bool UcxTransport::done(const Operation& operation) noexcept {
  return operation.requests == 0 && (operation.answers_due == 0 || operation.peer->dead);
}

Status UcxTransport::status_of(const Operation& operation) noexcept {
  return operation.failed || operation.answers_due != 0 ? Status::peer_lost : Status::ok;
}

/// UCX has given back a request of an operation.
void UcxTransport::settle(Operation& operation, ucs_status_t status) noexcept {
  if (status != UCS_OK) {
    operation.failed = true;
    note_failure(*operation.peer, "an operation", status);
  }
  --operation.requests;
  end_if_done(operation);
}

void UcxTransport::end_if_done(Operation& operation) noexcept {
  if (!done(operation)) return;
  if (operation.completion != nullptr) {
    arrivals_.operations.push_back({operation.peer, operation.completion, operation.previous, operation.reply,
                                    operation.epoch, status_of(operation)});
  }
  release_operation(operation);
}

/// A peer has died: ends the operations that wait for its answer only.
void UcxTransport::end_unanswered(Peer& peer) noexcept {
  for (Operation* operation = peer.operations; operation != nullptr;) {
    Operation* const next = operation->after;
    end_if_done(*operation);
    operation = next;
  }
}

/// Finishes what UCX has not given back. It keeps the Operation, which is released when it does, if ever.
void UcxTransport::abandon_operations(Peer& peer) noexcept {
  for (Operation* operation = peer.operations; operation != nullptr; operation = operation->after) {
    if (operation->completion == nullptr) continue;
    arrivals_.operations.push_back(
        {&peer, operation->completion, nullptr, 0, operation->epoch, Status::peer_lost});
    operation->completion = nullptr;
    operation->answers_due = 0;  // a late answer must not be written to where the caller wanted it
  }
}

void UcxTransport::finish(const FinishedOperation& finished) noexcept {
  if (finished.previous != nullptr && finished.status == Status::ok) *finished.previous = finished.reply;
  finished.completion->finish(finished.status);
  finished.peer->in_flight.finish(finished.epoch);
}

// ---- Flushes

/// Makes an operation wait for a flush that is issued from now on.
void UcxTransport::require_flush(Operation& operation) noexcept {
  Peer& peer = *operation.peer;
  ++operation.requests;
  peer.unflushed.push_back(&operation);
  if (peer.flush_in_flight || peer.flush_wanted) return;
  if (!batching_) return issue_flush(peer);
  peer.flush_wanted = true;
  flush_wanted_.push_back(&peer);
}

void UcxTransport::issue_flush(Peer& peer) noexcept {
  CRATON_ASSERT(!peer.flush_in_flight);
  if (peer.unflushed.empty()) return;
  peer.flushing.swap(peer.unflushed);
  if (peer.endpoint == nullptr) return finish_flush(peer, UCS_ERR_CANCELED);
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = &UcxTransport::flush_ended;
  parameters.user_data = &peer;
  const ucs_status_ptr_t request = ucp_.ucp_ep_flush_nbx(peer.endpoint, &parameters);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) return finish_flush(peer, UCS_PTR_STATUS(request));
  peer.flush_in_flight = true;
}

/// May run inside UCX, so the next flush is left to issue_wanted_flushes().
void UcxTransport::finish_flush(Peer& peer, ucs_status_t status) noexcept {
  peer.flush_in_flight = false;
  // settle() frees operations but touches neither list.
  for (Operation* operation : peer.flushing) settle(*operation, status);
  peer.flushing.clear();
  if (!peer.unflushed.empty() && !peer.flush_wanted) {
    peer.flush_wanted = true;
    flush_wanted_.push_back(&peer);
  }
}

void UcxTransport::flush_ended(void* request, ucs_status_t status, void* peer) {
  auto& flushed = *static_cast<Peer*>(peer);
  flushed.transport.worked_ = true;
  flushed.transport.finish_flush(flushed, status);
  flushed.transport.ucp_.ucp_request_free(request);
}

void UcxTransport::issue_wanted_flushes() noexcept {
  // Ending at once, a flush wants no other: issue_flush() takes all that wait for one.
  for (Peer* peer : flush_wanted_) {
    peer->flush_wanted = false;
    if (!peer->flush_in_flight) issue_flush(*peer);
  }
  flush_wanted_.clear();
}

}  // namespace craton::fabric::ucx

#endif
