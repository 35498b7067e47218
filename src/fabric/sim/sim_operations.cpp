#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "fabric/sim/sim_operation.hpp"

namespace craton::fabric::sim {

void SimFabric::start_get(void* destination, RemoteAddress source, std::size_t bytes,
                          Completion& completion) {
  issue(std::make_shared<Operation>(Operation{.kind = Kind::get,
                                              .remote = source,
                                              .bytes = bytes,
                                              .destination = static_cast<std::byte*>(destination),
                                              .completion = &completion}));
}

void SimFabric::start_put(RemoteAddress destination, const void* source, std::size_t bytes,
                          Completion& completion) {
  issue(std::make_shared<Operation>(Operation{.kind = Kind::put,
                                              .remote = destination,
                                              .bytes = bytes,
                                              .source = static_cast<const std::byte*>(source),
                                              .completion = &completion}));
}

void SimFabric::start_atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                             Completion& completion) {
  CRATON_ASSERT(word.offset % 8 == 0U);
  issue(std::make_shared<Operation>(Operation{.kind = Kind::atomic,
                                              .remote = word,
                                              .bytes = 8,
                                              .atomic = operation,
                                              .previous = previous,
                                              .completion = &completion}));
}

void SimFabric::issue(OperationRef operation) {
  check_caller("get, put or an atomic");
  if (dead()) return operation->completion->finish_inline(Status::peer_lost);
  check_range(operation->remote, operation->bytes);
  maybe_preempt();
  TimeNs paid_ns = 0;
  if (world_.timing() != nullptr) {
    const LogGP& model = world_.model(rank(), operation->remote.rank);
    const bool loads_and_stores = model.one_sided == OneSided::initiator_cpu;
    paid_ns =
        pay(loads_and_stores ? model.access_ns + model.transfer_ns(operation->bytes) : model.overhead_ns);
  }
  if (dead()) return operation->completion->finish_inline(Status::peer_lost);
  world_.scheduler_.note("issue", rank(), operation->remote.rank, operation->remote.offset);
  operation->completion->start();
  operation->number = next_operation_++;
  in_flight_.emplace(operation->number, operation);
  const bool early = world_.options_.mutation == Mutation::complete_early && operation->kind == Kind::put;
  if (operation->source != nullptr && (early || !world_.random_.one_in(world_.profile_.late_read_one_in))) {
    operation->captured.assign(operation->source, operation->source + operation->bytes);
    operation->source = nullptr;
  }
  if (!alive_[operation->remote.rank]) {
    operation->dropped = true;
    complete_later(operation, Status::peer_lost);
  } else if (world_.timing() != nullptr) {
    start_timed(operation, paid_ns);
  } else {
    split(operation);
    if (early) complete_later(operation, Status::ok);
  }
  maybe_preempt();
}

/// The rank's CPU does something more, after what it has to do already. \returns when it is done
TimeNs SimFabric::claim_cpu(TimeNs ns) noexcept {
  cpu_free_ns_ = std::max(cpu_free_ns_, clock().now_ns()) + ns;
  return cpu_free_ns_;
}

/// What a message, a request or an answer of `source` that arrives now costs this rank until it has it.
TimeNs SimFabric::receive_ns(Rank source) const noexcept {
  const LogGP& model = world_.model(source, rank());
  const bool asleep = clock().now_ns() > asleep_from_ns_ && clock().now_ns() >= cpu_free_ns_ && work_.empty();
  return model.overhead_ns + (asleep ? model.wake_ns : 0);
}

void SimFabric::stay_awake() noexcept {
  if (const LocalTimes* const times = local_times()) asleep_from_ns_ = clock().now_ns() + times->polling_ns;
}

/// The same, and the calling program goes on after it. Handlers and callbacks do not wait: what comes after
/// them on their rank's agent does. \returns when it is done
TimeNs SimFabric::pay(TimeNs ns) {
  const TimeNs paid_ns = claim_cpu(ns);
  if (world_.scheduler_.current() != nullptr && !on_agent())
    world_.scheduler_.sleep_until("pays an overhead", paid_ns, false);
  return paid_ns;
}

/// Sends the request of an operation, or does it here, once the issue has been paid for.
void SimFabric::start_timed(const OperationRef& operation, TimeNs paid_ns) {
  const Rank target = operation->remote.rank;
  const LogGP& model = world_.model(rank(), target);
  const auto take_all = [this, operation] { take_effect(operation, 0, operation->bytes); };
  if (model.one_sided == OneSided::initiator_cpu) return world_.scheduler_.at(paid_ns, take_all);
  const std::size_t carried = operation->kind == Kind::put ? operation->bytes : 0;
  world_.carry(rank(), target, carried, paid_ns, [this, target, &model, take_all] {
    if (model.one_sided == OneSided::target_cpu) {
      if (!world_.dead(target))
        world_.fabrics_[target]->enqueue(take_all, world_.fabrics_[target]->receive_ns(rank()));
    } else {
      take_all();
    }
  });
}

/// Cuts an operation into pieces that take effect each at its own time, but for those that must not be torn.
void SimFabric::split(const OperationRef& operation) {
  const bool words = words_of_a_line(operation->remote.offset, operation->bytes);
  const bool tear = world_.options_.mutation == Mutation::tear_words;
  const std::size_t grain = words && !tear ? 8 : 1;
  const bool whole = operation->kind == Kind::atomic || operation->bytes < 2 * grain;
  std::vector<std::size_t> cuts;
  if (!whole) {
    const std::uint64_t pieces =
        world_.random_.between(words && tear ? 2 : 1, std::max(2U, world_.profile_.pieces_at_most));
    for (std::uint64_t i = 1; i < pieces; ++i)
      cuts.push_back(world_.random_.between(1, operation->bytes / grain - 1) * grain);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  }
  cuts.push_back(operation->bytes);
  operation->pieces_left = static_cast<std::uint32_t>(cuts.size());
  std::size_t first = 0;
  for (const std::size_t end : cuts) {
    world_.scheduler_.after(world_.profile_.effect_ns,
                            [this, operation, first, end] { take_effect(operation, first, end - first); });
    first = end;
  }
}

/// Whether the target still takes part: it lives, and has not heard that the initiator is dead.
bool SimFabric::reaches_target(const Operation& operation) const noexcept {
  const Rank target = operation.remote.rank;
  return !operation.dropped && !world_.dead(target) && world_.fabrics_[target]->alive_[rank()];
}

void SimFabric::take_effect(const OperationRef& operation, std::size_t first, std::size_t bytes) {
  if (!reaches_target(*operation)) return;
  const Rank target = operation->remote.rank;
  std::byte* memory = world_.memory(target, operation->remote.region) + operation->remote.offset;
  world_.scheduler_.note("effect", rank(), target, operation->remote.offset + first);
  std::vector<std::byte> payload;
  if (operation->kind == Kind::atomic) {
    payload = take_atomic_effect(operation);
  } else if (operation->kind == Kind::get) {
    payload.assign(memory + first, memory + first + bytes);
  } else {
    const std::byte* source = operation->source != nullptr ? operation->source : operation->captured.data();
    if (bytes != 0) std::memcpy(memory + first, source + first, bytes);
    const bool room =
        operation->remote.offset + first + bytes < region_bytes(target, operation->remote.region);
    if (world_.options_.mutation == Mutation::touch_beyond && room && world_.random_.one_in(16)) {
      memory[first + bytes] ^= std::byte{0xff};
    }
    if (world_.random_.one_in(world_.profile_.spurious_one_in)) world_.fabrics_[target]->wake_waiters();
  }
  send_answer(operation, first, std::move(payload));
}

void SimFabric::send_answer(const OperationRef& operation, std::size_t first,
                            std::vector<std::byte> payload) {
  const Rank target = operation->remote.rank;
  const std::size_t carried = operation->kind == Kind::get ? payload.size() : 0;
  const auto answered = [this, operation, first, bytes = std::move(payload)] {
    answer(operation, first, bytes);
  };
  if (world_.timing() == nullptr) {
    world_.scheduler_.after(world_.profile_.answer_ns, answered);
    return;
  }
  const LogGP& model = world_.model(rank(), target);
  switch (model.one_sided) {
    case OneSided::initiator_cpu:
      return answered();
    case OneSided::target_cpu:
      return world_.carry(target, rank(), carried, world_.fabrics_[target]->claim_cpu(model.overhead_ns),
                          answered);
    case OneSided::target_nic:
      return world_.carry(target, rank(), carried, clock().now_ns(), answered);
  }
}

/// \returns what the word was before
std::vector<std::byte> SimFabric::take_atomic_effect(const OperationRef& operation) {
  std::byte* memory =
      world_.memory(operation->remote.rank, operation->remote.region) + operation->remote.offset;
  std::uint64_t before = 0;
  std::memcpy(&before, memory, 8);
  const AtomicOperation& atomic = operation->atomic;
  std::uint64_t value = before;
  switch (atomic.kind) {
    case AtomicKind::compare_exchange:
      value = before == atomic.first ? atomic.second : before;
      break;
    case AtomicKind::fetch_add:
      value = before + atomic.first;
      break;
    case AtomicKind::swap:
      value = atomic.first;
      break;
  }
  if (world_.options_.mutation == Mutation::split_atomics) {
    world_.scheduler_.after(world_.profile_.effect_ns, [this, operation, memory, value] {
      if (reaches_target(*operation)) std::memcpy(memory, &value, 8);
    });
  } else {
    std::memcpy(memory, &value, 8);
  }
  std::vector<std::byte> payload(8);
  std::memcpy(payload.data(), &before, 8);
  return payload;
}

void SimFabric::answer(const OperationRef& operation, std::size_t first,
                       const std::vector<std::byte>& payload) {
  if (operation->abandoned || operation->answered) return;
  if (operation->kind == Kind::atomic) {
    if (operation->previous != nullptr) std::memcpy(operation->previous, payload.data(), 8);
  } else if (!payload.empty()) {
    std::memcpy(operation->destination + first, payload.data(), payload.size());
  }
  if (--operation->pieces_left == 0) complete_later(operation, Status::ok);
}

void SimFabric::complete_later(const OperationRef& operation, Status status) {
  operation->answered = true;
  TimeNs cost_ns = 0;
  if (world_.timing() != nullptr) {
    const LogGP& model = world_.model(rank(), operation->remote.rank);
    if (model.one_sided != OneSided::initiator_cpu) cost_ns = receive_ns(operation->remote.rank);
  }
  const auto complete = [this, operation, status] {
    world_.scheduler_.note("complete", rank(), operation->remote.rank, operation->number);
    Completion& completion = *operation->completion;
    if (world_.options_.mutation == Mutation::repeat_callbacks && world_.random_.one_in(16)) {
      completion.finish_inline(status);
    }
    completion.finish(status);
    in_flight_.erase(operation->number);
  };
  enqueue(complete, cost_ns);
}

}  // namespace craton::fabric::sim
