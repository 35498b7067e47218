#include "sim_team.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "omp/platform.hpp"

namespace craton::omp::test {

using fabric::sim::RankKilled;

class SimTeam::Host final : public TeamHost {
 public:
  Host(SimTeam& job, Rank rank) noexcept : job_(job), rank_(rank) {}

  Rank rank() const noexcept override { return rank_; }
  Rank ranks() const noexcept override { return job_.size(); }
  std::uint32_t threads_a_rank() const noexcept override { return job_.shape_.threads_a_rank; }
  TimeNs now_ns() const noexcept override { return job_.scheduler().clock().now_ns(); }

  void send(Rank to, const Message& message) override {
    TimeNs& last_ns = here().last_due_ns[to];
    last_ns = std::max(last_ns, now_ns() + job_.delay_ns());
    job_.scheduler().at(last_ns, [&there = job_.ranks_[to], message, source = rank_, this] {
      there.letters.push_back({source, message});
      job_.wake_all(there.agents);
      job_.wake_all(there.in_fabric);
    });
    others_may_run();
  }
  void serve() override { job_.handle(rank_); }
  void publish() override {
    const Known known = job_.known_of(rank_);
    others_may_run();
    here().published.merge(known);
  }
  /// What a barrier tells, the rank that is asked for leaves out once it has left that.
  void learn(Rank rank) override {
    const RankState& there = job_.ranks_[rank];
    while (there.region == here().region && there.left > here().left) {
      if (job_.is_abandoned()) throw RankKilled();
      job_.sleep_among(here().behind, "waiting until its rank has left a barrier");
    }
    const Known known = job_.ranks_[rank].published;
    others_may_run();
    job_.known_of(rank_).merge(known);
  }
  void flush_output() override { others_may_run(); }
  void give_block(void* block, std::size_t /*bytes*/) override { job_.shape_.given(block); }
  bool is_cancelled() const noexcept override {
    const TaskGroup* const group = group_to_cancel(*job_.thread().task);
    return here().team->cancellation().is_region_cancelled() || (group != nullptr && group->is_cancelled);
  }

  void wait_in_fabric(FunctionRef<bool()> condition) override {
    for (;;) {
      job_.handle(rank_);
      if (job_.is_abandoned()) throw RankKilled();
      if (condition()) return;
      if (here().letters.empty() || here().handler != nullptr)
        job_.sleep_among(here().in_fabric, "waiting in the fabric");
    }
  }
  void notify_fabric() noexcept override { job_.wake_all(here().in_fabric); }
  void wait_at_gate(FunctionRef<bool()> condition) override {
    for (;;) {
      if (job_.is_abandoned()) throw RankKilled();
      if (condition()) return;
      job_.sleep_among(here().at_gate, "waiting at the gate");
    }
  }
  void open_gate() noexcept override {
    job_.wake_all(here().at_gate);
    others_may_run();
  }

  Thread& self() override { return job_.thread(); }
  void sit(Thread& /*thread*/, const Team& /*team*/, std::uint32_t /*local*/) noexcept override {}
  bool may_cancel() const noexcept override { return job_.shape_.may_cancel; }
  bool makes_tasks(std::uint32_t /*site*/, bool makes_now) noexcept override {
    return makes_now || job_.threads_hear_;
  }

  std::uint64_t compare_exchange(std::size_t offset, std::uint64_t expected, std::uint64_t desired) override {
    return change(offset, [expected, desired](std::uint64_t now) { return now == expected ? desired : now; });
  }
  std::uint64_t fetch_add(std::size_t offset, std::uint64_t value) override {
    return change(offset, [value](std::uint64_t now) { return now + value; });
  }

  void meet(Rank ranks, std::uint32_t where, space::BarrierNote& note,
            const space::Meanwhile& meanwhile) override {
    publish();
    Meeting& meeting = job_.meetings_[{here().region, here().meetings++}];
    if (meeting.arrived == 0) {
      meeting.known = Known(job_.size());
      meeting.heard.resize(job_.size());
      meeting.site = where;
    }
    // A cancelled region's ranks need not be at the same one.
    if (!may_cancel()) job_.require(meeting.site == where, "ranks are at different barriers");
    meeting.known.merge(here().published);
    const bool is_marked = meeting.note.is_marked || note.is_marked;
    if (rank_ == 0) meeting.note = note;
    meeting.note.is_marked = is_marked;
    if (++meeting.arrived == ranks) {
      for (Rank rank = 0; rank < ranks; ++rank) {
        job_.scheduler().after(job_.latency_ns_, [this, &meeting, rank] {
          meeting.heard[rank] = true;
          job_.ranks_[rank].host->notify_fabric();
        });
      }
    }
    job_.wait_helping(here(), &meanwhile, [&] { return meeting.heard[rank_]; });
    job_.known_of(rank_).merge(meeting.known);
    note = meeting.note;
    ++here().left;
    job_.wake_all(here().behind);
  }
  /// \param site the region's number
  bool gather(Rank ranks, std::uint32_t site, const space::Meanwhile* meanwhile, bool marks) override {
    publish();
    Gathering& gathering = job_.gatherings_[site];
    if (gathering.arrived == 0) gathering.ranks = ranks;
    job_.require(gathering.ranks == ranks, "a gathering is of other ranks for one than for another");
    gathering.is_marked = gathering.is_marked || marks;
    ++gathering.arrived;
    job_.ranks_[0].host->notify_fabric();
    if (rank_ != 0) return false;
    job_.wait_helping(here(), meanwhile, [&] { return gathering.arrived == ranks; });
    for (Rank rank = 0; rank < ranks; ++rank) job_.known_of(0).merge(job_.ranks_[rank].published);
    return gathering.is_marked;
  }
  Rank tell(Rank ranks, const space::BarrierNote& told_note) override {
    publish();
    space::BarrierNote note = told_note;
    note.reach = job_.scheduler_random().one_in(2) ? ranks : job_.size();
    for (Rank rank = 1; rank < note.reach; ++rank) {
      RankState& there = job_.ranks_[rank];
      there.last_told_ns = std::max(there.last_told_ns, now_ns() + job_.delay_ns());
      job_.scheduler().at(there.last_told_ns, [&there, told = Told{note, here().published}] {
        there.told.push_back(told);
        there.host->notify_fabric();
      });
    }
    others_may_run();
    return note.reach;
  }
  space::BarrierNote hear(const space::Meanwhile* meanwhile, events::Kind /*kind*/) override {
    job_.wait_helping(here(), meanwhile, [&] { return !here().told.empty(); });
    const Told told = here().told.front();
    here().told.pop_front();
    job_.known_of(rank_).merge(told.known);
    return told.note;
  }

  bool has_put_off() const noexcept override { return here().updates->any(); }
  void apply_put_off() override {
    std::vector<std::uint64_t> before;
    for (const Variable& variable : job_.variables_) before.push_back(variable.value);
    here().updates->apply();
    job_.known_of(rank_).add(rank_);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (job_.variables_[i].value != before[i]) job_.variables_[i].known.merge(job_.known_of(rank_));
  }
  void put_off_is_applied() noexcept override { here().updates->applied(); }

  void show_partial(void* partial) noexcept override { here().partial = partial; }
  void* partial_of(Rank rank) override {
    others_may_run();
    return job_.ranks_[rank].partial;
  }
  void* allocate(std::size_t bytes) override {
    job_.memory_.push_back(std::make_unique<char[]>(bytes));
    others_may_run();
    return job_.memory_.back().get();
  }
  void free(void* pointer) override {
    const auto is_it = [&](const auto& memory) { return memory.get() == pointer; };
    const auto found = std::find_if(job_.memory_.begin(), job_.memory_.end(), is_it);
    job_.require(found != job_.memory_.end(), "memory is freed that is none");
    if (found != job_.memory_.end()) job_.memory_.erase(found);
  }

 private:
  RankState& here() const { return job_.ranks_[rank_]; }
  /// Not in handlers, which have the lock now and then.
  void others_may_run() const {
    if (here().handler == nullptr || here().handler != job_.scheduler().current()) job_.others_may_run();
  }
  /// Of a word of rank 0's: there and back.
  std::uint64_t change(std::size_t offset, const std::function<std::uint64_t(std::uint64_t)>& to) {
    std::uint64_t before = 0;
    bool is_done = false;
    job_.scheduler().after(job_.latency_ns_, [&, this] {
      std::uint64_t& word = job_.words_[offset / sizeof(std::uint64_t)];
      before = std::exchange(word, to(word));
      job_.scheduler().after(job_.latency_ns_, [&, this] {
        is_done = true;
        notify_fabric();
      });
    });
    wait_in_fabric([&] { return is_done; });
    return before;
  }

  SimTeam& job_;
  const Rank rank_;
};

class SimTeam::PutOffHost final : public UpdatesHost {
 public:
  PutOffHost(SimTeam& job, Rank rank) noexcept : job_(job), rank_(rank) {}

  Rank rank() const noexcept override { return rank_; }
  Rank ranks() const noexcept override { return job_.size(); }
  bool beats() const noexcept override { return job_.shape_.beats; }
  bool start_thread() noexcept override {
    job_.spawn_agent(rank_, [this] {
      RankState& here = job_.ranks_[rank_];
      job_.serve_wake_ups(here.late, "waiting for what is late", [&] { here.updates->do_now(); });
    });
    return true;
  }
  void wake_thread() noexcept override { job_.wake(job_.ranks_[rank_].late); }

  void claim(std::span<Claiming> claims, std::uint64_t as) override {
    visit(claims.size(), [&](std::size_t i) {
      std::uint64_t& word = job_.ranks_[claims[i].rank].put_off.claim;
      claims[i].before = word;
      if (word == 0) word = as;
    });
  }
  void read(std::span<UpdateList> lists) override {
    visit(lists.size(), [&](std::size_t i) { lists[i] = job_.ranks_[i + 1].put_off.list; });
  }
  void pause() override {
    if (!job_.is_abandoned()) job_.scheduler().sleep_until("pausing", job_.soon(), true);
    if (job_.is_abandoned()) throw RankKilled();
    job_.ranks_[rank_].host->serve();
  }
  void run_atomically(void* address, std::size_t /*bytes*/, FunctionRef<void(void* target)> body) override {
    const auto is_it = [&](const Variable& each) { return &each.value == address; };
    Variable& variable = *std::find_if(job_.variables_.begin(), job_.variables_.end(), is_it);
    while (variable.holder != nullptr) {
      job_.sleep_among(variable.waiting, "waiting for a variable");
      if (job_.is_abandoned()) throw RankKilled();
    }
    variable.holder = job_.scheduler().current();
    std::uint64_t value = variable.value;
    visit(1, [](std::size_t /*i*/) {});
    body(&value);
    job_.others_may_run();
    variable.value = value;  // in a strong block: all see it at once
    variable.holder = nullptr;
    job_.wake_all(variable.waiting);
  }

 private:
  void visit(std::size_t places, FunctionRef<void(std::size_t place)> body) {
    job_.visit(rank_, places, body);
  }

  SimTeam& job_;
  const Rank rank_;
};

/// Mutexes of a space as its tests find them: who gets one learns what its last holder has published.
class SimTeam::MutexHost final : public LockHost {
 public:
  MutexHost(SimTeam& job, Rank rank) noexcept : job_(job), rank_(rank) {}

  std::uint32_t mutexes() override { return mutexes_needed; }
  const char* remedy_for_more_mutexes() const noexcept override { return "make fewer"; }

  void lock(space::MutexId number) override {
    Mutex& mutex = job_.mutexes_[number];
    job_.others_may_run();
    while (mutex.holder.has_value()) {
      job_.sleep_among(mutex.waiting, "waiting for a mutex");
      if (job_.is_abandoned()) throw RankKilled();
    }
    take(mutex);
  }
  bool try_lock(space::MutexId number) override {
    Mutex& mutex = job_.mutexes_[number];
    job_.others_may_run();
    if (mutex.holder.has_value() || !mutex.waiting.empty()) return false;
    take(mutex);
    return true;
  }
  void unlock(space::MutexId number) override {
    job_.ranks_[rank_].host->publish();
    give(number);
  }
  void unlock_unpublished(space::MutexId number) override { give(number); }

  void read(void* into, std::size_t offset, std::size_t bytes) override {
    job_.visit(rank_, 1, [&](std::size_t /*i*/) { std::memcpy(into, at(offset), bytes); });
  }
  void write(std::size_t offset, const void* from, std::size_t bytes) override {
    job_.visit(rank_, 1, [&](std::size_t /*i*/) { std::memcpy(at(offset), from, bytes); });
  }

  void start_thread() noexcept override {
    job_.spawn_agent(rank_, [this] {
      RankState& here = job_.ranks_[rank_];
      job_.serve_wake_ups(here.unlocks, "waiting for what to unlock",
                          [&] { here.remote_unlocks->do_ordered(); });
    });
  }
  void wake_thread() noexcept override { job_.wake(job_.ranks_[rank_].unlocks); }

 private:
  char* at(std::size_t offset) { return reinterpret_cast<char*>(job_.words_.data()) + offset; }
  void take(Mutex& mutex) {
    mutex.holder = rank_;
    job_.others_may_run();
    job_.known_of(rank_).merge(mutex.known);
  }
  void give(space::MutexId number) {
    Mutex& mutex = job_.mutexes_[number];
    job_.require(mutex.holder == rank_, "a rank unlocks what it does not hold");
    mutex.known = job_.ranks_[rank_].published;
    mutex.holder.reset();
    job_.wake_all(mutex.waiting);
    job_.others_may_run();
  }

  SimTeam& job_;
  const Rank rank_;
};

SimTeam::SimTeam(std::uint64_t seed, Shape shape)
    : SimThreads(seed, shape.ranks, std::size_t{256} * 1024),
      shape_(std::move(shape)),
      latency_ns_(scheduler_random().pick(std::array<TimeNs, 3>{pace_ns / 4, pace_ns, 16 * pace_ns})),
      is_slow_now_and_then_(scheduler_random().one_in(4)),
      threads_hear_(scheduler_random().one_in(2)),
      first_number_(scheduler_random().one_in(2) ? 0 : 0xfffe),
      ranks_(shape_.ranks),
      words_((sizeof(Words) + (shape_.has_locks ? Locks::list_bytes(mutexes_needed) : 0)) /
             sizeof(std::uint64_t)) {
  for (Rank rank = 0; rank < size(); ++rank) {
    RankState& here = ranks_[rank];
    here.host = std::make_unique<Host>(*this, rank);
    here.put_off_host = std::make_unique<PutOffHost>(*this, rank);
    if (shape_.has_locks) {
      here.mutex_host = std::make_unique<MutexHost>(*this, rank);
      here.locks = std::make_unique<Locks>(*here.host, *here.mutex_host);
      here.remote_unlocks = std::make_unique<RemoteUnlocks>(*here.host, *here.mutex_host, *here.locks);
    }
    here.updates = std::make_unique<Updates>(*here.put_off_host, here.put_off);
    here.team = std::make_unique<Team>(*here.host);
    here.regions = std::make_unique<Regions>(
        *here.host, *here.team,
        [this, &here](const Team::Beginning& beginning) { start_parts(here, beginning); }, first_number_);
    // As if so many regions had been before.
    here.team->begin({.shape = {},
                      .outer = {},
                      .parent = nullptr,
                      .region = {},
                      .reach = 1,
                      .shares = 0,
                      .number = first_number_,
                      .icvs = {}});
    here.published = Known(size());
    here.last_due_ns.resize(size());
    here.orders.resize(shape_.threads_a_rank);
  }
}

SimTeam::~SimTeam() = default;

TimeNs SimTeam::delay_ns() {
  const bool is_slow = is_slow_now_and_then_ && scheduler_random().one_in(8);
  return scheduler().random_delay(latency_ns_) + (is_slow ? 100 * latency_ns_ : 0);
}

/// Has something done at so many ranks' words at a time, for a thread of `rank`, and waits until all have
/// answered. Operations on words keep no order, and those of who comes between meetings often come late.
void SimTeam::visit(Rank rank, std::size_t places, FunctionRef<void(std::size_t place)> body) {
  const auto one_way_ns = [&] {
    const bool is_late = scheduler_random().one_in(current().is_agent ? 2 : 16);
    return scheduler().random_delay((is_late ? 100 : 1) * latency_ns_);
  };
  std::size_t left = places;
  for (std::size_t i = 0; i < places; ++i) {
    const TimeNs back_ns = one_way_ns();
    scheduler().after(one_way_ns(), [&, i, back_ns] {
      body(i);
      scheduler().after(back_ns, [&] {
        --left;
        ranks_[rank].host->notify_fabric();
      });
    });
  }
  ranks_[rank].host->wait_in_fabric([&] { return left == 0; });
}

void SimTeam::sleep_among(std::vector<fabric::sim::Fiber*>& sleepers, const char* doing) {
  sleepers.push_back(scheduler().current());
  scheduler().block(doing, no_deadline);
}

void SimTeam::wake_all(std::vector<fabric::sim::Fiber*>& sleepers) {
  for (fabric::sim::Fiber* const each : std::exchange(sleepers, {})) scheduler().wake(*each);
}

/// Runs the handlers of what has come, unless some other thread does.
void SimTeam::handle(Rank rank) {
  RankState& here = ranks_[rank];
  while (here.handler == nullptr && !here.letters.empty() && !is_abandoned()) {
    const Letter letter = here.letters.front();
    here.letters.pop_front();
    here.handler = scheduler().current();
    deliver(here, letter);
    here.handler = nullptr;
    wake_all(here.in_fabric);
    others_may_run();
  }
  // What has come while another one had the handlers is its agent's.
  if (!here.letters.empty() && here.handler == nullptr) wake_all(here.agents);
}

/// As Runtime::arrived() does.
void SimTeam::deliver(RankState& here, const Letter& letter) {
  switch (letter.message.kind) {
    case Message::Kind::turn:
      return here.team->turns().arrived(letter.source, letter.message);
    case Message::Kind::cancelled:
      return here.team->cancellation().arrived(letter.message);
    case Message::Kind::posted:
      return here.team->doacross().arrived(letter.source, letter.message);
    case Message::Kind::find_holder:
    case Message::Kind::unlock:
    case Message::Kind::about_lock:
      return here.remote_unlocks->arrived(letter.source, letter.message);
    default:
      return here.team->tasks().arrived(letter.source, letter.message);
  }
}

void SimTeam::wait_helping(RankState& here, const space::Meanwhile* meanwhile,
                           FunctionRef<bool()> condition) {
  const auto can_help = [&] { return meanwhile != nullptr && meanwhile->can_run(); };
  while (!condition()) {
    if (can_help()) {
      meanwhile->run();
      maybe_switch();
    } else {
      here.host->wait_in_fabric([&] { return condition() || can_help(); });
    }
  }
}

// ---- Regions, as Runtime has its ranks and threads run them

void SimTeam::spawn_threads(const std::vector<RegionSize>& regions, const Part& part, const Part& serial) {
  part_ = part;
  serial_ = serial;
  sizes_ = regions;
  for (std::size_t region = 1; region <= regions.size(); ++region) regions_.push_back({this, region});
  const auto add = [&](const SimThread& thread) {
    threads_.resize(thread.number + 1);
    threads_[thread.number] = std::make_unique<Thread>(Icvs{});
  };
  for (Rank rank = 0; rank < size(); ++rank) {
    add(spawn(rank, [this, rank] { run_first(rank); }));
    for (std::uint32_t local = 1; local < shape_.threads_a_rank; ++local)
      add(spawn(rank, [this, rank, local] { run_other(rank, local); }));
    spawn_agent(rank, [this, rank] { serve(rank); });
    if (shape_.beats || random().one_in(2)) spawn_agent(rank, [this, rank] { beat(rank); });
  }
}

void SimTeam::serve(Rank rank) {
  for (;;) {
    handle(rank);
    if (is_abandoned()) return;
    if (ranks_[rank].letters.empty() || ranks_[rank].handler != nullptr)
      sleep_among(ranks_[rank].agents, "serving");
  }
}

void SimTeam::beat(Rank rank) {
  RankState& here = ranks_[rank];
  for (std::uint64_t beats = random().between(1, 20); beats > 0; --beats) {
    scheduler().sleep_until("between beats", soon(), true);
    if (is_abandoned()) return;
    here.team->tasks().beat();
    here.updates->beat();
    if (shape_.beats && !here.is_over) ++beats;  // as long as there is anybody
  }
}

void SimTeam::wake(WakeUps& wake_ups) {
  ++wake_ups.woken;
  wake_all(wake_ups.sleepers);
}

void SimTeam::serve_wake_ups(WakeUps& wake_ups, const char* doing, FunctionRef<void()> body) {
  for (std::uint32_t seen = 0;;) {
    if (wake_ups.woken == seen) sleep_among(wake_ups.sleepers, doing);
    if (is_abandoned()) return;
    seen = wake_ups.woken;
    body();
    others_may_run();
  }
}

// ---- What is put off

SimTeam::Variable& SimTeam::add_variable() {
  Variable& made = variables_.emplace_back();
  made.known = Known(size());
  return made;
}

/// As the hooks of patched code do (posix/atomic_hooks.cpp).
bool SimTeam::add(Variable& variable, const Arithmetic& arithmetic, std::uint64_t part,
                  Updates::Meeting meeting) {
  RankState& here = rank_of_current();
  const auto function = reinterpret_cast<std::uintptr_t>(&SimTeam::run_region);
  if (here.updates->may_put_off(thread(), meeting, function) &&
      here.updates->put_off(&variable.value, arithmetic, part))
    return true;
  here.put_off_host->run_atomically(&variable.value, arithmetic.bytes, [&](void* target) {
    auto& value = *static_cast<std::uint64_t*>(target);
    value = arithmetic.combine(value, part);
  });
  return false;
}

void SimTeam::run_region(void* data) {
  const auto& region = *static_cast<RegionData*>(data);
  region.job->part_(region.number);
}

void SimTeam::run_first(Rank rank) {
  RankState& here = ranks_[rank];
  if (rank != 0) {
    here.regions->work();
  } else {
    for (std::size_t region = 1; region <= sizes_.size(); ++region) start_region(region);
    here.regions->stop();
  }
  here.is_over = true;
  wake_all(here.idle);
}

/// As Runtime::start() does.
void SimTeam::start_parts(RankState& here, const Team::Beginning& beginning) {
  here.region = static_cast<const RegionData*>(beginning.region.data)->number;
  here.meetings = here.left = 0;
  wake_all(here.behind);
  here.team->begin(beginning);
  for (std::uint32_t local = 1; local < beginning.shape.local; ++local) ++here.orders[local];
  wake_all(here.idle);
}

/// As Runtime::begin_region() and end_region() do.
void SimTeam::start_region(std::size_t region) {
  RankState& here = ranks_[0];
  Thread& self = thread();
  if (serial_) serial_(region);
  is_in_region_ = true;
  const auto [ranks, threads] = sizes_[region - 1];
  here.regions->begin({.shape = Regions::shape_of(0, ranks, threads),
                       .outer = {},
                       .parent = self.task,
                       .region = {.function = &SimTeam::run_region,
                                  .data = &regions_[region - 1],
                                  .loop = {},
                                  .site = static_cast<std::uint32_t>(region)},
                       .reach = 1,
                       .shares = 0,
                       .number = 0,
                       .icvs = {}});
  here.team->enter(self, 0);
  run_region(&regions_[region - 1]);
  here.team->end(here.team->region().site);
  self.state = here.team->outer();
  self.task = here.team->parent();
  is_in_region_ = false;
  events::leave_region();
}

void SimTeam::run_other(Rank rank, std::uint32_t local) {
  RankState& here = ranks_[rank];
  for (std::uint32_t done = 0;; ++done) {
    while (here.orders[local] == done) {
      if (here.is_over) return;
      sleep_among(here.idle, "waiting for a region");
      if (is_abandoned()) throw RankKilled();
    }
    here.team->run_part(thread(), local);
  }
}

void SimTeam::fulfil(Rank rank, Task& task) {
  const Rank self = current().rank;
  if (rank != self) {
    ranks_[self].host->publish();
    return ranks_[self].host->send(rank, TaskPool::fulfilled(task));
  }
  if (task.pool != nullptr) return task.pool->finish(task);
  task.ends_to_come.fetch_sub(1);
  ranks_[self].host->notify_fabric();
}

}  // namespace craton::omp::test
