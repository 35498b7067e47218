#include "fabric/sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "fabric/sim/sim_fabric.hpp"

namespace craton::fabric::sim {

namespace {

const Options& checked(const Options& options) {
  if (options.size == 0 || options.size > max_ranks || options.ranks_per_node == 0) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot simulate " + std::to_string(options.size) + " ranks, " +
                          std::to_string(options.ranks_per_node) + " a node",
                 .happened = "there is no such job",
                 .limit = "1 to " + std::to_string(max_ranks) + " ranks, at least 1 a node",
                 .remedy = {}});
  }
  if (options.timing &&
      (options.direct_neighbours || options.kill_one_in != 0 || options.mutation != Mutation::none)) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = "cannot predict times",
                 .happened = "direct neighbours, random kills or a mutation are asked for as well",
                 .limit = {},
                 .remedy = "leave Options::timing empty, or those"});
  }
  return options;
}

const char* text_of(Fiber::State state) noexcept {
  switch (state) {
    case Fiber::State::fresh:
      return "fresh";
    case Fiber::State::ready:
      return "ready";
    case Fiber::State::running:
      return "running";
    case Fiber::State::blocked:
      return "blocked";
    case Fiber::State::finished:
      return "finished";
  }
  return "?";
}

}  // namespace

World::World(const Options& options)
    : options_(checked(options)),
      random_(options.seed),
      program_random_(Random::mix(options.seed ^ 0x70726f6772616d73U)),  // "programs"
      profile_(options.timing    ? Profile()
               : options.profile ? *options.profile
                                 : Profile(random_)),
      scheduler_(random_, profile_.pace_ns, profile_.pause_one_in, options.size, options.stack_bytes),
      ranks_(options.size),
      channels_(std::size_t{options.size} * options.size),
      ports_(options.timing ? std::size_t{2} * options.size : 0) {
  for (Rank rank = 0; rank < options_.size; ++rank)
    fabrics_.push_back(std::make_unique<SimFabric>(*this, rank));
}

World::~World() {
  for (Rank rank = 0; rank < size(); ++rank) unwind(rank);
}

void World::spawn(Rank rank, Program program) {
  RankState& state = ranks_[rank];
  CRATON_ASSERT(!state.left);
  ++state.unfinished;
  ++unfinished_;
  std::string name = "program " + std::to_string(state.programs.size());
  Fiber& fiber = scheduler_.spawn(rank, std::move(name), [this, rank, run = std::move(program)] {
    run(*fabrics_[rank]);
    --unfinished_;
    if (--ranks_[rank].unfinished == 0) ranks_[rank].left = true;
  });
  state.programs.push_back(&fiber);
}

World::Outcome World::run() {
  const ProcessRegions all_ranks_are_here;
  while (failure_.empty() && unfinished_ != 0) {
    kill_pending();
    kill_at_random();
    if (unfinished_ == 0) break;
    if (scheduler_.steps() >= options_.step_limit) {
      fail("no end after " + std::to_string(scheduler_.steps()) +
           " events (Options::step_limit): a livelock?");
    } else if (!scheduler_.step()) {
      fail("deadlock: nothing can run and nothing is on its way");
    }
    if (!scheduler_.uncaught().empty()) fail(scheduler_.uncaught());
  }
  Outcome outcome;
  if (!failure_.empty()) outcome.failure = describe(failure_);
  outcome.steps = scheduler_.steps();
  outcome.fingerprint = scheduler_.fingerprint();
  outcome.virtual_ns = scheduler_.clock().now_ns();
  for (Rank rank = 0; rank < size(); ++rank) unwind(rank);
  return outcome;
}

void World::fail(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

void World::preempt() {
  Fiber* fiber = scheduler_.current();
  CRATON_ASSERT(fiber != nullptr);
  SimFabric& own = *fabrics_[fiber->rank()];
  if (own.dead() && own.on_agent()) return;
  own.throw_if_killed();
  if (own.dead()) return;
  scheduler_.yield(!own.on_agent());
  if (!own.on_agent()) own.throw_if_killed();
}

void World::maybe_switch() noexcept {
  const Fiber* fiber = scheduler_.current();
  if (fiber == nullptr || timing() != nullptr) return;
  SimFabric& own = *fabrics_[fiber->rank()];
  if (!own.in_condition_) own.maybe_preempt();
}

void World::compute(TimeNs for_ns) {
  Fiber* fiber = scheduler_.current();
  CRATON_ASSERT(fiber != nullptr);
  SimFabric& own = *fabrics_[fiber->rank()];
  CRATON_ASSERT(!own.on_agent());
  own.throw_if_killed();
  if (own.dead()) return;
  if (for_ns != 0) own.asleep_from_ns_ = 0;  // its agent is
  scheduler_.sleep_until("compute", std::max(scheduler_.clock().now_ns(), own.cpu_free_ns_) + for_ns, true);
  own.throw_if_killed();
  own.stay_awake();
}

// ---- Times of a model

const LogGP& World::model(Rank source, Rank target) const noexcept {
  static constexpr LogGP to_itself;  // a rank's own memory and messages cost nothing
  if (source == target) return to_itself;
  const Rank each = options_.ranks_per_node;
  return source / each == target / each ? options_.timing->neighbours : options_.timing->network;
}

Port& World::port(Rank rank, Rank peer) noexcept {
  const Rank node = rank / options_.ranks_per_node;
  return ports_[node == peer / options_.ranks_per_node ? size() + rank : node];
}

void World::carry(Rank source, Rank target, std::size_t bytes, TimeNs ready_ns, Scheduler::Action arrived) {
  // A port is taken when the first byte is there, not before: whoever is there first goes first.
  scheduler_.at(ready_ns, [this, source, target, bytes, then = std::move(arrived)]() mutable {
    const LogGP& way = model(source, target);
    const TimeNs transfer_ns = way.transfer_ns(bytes);
    TimeNs& sends_until_ns = port(source, target).sends_until_ns;
    const TimeNs sent_ns = std::max(scheduler_.clock().now_ns(), sends_until_ns);
    sends_until_ns = sent_ns + transfer_ns + way.gap_ns;
    scheduler_.at(sent_ns + way.latency_ns,
                  [this, source, target, transfer_ns, gap_ns = way.gap_ns, last = std::move(then)]() mutable {
                    TimeNs& receives_until_ns = port(target, source).receives_until_ns;
                    const TimeNs first_ns = std::max(scheduler_.clock().now_ns(), receives_until_ns);
                    receives_until_ns = first_ns + transfer_ns + gap_ns;
                    scheduler_.at(first_ns + transfer_ns, std::move(last));
                  });
  });
}

// ---- Death

void World::kill(Rank rank) {
  CRATON_ASSERT(rank < size());
  kills_pending_.push_back(rank);
}

void World::kill_later(Rank rank, TimeNs scale_ns) {
  CRATON_ASSERT(rank < size());
  scheduler_.after(scale_ns, [this, rank] { kill(rank); });
}

void World::kill_pending() {
  for (const Rank rank : std::exchange(kills_pending_, {})) kill_now(rank);
}

void World::kill_at_random() {
  if (options_.kill_one_in == 0 || random_kills_ >= options_.kills_at_most) return;
  if (!random_.one_in(options_.kill_one_in)) return;
  ++random_kills_;
  kill(static_cast<Rank>(random_.below(size())));
}

void World::kill_now(Rank rank) {
  RankState& state = ranks_[rank];
  if (state.dead || state.left) return;
  for (const auto& fiber : scheduler_.fibers()) {
    if (fiber->rank() != rank || fiber->finished() || fiber->may_unwind()) continue;
    // It is inside a call: a moment later, also where a moment takes no time.
    scheduler_.after(std::max<TimeNs>(profile_.pace_ns, 1), [this, rank] { kill(rank); });
    return;
  }
  scheduler_.note("kill", rank, rank, 0);
  unwind(rank);
  for (Rank peer = 0; peer < size(); ++peer) {
    // What it has sent arrives up to some message, for each peer another one.
    Channel& way = channel(rank, peer);
    way.lost_from = random_.between(way.handled, way.sent - way.overflow.size());
    way.overflow.clear();
    if (dead(peer)) continue;
    scheduler_.after(profile_.bad_news_ns, [this, rank, peer] { fabrics_[peer]->learn_lost(rank); });
  }
}

// Its agent first, since a handler may be using what the programs own; then the programs, the youngest first,
// since those use what their elders own.
void World::unwind(Rank rank) {
  RankState& state = ranks_[rank];
  if (state.dead) return;
  state.dead = true;
  SimFabric& fabric = *fabrics_[rank];
  for (Fiber* agent : fabric.agents_) {
    if (agent != nullptr) scheduler_.finish_now(*agent);
  }
  fabric.abandon_operations();
  // Who waits for a fiber::Mutex last, if its holder, which goes before, gives it up.
  const auto finish_programs = [&](bool also_queued) {
    bool finished = false;
    for (std::size_t i = state.programs.size(); i-- > 0;) {
      Fiber& program = *state.programs[i];
      if (program.finished() || (program.queued() && !also_queued)) continue;
      scheduler_.finish_now(program);
      finished = true;
    }
    return finished;
  };
  while (finish_programs(false)) {
  }
  finish_programs(true);
  unfinished_ -= std::exchange(state.unfinished, 0U);
}

// ---- Regions

std::byte* World::memory(Rank rank, RegionId region) noexcept {
  const auto found = ranks_[rank].memory.find(region);
  return found == ranks_[rank].memory.end() ? nullptr : found->second.data.get();
}

void World::arrive_at_collective(SimFabric& fabric, bool registers, RegionId region,
                                 const RegionMemory* memory) {
  const std::uint64_t number = fabric.collectives_entered_++;
  if (number == collectives_.size()) collectives_.push_back({.registers = registers, .region = region});
  Collective& collective = collectives_[number];
  if (collective.registers != registers || collective.region != region) {
    fail(fmt::format("rank {} is in {}register_region({}) where an earlier rank was in {}register_region({})",
                     fabric.rank(), registers ? "" : "un", region, collective.registers ? "" : "un",
                     collective.region));
    return;
  }
  if (memory != nullptr) {
    ranks_[fabric.rank()].memory.emplace(region, RankState::Part{memory->shared_data(), memory->bytes()});
  }
  if (++collective.arrived == size()) complete_collective(number);
}

void World::complete_collective(std::uint64_t number) {
  const Collective collective = collectives_[number];
  scheduler_.note(collective.registers ? "register" : "unregister", collective.region, 0, number);
  if (!collective.registers) {
    for (RankState& state : ranks_) state.memory.erase(collective.region);
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    scheduler_.after(profile_.message_ns, [this, rank, collective] {
      if (!dead(rank)) fabrics_[rank]->see_collective(collective);
    });
  }
}

// ---- For people

std::string World::describe(const std::string& reason) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}\n  seed {}, {} ranks, {} a node{}, {} events, {} ns, {} events to come\n", reason,
                 options_.seed, options_.size, options_.ranks_per_node,
                 options_.direct_neighbours ? ", neighbours direct" : "", scheduler_.steps(),
                 scheduler_.clock().now_ns(), scheduler_.events());
  for (Rank rank = 0; rank < size(); ++rank) {
    const RankState& state = ranks_[rank];
    fmt::format_to(out, "  rank {}{}\n", rank, state.dead ? ": dead" : state.left ? ": ended" : "");
    for (const auto& fiber : scheduler_.fibers()) {
      if (fiber->rank() != rank || fiber->finished()) continue;
      fmt::format_to(out, "    {}: {}, {}\n", fiber->name(), text_of(fiber->state()), fiber->doing());
    }
    text += fabrics_[rank]->describe();
    for (Rank target = 0; target < size(); ++target) {
      const Channel& way = channel(rank, target);
      if (way.used_bytes == 0 && way.overflow.empty()) continue;
      fmt::format_to(out, "    messages to {}: {} of {} bytes on the way, {} more wait for room\n", target,
                     way.used_bytes, profile_.ring_bytes, way.overflow.size());
    }
  }
  fmt::format_to(out, "  last events:\n");
  for (const Scheduler::Note& note : scheduler_.last_notes()) {
    fmt::format_to(out, "    {:>10} ns  {} {} {} {}\n", note.time_ns, note.what, note.first, note.second,
                   note.detail);
  }
  return text;
}

}  // namespace craton::fabric::sim
