#include "fabric/sim/sim_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "fabric/sim/sim_operation.hpp"

namespace craton::fabric::sim {

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
  const bool load_store = own || (world_.options_.direct_neighbours && node_of(peer) == node_of(rank()));
  const bool agents_serve = world_.options_.timing
                                ? world_.model(rank(), peer).one_sided == OneSided::target_cpu
                                : world_.options_.agents_serve && !load_store;
  return {.load_store = load_store,
          .native_one_sided = !agents_serve,
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

Status SimFabric::wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned /*patience*/) {
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
