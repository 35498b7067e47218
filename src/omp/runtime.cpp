#include "omp/runtime.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "base/processors.hpp"
#include "coherence/block_lock.hpp"
#include "fabric/lost_peer.hpp"
#include "omp/float_control.hpp"
#include "omp/message.hpp"

namespace craton::omp {

namespace {

/// Looks at a word that take as long as waits in the fabric spin, about 20 us.
constexpr std::uint32_t looks_before_sleep = 500;
constexpr std::uint32_t looks_if_active = 100 * looks_before_sleep;
/// Of waits for other ranks, in usual ones of some 20 us. To sleep and to be woken takes 60 to 130 us where
/// the processor is idle meanwhile; who sleeps sooner is late at the next barrier, and others sleep there for
/// it.
constexpr unsigned patience_if_alone = 5;
constexpr unsigned patience_if_active = 100;
/// Where threads share CPUs, who waits must make room for whom it waits for.
constexpr std::uint32_t looks_if_crowded = 20;

const void* code_of(const Region& region) noexcept {
  return region.code != nullptr ? region.code : reinterpret_cast<const void*>(region.function);
}

}  // namespace

Runtime::Runtime(Platform& platform, const Settings& settings)
    : platform_(platform),
      settings_(settings),
      rank_(platform.fabric().rank()),
      ranks_(platform.fabric().size()),
      message_handler_(platform.first_handler()),
      initial_icvs_(settings.icvs),
      memory_("craton omp", sizeof(Words) + (rank_ == 0 ? Locks::list_bytes(platform.mutexes()) : 0)),
      outer_(*this),
      regions_(outer_.host, outer_team_,
               [this](const Team::Beginning& beginning) {
                 coherence::Counters::add(platform_.space().protocol().counters().regions);
                 start(outer_team_, beginning, outer_workers_);
               }),
      lock_host_(*this),
      locks_(outer_.host, lock_host_),
      remote_unlocks_(outer_.host, lock_host_, locks_),
      updates_host_(*this, offsetof(Words, put_off)),
      updates_(updates_host_, reinterpret_cast<Words*>(memory_.data())->put_off) {
  platform_.fabric().set_handler(message_handler_, &Runtime::arrived, this);
  platform_.fabric().register_region(platform_.first_region(), memory_);
  platform_.space().heartbeat().set_also(
      [](void* self) noexcept {
        auto& here = *static_cast<Runtime*>(self);
        here.updates_.beat();
        here.outer_team_.tasks().beat();
      },
      this);
  initial_icvs_.threads_are_chosen = !settings_.threads.empty();
  initial_icvs_.threads = settings_.threads.empty() ? default_threads() : settings_.threads[0];
  std::uint32_t ranks_here = 0;
  std::uint32_t ranks_before = 0;
  for (fabric::Rank other = 0; other < ranks_; ++other) {
    if (platform_.fabric().node_of(other) != platform_.fabric().node_of(rank_)) continue;
    ++ranks_here;
    if (other < rank_) ++ranks_before;
  }
  seat_ = seat_of_rank(static_cast<std::uint32_t>(settings_.places.size()), ranks_before, ranks_here);
  spin_.looks = looks_before_sleep;
  is_crowded_ = settings_.threads_a_rank > platform_.fabric().processors_a_rank();
  // Alone on its node, if that is not one of several on a machine.
  number_here_ = ranks_here == 1 ? rank_ : ranks_before;
  if (is_crowded_) spin_.looks = looks_if_crowded;
  if (settings_.wait_policy == WaitPolicy::active) spin_.looks = looks_if_active;
  if (settings_.wait_policy == WaitPolicy::passive) spin_.looks = 0;
  platform_.space().barrier().set_patience(patience_with_ranks(ranks_here == ranks_));
}

/// How many times as long as usual a thread looks for other ranks at a barrier before it sleeps.
unsigned Runtime::patience_with_ranks(bool are_near) const noexcept {
  switch (settings_.wait_policy) {
    case WaitPolicy::active:
      return patience_if_active;
    case WaitPolicy::passive:
      return 0;
    case WaitPolicy::undefined:
      break;
  }
  // Whether ranks that talk over a network have a processor each is not known.
  return are_near && !is_crowded_ ? patience_if_alone : 1;
}

Runtime::~Runtime() {
  platform_.space().heartbeat().set_also(nullptr, nullptr);
}

void Runtime::bind(Thread& thread) const noexcept {
  const Seat seat = seat_of(thread.state);
  if (seat.count == 0 || thread.bound_to == seat.place) return;
  use_processors(settings_.places[seat.place]);
  thread.bound_to = seat.place;
}

void Runtime::settle(Thread& thread) const noexcept {
  if (seat_.count != 0) return bind(thread);
  if (is_crowded_) return;
  const std::vector<std::uint32_t>& usable = processors();
  // The ranks of a node have one parent. Jobs side by side begin elsewhere, each.
  const auto first = static_cast<std::size_t>(::getppid());
  settle_on_processor(usable[(first + std::size_t{number_here_} * settings_.threads_a_rank) % usable.size()]);
}

void Runtime::fail(const Error& error) noexcept {
  fabric::wait_for_the_end_if_lost(error);
  platform_.fail(error.what());
  std::abort();  // not reached; the compiler does not believe it of a virtual function
}

void Runtime::end_if_lost() noexcept {
  if (platform_.fabric().lost_ranks() != 0) guard([&] { coherence::throw_lost(platform_.fabric()); });
}

void Runtime::send(fabric::Rank to, const Message& message) {
  static_cast<void>(platform_.fabric().send(to, message_handler_, &message, sizeof message));
}

void Runtime::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& here = *static_cast<Runtime*>(self);
  Message message;
  CRATON_ASSERT(bytes == sizeof message);
  std::memcpy(&message, payload, sizeof message);
  if (message.kind == Message::Kind::turn) {
    here.outer_team_.turns().arrived(source, message);
  } else if (message.kind == Message::Kind::cancelled) {
    here.outer_team_.cancellation().arrived(message);
  } else if (message.kind == Message::Kind::posted) {
    here.outer_team_.doacross().arrived(source, message);
  } else if (RemoteUnlocks::is_about(message)) {
    here.remote_unlocks_.arrived(source, message);
  } else {
    here.outer_team_.tasks().arrived(source, message);
  }
}

bool Runtime::makes_tasks(std::uint32_t site, bool makes_now) noexcept {
  std::atomic<bool>& known = task_sites_[site % task_sites_.size()];
  if (makes_now) known.store(true, std::memory_order_relaxed);
  return known.load(std::memory_order_relaxed);
}

void Runtime::read_words(void* into, std::size_t offset, std::size_t bytes) noexcept {
  fabric::Completion completion;
  platform_.fabric().get(into, word_at(offset), bytes, completion);
  guard([&] { coherence::wait_for(platform_.fabric(), completion); });
}

void Runtime::write_words(std::size_t offset, const void* from, std::size_t bytes) noexcept {
  fabric::Completion completion;
  platform_.fabric().put(word_at(offset), from, bytes, completion);
  guard([&] { coherence::wait_for(platform_.fabric(), completion); });
}

void Runtime::show_partial(void* partial) noexcept {
  auto* const words = reinterpret_cast<Words*>(memory_.data());
  std::atomic_ref(words->partial).store(reinterpret_cast<std::uintptr_t>(partial), std::memory_order_release);
}

void* Runtime::partial_of(fabric::Rank rank) {
  const fabric::RemoteAddress word = word_at(offsetof(Words, partial), rank);
  std::uint64_t address = 0;
  fabric::Completion completion;
  platform_.fabric().get(&address, word, sizeof address, completion);
  coherence::wait_for(platform_.fabric(), completion);
  return reinterpret_cast<void*>(address);
}

// ---- Blocks of tasks

void* Runtime::take_block(std::size_t bytes) {
  if (ranks_ == 1) return ::operator new(bytes);
  BlockCache& cache = self().blocks;
  const std::size_t kind = BlockCache::kind_of(bytes);
  if (kind < BlockCache::kinds && cache.counts[kind] != 0) return cache.blocks[kind][--cache.counts[kind]];
  const std::size_t whole = kind < BlockCache::kinds ? BlockCache::bytes_of(kind) : bytes;
  return guard([&] { return platform_.heap().allocate(std::max<std::size_t>(whole, 1)); });
}

void Runtime::give_block(void* block, std::size_t bytes) {
  if (ranks_ == 1) return ::operator delete(block);
  BlockCache& cache = self().blocks;
  const std::size_t kind = BlockCache::kind_of(bytes);
  if (kind < BlockCache::kinds && cache.counts[kind] < BlockCache::kept) {
    cache.blocks[kind][cache.counts[kind]++] = block;
  } else {
    guard([&] { platform_.heap().free(block); });
  }
}

void Runtime::give_back(BlockCache& cache) {
  for (std::size_t kind = 0; kind < BlockCache::kinds; ++kind) {
    while (cache.counts[kind] != 0) {
      void* const block = cache.blocks[kind][--cache.counts[kind]];
      guard([&] { platform_.heap().free(block); });
    }
  }
}

// ---- Starting regions

/// How many threads a region gets.
std::uint32_t Runtime::resolve(const Thread& thread, std::uint32_t asked) {
  const Icvs& icvs = thread.task->icvs;
  const TeamState& state = thread.state;
  if (asked == 1 || state.active_level >= icvs.max_active_levels) return 1;
  const bool is_outer = thread.is_master && state.active_level == 0;
  std::uint32_t threads = asked;
  if (asked == 0) threads = is_outer || icvs.threads_are_chosen ? icvs.threads : settings_.threads_a_rank;
  if (icvs.dynamic) threads = std::min(threads, is_outer ? default_threads() : settings_.threads_a_rank);
  if (icvs.thread_limit == no_thread_limit || threads == 1) return threads;
  if (state.active_level == 0) return std::min(threads, icvs.thread_limit);
  std::uint32_t busy = busy_.load(std::memory_order_relaxed);
  std::uint32_t granted = 1;
  do {
    granted = busy >= icvs.thread_limit ? 1 : std::min(threads, icvs.thread_limit - busy + 1);
  } while (!busy_.compare_exchange_weak(busy, busy + granted - 1, std::memory_order_relaxed));
  return granted;
}

void Runtime::begin_region(const Region& region, std::uint32_t threads) {
  Thread& thread = self();
  const std::uint32_t size = resolve(thread, threads);
  const bool is_outer = thread.is_master && thread.state.active_level == 0 && ranks_ > 1 && size > 1 &&
                        !platform_.stays_on_rank(code_of(region));
  const TeamState outer = thread.state;
  Team::Beginning beginning{.shape = Regions::shape_of(0, is_outer ? std::min(ranks_, size) : 1, size),
                            .outer = outer,
                            .parent = thread.task,
                            .region = region,
                            .reach = 1,
                            .shares = 0,
                            .number = 0,
                            .icvs = thread.task->icvs};
  if (const Binding bind = beginning.icvs.bind; bind != Binding::none)
    beginning.bind = region.bind != Binding::none ? region.bind : bind;
  const std::uint32_t inner_level = outer.level + 1;
  if (settings_.bindings.size() > inner_level) beginning.icvs.bind = settings_.bindings[inner_level];
  if (settings_.threads.size() > inner_level) {
    beginning.icvs.threads = settings_.threads[inner_level];
    beginning.icvs.threads_are_chosen = true;
  }
  Team& team = is_outer ? outer_team_ : take_idle_team();
  if (region.prepare != nullptr) region.prepare(region.data, size);
  if (is_outer) {
    in_outer_region_.store(true, std::memory_order_relaxed);
    regions_.begin(beginning);
  } else {
    beginning.shares = team.shares();
    events::enter_region(region.function);  // ends with end_region()
    start(team, beginning, team.workers());
  }
  team.enter(thread, 0);
}

void Runtime::end_region() {
  Thread& thread = self();
  Team& team = *thread.state.team;
  team.end(team.region().site);
  take_float_control(team.region().float_control);
  thread.state = team.outer();
  thread.task = team.parent();
  if (thread.task->icvs.thread_limit != no_thread_limit)
    busy_.fetch_sub(team.size() - 1, std::memory_order_relaxed);
  if (&team == &outer_team_) {
    in_outer_region_.store(false, std::memory_order_relaxed);
  } else {
    put_idle_team(team);
  }
  events::leave_region();
}

/// Begins the region in this rank, and has other threads run their parts of it.
void Runtime::start(Team& team, const Team::Beginning& beginning, std::vector<Worker*>& workers) {
  team.begin(beginning);
  const std::uint32_t limit = beginning.icvs.thread_limit;
  if (limit != no_thread_limit && beginning.outer.active_level == 0) {
    // What the region leaves is for those inside of it: each rank has a part.
    const std::uint32_t rest = limit - std::min(limit, beginning.shape.size);
    const fabric::Rank ranks = beginning.shape.ranks;
    busy_.store(limit - rest / ranks - (beginning.shape.own < rest % ranks ? 1 : 0),
                std::memory_order_relaxed);
  }
  for (std::uint32_t local = 1; local < beginning.shape.local; ++local) {
    if (workers.size() < local) workers.push_back(&take_idle_worker());
    Worker& worker = *workers[local - 1];
    worker.team = &team;
    worker.local = local;
    worker.orders.fetch_add(1, std::memory_order_release);
    worker.gate.open();
  }
}

Team& Runtime::take_idle_team() {
  const std::lock_guard lock(idle_lock_);
  if (idle_teams_ == nullptr) return (new RankTeam(*this))->team;  // see the head of team.hpp
  Team& team = *idle_teams_;
  idle_teams_ = team.next_idle;
  return team;
}

void Runtime::put_idle_team(Team& team) {
  const std::lock_guard lock(idle_lock_);
  // The last one first, so that the next team's threads have the same numbers: each has threadprivate
  // variables.
  idle_workers_.insert(idle_workers_.end(), team.workers().rbegin(), team.workers().rend());
  team.workers().clear();
  team.next_idle = idle_teams_;
  idle_teams_ = &team;
}

Worker& Runtime::take_idle_worker() {
  {
    const std::lock_guard lock(idle_lock_);
    if (!idle_workers_.empty()) {
      Worker& worker = *idle_workers_.back();
      idle_workers_.pop_back();
      return worker;
    }
  }
  auto* const worker = new Worker;  // its thread lives as long as the process
  worker->runtime = this;
  guard([&] { platform_.start_thread(&Runtime::run_worker, worker); });
  return *worker;
}

// ---- Running parts of them

void Runtime::run_worker(void* argument) {
  Worker& worker = *static_cast<Worker*>(argument);
  events::attach();
  for (std::uint32_t done = 0;; ++done) {
    {
      const events::Span span(events::Kind::idle);
      worker.gate.wait(worker.runtime->spin_,
                       [&] { return worker.orders.load(std::memory_order_acquire) != done; });
    }
    worker.team->run_part(self(), worker.local);
  }
}

}  // namespace craton::omp
