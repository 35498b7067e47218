#include "fabric/sim/sim_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::fabric::sim {

/// A one-sided operation from its issue to its completion. Events hold it; after `abandoned` they touch
/// nothing of the initiator's.
struct SimFabric::Operation {
  Kind kind;
  RemoteAddress remote;
  std::size_t bytes;
  std::byte* destination = nullptr;   ///< of a get
  const std::byte* source = nullptr;  ///< of a put; null once captured
  AtomicOperation atomic{};
  std::uint64_t* previous = nullptr;
  Completion* completion = nullptr;
  std::uint64_t number = 0;
  std::vector<std::byte> captured{};  ///< a put's bytes, if they are not read from `source` at their effect
  std::uint32_t pieces_left = 1;
  bool abandoned = false;  ///< the initiator is dead
  bool dropped = false;    ///< has no further effect at the target
  bool answered = false;   ///< its completion is queued
};

SimFabric::SimFabric(World& world, Rank rank)
    : Fabric(rank, world.size()), world_(world), alive_(world.size(), true) {
  const std::size_t agents = world.options_.mutation == Mutation::overlap_handlers ? 2 : 1;
  for (std::size_t i = 0; i < agents; ++i) {
    agents_[i] = &world_.scheduler_.spawn(rank, "agent", [this] { agent_main(); });
  }
}

SimFabric::~SimFabric() = default;

Capabilities SimFabric::capabilities(Rank peer) const noexcept {
  const bool own = peer == rank();
  return {.load_store = own || (world_.options_.direct_neighbours && node_of(peer) == node_of(rank())),
          .native_one_sided = true,
          .atomic_domain = AtomicDomain::cpu,
          .max_message_bytes = max_message_bytes,
          .transport = own ? "self" : "sim"};
}

// ---- The agent

bool SimFabric::on_agent() const noexcept {
  const Fiber* current = world_.scheduler_.current();
  return current != nullptr && std::find(agents_.begin(), agents_.end(), current) != agents_.end();
}

void SimFabric::agent_main() {
  while (!dead()) {
    if (work_.empty()) {
      world_.scheduler_.block("idle", no_deadline);
      continue;
    }
    const Work work = std::move(work_.front());
    work_.pop_front();
    if (work.cost_ns != 0) {
      world_.scheduler_.sleep_until("receives", claim_cpu(work.cost_ns), true);
      if (dead()) break;
    }
    work.run();
    if (dead()) break;
    stay_awake();
    wake_waiters();
    maybe_preempt();
  }
}

void SimFabric::enqueue(std::function<void()> work, TimeNs cost_ns) {
  work_.push_back({.run = std::move(work), .cost_ns = cost_ns});
  wake_agents();
}

void SimFabric::wake_agents() {
  for (Fiber* agent : agents_) {
    if (agent != nullptr) world_.scheduler_.wake(*agent);
  }
}

// ---- Waiting

void SimFabric::wake_waiters() {
  if (world_.options_.mutation == Mutation::lose_wakeups && world_.random_.one_in(8)) return;
  for (Fiber* fiber : world_.ranks_[rank()].programs) world_.scheduler_.wake(*fiber);
}

void SimFabric::notify() noexcept {
  if (!dead()) wake_waiters();
}

void SimFabric::throw_if_killed() const {
  if (dead() && std::uncaught_exceptions() == 0) throw RankKilled{};
}

void SimFabric::maybe_preempt() {
  if (dead() || world_.scheduler_.current() == nullptr) return;
  if (world_.random_.one_in(world_.profile_.preempt_one_in)) world_.scheduler_.yield(false);
}

void SimFabric::check_caller(const char* call) {
  if (in_condition_) world_.fail(fmt::format("rank {} called {} in the condition of a wait", rank(), call));
  const Fiber* current = world_.scheduler_.current();
  if (current != nullptr && current->rank() != rank()) {
    world_.fail(fmt::format("rank {} called {} of the fabric of rank {}", current->rank(), call, rank()));
  }
}

Status SimFabric::wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns) {
  return wait_for("wait_until", condition, deadline_ns);
}

void SimFabric::sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen, TimeNs deadline_ns) {
  static_cast<void>(wait_for(
      "sleep_while", [&] { return word.load() != seen; }, deadline_ns));
}

void SimFabric::wake_sleepers(const std::atomic<std::uint32_t>& /*word*/) noexcept {
  notify();
}

Status SimFabric::wait_for(const char* doing, FunctionRef<bool()> condition, TimeNs deadline_ns) {
  check_caller(doing);
  if (on_agent()) {
    world_.fail(fmt::format("rank {} waits inside a handler or callback ({})", rank(), doing));
    return Status::timed_out;
  }
  throw_if_killed();
  if (dead()) return Status::peer_lost;
  if (world_.random_.one_in(world_.profile_.preempt_one_in)) world_.preempt();
  bool timer_passed = false;
  for (;;) {
    throw_if_killed();
    if (dead()) return Status::peer_lost;
    in_condition_ = true;
    const bool holds = condition();
    in_condition_ = false;
    if (holds) return Status::ok;
    // A deadline may be noticed at any time after it has passed.
    if (timer_passed ||
        (clock().now_ns() >= deadline_ns && (world_.timing() != nullptr || world_.random_.one_in(2))))
      return Status::timed_out;
    stay_awake();
    timer_passed = !world_.scheduler_.block(doing, deadline_ns);
  }
}

Status SimFabric::flush(Rank target) {
  CRATON_ASSERT(target < size());
  if (world_.options_.mutation == Mutation::flush_early) return Status::ok;
  const std::uint64_t issued = next_operation_;
  const Status status = wait_for(
      "flush",
      [this, target, issued] {
        return std::none_of(in_flight_.begin(), in_flight_.end(), [target, issued](const auto& entry) {
          return entry.first < issued && entry.second->remote.rank == target;
        });
      },
      no_deadline);
  return status == Status::ok && !alive_[target] ? Status::peer_lost : status;
}

// ---- Regions

void SimFabric::register_region(RegionId id, const RegionMemory& memory) {
  check_caller("register_region");
  throw_if_killed();
  if (id >= max_regions || region_bytes(rank(), id) != 0) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot register region {}", id),
                 .happened = id >= max_regions ? "its id is too large" : "it is in use",
                 .limit = fmt::format("ids are below {}", max_regions),
                 .remedy = {}});
  }
  world_.arrive_at_collective(*this, true, id, &memory);
  wait_for_collective("cannot register region ", id);
}

void SimFabric::unregister_region(RegionId id) {
  check_caller("unregister_region");
  throw_if_killed();
  for (const auto& [number, operation] : in_flight_) {
    if (operation->remote.region != id) continue;
    world_.fail(
        fmt::format("rank {} called unregister_region({}) with operations on it in flight", rank(), id));
  }
  world_.arrive_at_collective(*this, false, id, nullptr);
  wait_for_collective("cannot unregister region ", id);
}

void SimFabric::wait_for_collective(const char* asked, RegionId id) {
  const std::uint64_t number = collectives_entered_;
  const auto seen = [this, number] { return collectives_seen_ >= number; };
  static_cast<void>(wait_for(
      "register_region", [this, &seen] { return seen() || lost_ranks() != 0; }, no_deadline));
  if (!seen()) {
    throw Error(ErrorCode::peer_lost, {.asked = asked + std::to_string(id),
                                       .happened = "a rank has died that has to agree",
                                       .limit = {},
                                       .remedy = {}});
  }
}

void SimFabric::see_collective(const World::Collective& collective) {
  ++collectives_seen_;
  if (collective.registers) {
    std::vector<RegionPart> parts(size());
    for (Rank peer = 0; peer < size(); ++peer) {
      parts[peer].bytes = world_.ranks_[peer].memory.at(collective.region).bytes;
      if (!capabilities(peer).load_store || !alive_[peer]) continue;
      parts[peer].direct = world_.memory(peer, collective.region);
      parts[peer].direct_atomics = parts[peer].direct;
    }
    regions().publish(collective.region, std::move(parts));
  } else {
    regions().withdraw(collective.region);
  }
  wake_waiters();
}

// ---- One-sided operations

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

// ---- Messages

void SimFabric::set_handler(HandlerId id, Handler handler, void* context) {
  CRATON_ASSERT(id >= first_free_handler);
  CRATON_ASSERT(id < max_handlers);
  HandlerEntry& entry = handlers_[id];
  CRATON_ASSERT(entry.run == nullptr);
  entry.run = handler;
  entry.context = context;
  // Those that have been waiting go before later ones, which may be queued already.
  const auto early = std::exchange(entry.early, {});
  std::for_each(early.rbegin(), early.rend(), [this](const auto& waited) {
    work_.push_front({.run = [this, waited] { run_handler(waited.first, waited.second); }, .cost_ns = 0});
  });
  wake_agents();
}

Status SimFabric::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) {
  CRATON_ASSERT(target < size());
  CRATON_ASSERT(handler < max_handlers);
  CRATON_ASSERT(bytes <= max_message_bytes);
  check_caller("send");
  maybe_preempt();
  World::Channel& way = world_.channel(rank(), target);
  const std::size_t cost = bytes + Profile::message_header_bytes;
  const auto room = [&] {
    return way.overflow.empty() && way.used_bytes + cost <= world_.profile_.ring_bytes;
  };
  const bool queues = on_agent();
  while (!dead() && alive_[target] && !queues && !room()) {
    world_.scheduler_.block("send", no_deadline);
    throw_if_killed();
  }
  const TimeNs paid_ns = world_.timing() != nullptr ? pay(world_.model(rank(), target).overhead_ns) : 0;
  if (dead() || !alive_[target]) return Status::peer_lost;
  const auto* first = static_cast<const std::byte*>(payload);
  World::Message message{.number = way.sent++, .handler = handler, .payload = {}};
  if (bytes != 0) message.payload.assign(first, first + bytes);
  world_.scheduler_.note("send", rank(), target, message.number);
  if (room()) {
    transmit(target, message, paid_ns);
  } else {
    way.overflow.push_back(std::move(message));
  }
  maybe_preempt();
  return Status::ok;
}

/// \param ready_ns with timing: when this rank's CPU is done with it
void SimFabric::transmit(Rank target, const World::Message& message, TimeNs ready_ns) {
  World::Channel& way = world_.channel(rank(), target);
  const Mutation mutation = world_.options_.mutation;
  way.used_bytes += message.payload.size() + Profile::message_header_bytes;
  SimFabric& peer = *world_.fabrics_[target];
  if (world_.timing() != nullptr) {
    world_.carry(rank(), target, message.payload.size(), ready_ns,
                 [this, &peer, message] { peer.arrived(rank(), message); });
    return;
  }
  TimeNs due_ns = clock().now_ns() + world_.scheduler_.random_delay(world_.profile_.message_ns);
  if (mutation != Mutation::reorder_messages) due_ns = std::max(due_ns, way.last_due_ns);
  way.last_due_ns = due_ns;
  if (mutation == Mutation::drop_messages && world_.random_.one_in(16)) {
    return return_room(target, message.payload.size());
  }
  const bool twice = mutation == Mutation::repeat_messages && world_.random_.one_in(16);
  if (twice) way.used_bytes += message.payload.size() + Profile::message_header_bytes;
  for (int copy = twice ? 2 : 1; copy > 0; --copy) {
    world_.scheduler_.at(due_ns, [this, &peer, message] { peer.arrived(rank(), message); });
  }
}

void SimFabric::arrived(Rank source, const World::Message& message) {
  if (dead() || message.number >= world_.channel(source, rank()).lost_from) return;
  const TimeNs cost_ns = world_.timing() != nullptr ? receive_ns(source) : 0;
  enqueue([this, source, message] { handle(source, message); }, cost_ns);
}

void SimFabric::handle(Rank source, const World::Message& message) {
  if (!alive_[source] || message.number >= world_.channel(source, rank()).lost_from) return;
  world_.channel(source, rank()).handled = message.number + 1;
  world_.scheduler_.note("handle", source, rank(), message.number);
  run_handler(source, message);
  if (dead()) return;
  SimFabric& sender = *world_.fabrics_[source];
  const std::size_t bytes = message.payload.size();
  const auto give_back = [this, &sender, bytes] { sender.return_room(rank(), bytes); };
  if (world_.timing() != nullptr) {
    world_.scheduler_.at(clock().now_ns() + world_.model(source, rank()).latency_ns, give_back);
  } else {
    world_.scheduler_.after(world_.profile_.answer_ns, give_back);
  }
}

/// Runs the handler, or keeps the message until there is one.
void SimFabric::run_handler(Rank source, const World::Message& message) {
  if (message.handler < first_free_handler || world_.left(rank())) return;
  HandlerEntry& entry = handlers_[message.handler];
  if (entry.run == nullptr) {
    entry.early.emplace_back(source, message);
  } else {
    entry.run(entry.context, source, message.payload.data(), message.payload.size());
  }
}

/// A message to `target` has left the ring: the next ones may enter it.
void SimFabric::return_room(Rank target, std::size_t bytes) {
  World::Channel& way = world_.channel(rank(), target);
  way.used_bytes -= bytes + Profile::message_header_bytes;
  while (!way.overflow.empty() &&
         way.used_bytes + way.overflow.front().payload.size() + Profile::message_header_bytes <=
             world_.profile_.ring_bytes) {
    World::Message message = std::move(way.overflow.front());
    way.overflow.pop_front();
    transmit(target, message, clock().now_ns());
  }
  if (!dead()) wake_waiters();
}

// ---- Death

void SimFabric::set_peer_lost_handler(PeerLostHandler handler, void* context) {
  lost_handler_ = handler;
  lost_context_ = context;
}

void SimFabric::declare_lost(Rank peer) noexcept {
  if (dead() || peer >= size() || peer == rank()) return;
  world_.scheduler_.after(world_.profile_.pace_ns, [this, peer] { learn_lost(peer); });
}

/// This rank has died. Its puts and atomics on the way still arrive, or do not; for that their bytes are
/// kept.
void SimFabric::abandon_operations() {
  work_.clear();
  for (const auto& [number, operation] : std::exchange(in_flight_, {})) {
    operation->abandoned = true;
    if (operation->kind == Kind::get || world_.random_.one_in(2)) {
      operation->dropped = true;
    } else if (operation->source != nullptr) {
      operation->captured.assign(operation->source, operation->source + operation->bytes);
    }
    operation->source = nullptr;
    operation->completion->finish(Status::peer_lost);
  }
}

void SimFabric::learn_lost(Rank peer) {
  if (dead() || !alive_[peer]) return;
  world_.scheduler_.note("learn", rank(), peer, 0);
  alive_[peer] = false;
  count_lost_rank();
  regions().sever(peer);
  world_.channel(rank(), peer).overflow.clear();
  for (const auto& [number, operation] : in_flight_) {
    if (operation->remote.rank != peer || operation->answered) continue;
    if (world_.options_.mutation == Mutation::forget_lost_peers) continue;
    operation->dropped = true;
    complete_later(operation, Status::peer_lost);
  }
  enqueue([this, peer] {
    if (lost_handler_ != nullptr && !world_.left(rank())) lost_handler_(lost_context_, peer);
  });
  wake_waiters();
}

std::string SimFabric::describe() const {
  constexpr std::size_t shown_at_most = 8;
  static constexpr std::array<const char*, 3> names{"get", "put", "atomic"};
  std::string text;
  std::size_t shown = 0;
  for (const auto& [number, operation] : in_flight_) {
    if (shown++ == shown_at_most) {
      fmt::format_to(std::back_inserter(text), "    ... {} operations in flight\n", in_flight_.size());
      break;
    }
    fmt::format_to(std::back_inserter(text), "    {} {} at rank {}, region {}, offset {}, {} bytes: {}\n",
                   names[static_cast<std::size_t>(operation->kind)], number, operation->remote.rank,
                   operation->remote.region, operation->remote.offset, operation->bytes,
                   operation->answered ? "its completion is queued"
                                       : std::to_string(operation->pieces_left) + " pieces to come");
  }
  for (std::size_t id = 0; id < handlers_.size(); ++id) {
    if (handlers_[id].early.empty()) continue;
    fmt::format_to(std::back_inserter(text), "    {} messages wait for handler {} to be set\n",
                   handlers_[id].early.size(), id);
  }
  return text;
}

}  // namespace craton::fabric::sim
