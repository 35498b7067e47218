#include "sim_team.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace craton::omp::test {

using fabric::sim::RankKilled;

class SimTeam::Host final : public TaskHost {
 public:
  Host(SimTeam& team, Rank rank) noexcept : team_(team), rank_(rank) {}

  Rank rank() const noexcept override { return rank_; }
  Rank ranks() const noexcept override { return team_.size(); }
  std::uint32_t threads_a_rank() const noexcept override { return team_.threads_a_rank_; }
  TimeNs now_ns() const noexcept override { return team_.scheduler().clock().now_ns(); }

  void send(Rank to, const Message& message) override {
    TimeNs& last_ns = here().last_due_ns[to];
    const TimeNs delay_ns = team_.scheduler().random_delay(team_.latency_ns_);
    last_ns = std::max(last_ns, now_ns() + delay_ns);
    team_.scheduler().at(last_ns, [&there = team_.ranks_[to], message, source = rank_, this] {
      there.letters.push_back({source, message});
      team_.wake_all(there.agents);
      team_.wake_all(there.in_fabric);
    });
    others_may_run();
  }
  void serve() override { team_.handle(rank_); }
  void publish() override {
    const Known known = team_.known_of(rank_);
    others_may_run();
    here().published.merge(known);
  }
  /// What a barrier tells, the rank that is asked for leaves out once it has left that.
  void learn(Rank rank) override {
    const RankState& there = team_.ranks_[rank];
    while (there.begun == here().begun && there.left > here().left) {
      if (team_.is_abandoned()) throw RankKilled();
      team_.sleep_among(here().behind, "waiting until its rank has left a barrier");
    }
    const Known known = team_.ranks_[rank].published;
    others_may_run();
    team_.known_of(rank_).merge(known);
  }
  void flush_output() override { others_may_run(); }
  void give_block(void* block, std::size_t /*bytes*/) override { team_.given_(block); }
  bool is_cancelled() const noexcept override { return false; }

  void wait_in_fabric(FunctionRef<bool()> condition) override {
    for (;;) {
      team_.handle(rank_);
      if (team_.is_abandoned()) throw RankKilled();
      if (condition()) return;
      if (here().letters.empty() || here().handler != nullptr)
        team_.sleep_among(here().in_fabric, "waiting in the fabric");
    }
  }
  void notify_fabric() noexcept override { team_.wake_all(here().in_fabric); }
  void wait_at_gate(FunctionRef<bool()> condition) override {
    for (;;) {
      if (team_.is_abandoned()) throw RankKilled();
      if (condition()) return;
      team_.sleep_among(here().at_gate, "waiting at the gate");
    }
  }
  void open_gate() noexcept override {
    team_.wake_all(here().at_gate);
    others_may_run();
  }

 private:
  RankState& here() const { return team_.ranks_[rank_]; }
  /// Not in handlers, which have the lock now and then.
  void others_may_run() const {
    if (here().handler == nullptr || here().handler != team_.scheduler().current()) team_.others_may_run();
  }

  SimTeam& team_;
  const Rank rank_;
};

SimTeam::SimTeam(std::uint64_t seed, Rank ranks, std::uint32_t threads_a_rank,
                 std::function<void(void*)> given)
    : SimThreads(seed, ranks, std::size_t{256} * 1024),
      threads_a_rank_(threads_a_rank),
      latency_ns_(scheduler_random().pick(std::array<TimeNs, 3>{pace_ns / 4, pace_ns, 16 * pace_ns})),
      threads_hear_(scheduler_random().one_in(2)),
      given_(std::move(given)),
      ranks_(ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    RankState& here = ranks_[rank];
    here.host = std::make_unique<Host>(*this, rank);
    here.pool = std::make_unique<TaskPool>(*here.host);
    here.implicit = std::make_unique<Task[]>(threads_a_rank);
    here.published = here.told = Known(ranks);
    here.last_due_ns.resize(ranks);
  }
}

SimTeam::~SimTeam() = default;

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
    here.pool->arrived(letter.source, letter.message);
    here.handler = nullptr;
    wake_all(here.in_fabric);
    others_may_run();
  }
  // What has come while another one had the handlers is its agent's.
  if (!here.letters.empty() && here.handler == nullptr) wake_all(here.agents);
}

// ---- Regions

void SimTeam::spawn_threads(const std::vector<Rank>& ranks, const Part& part) {
  regions_ = ranks;
  gathered_.resize(ranks.size() + 1);
  const auto add = [&](const SimThread& thread) {
    threads_.resize(thread.number + 1);
    threads_[thread.number] = std::make_unique<Thread>(Icvs{});
  };
  for (Rank rank = 0; rank < size(); ++rank) {
    add(spawn(rank, [this, rank, part] { run_first(rank, part); }));
    for (std::uint32_t local = 1; local < threads_a_rank_; ++local)
      add(spawn(rank, [this, rank, local, part] { run_other(rank, local, part); }));
    spawn_agent(rank, [this, rank] {
      for (;;) {
        handle(rank);
        if (is_abandoned()) return;
        if (ranks_[rank].letters.empty() || ranks_[rank].handler != nullptr)
          sleep_among(ranks_[rank].agents, "serving");
      }
    });
    if (random().one_in(2)) spawn_agent(rank, [this, rank] { beat(rank); });
  }
}

void SimTeam::beat(Rank rank) {
  for (std::uint64_t left = random().between(1, 20); left > 0; --left) {
    scheduler().sleep_until("between beats", soon(), true);
    if (is_abandoned()) return;
    ranks_[rank].pool->beat();
  }
}

void SimTeam::run_first(Rank rank, const Part& part) {
  RankState& here = ranks_[rank];
  for (std::size_t region = 1; region <= regions_.size(); ++region) {
    if (rank == 0) {
      here.host->publish();
      for (Rank other = 1; other < size(); ++other) tell(other, region);
    } else {
      wait_helping(here, [&] { return here.heard >= region; });
      known().merge(here.told);
      if (rank >= regions_[region - 1]) {
        ++gathered_[region];
        ranks_[0].host->notify_fabric();
        continue;
      }
    }
    here.host->wait_at_gate([&] { return here.inside == 0; });
    begin(here, region);
    run_part(here, 0, region, part);
  }
  if (rank == 0) {
    for (Rank other = 1; other < size(); ++other) tell(other, regions_.size() + 1);
  } else {
    wait_helping(here, [&] { return here.heard > regions_.size(); });
  }
}

void SimTeam::run_other(Rank rank, std::uint32_t local, const Part& part) {
  RankState& here = ranks_[rank];
  for (std::size_t region = 1; region <= regions_.size(); ++region) {
    if (rank >= regions_[region - 1]) continue;
    here.host->wait_at_gate([&] { return here.begun >= region; });
    run_part(here, local, region, part);
    if (--here.inside == 0) here.host->open_gate();
  }
}

/// Of the next region, or that there is none.
void SimTeam::tell(Rank to, std::size_t region) {
  scheduler().after(latency_ns_, [&there = ranks_[to], known = ranks_[0].published, region] {
    there.told = known;
    there.heard = region;
    there.host->notify_fabric();
  });
  maybe_switch();
}

void SimTeam::begin(RankState& here, std::size_t region) {
  const Rank ranks = regions_[region - 1];
  for (std::uint32_t local = 0; local < threads_a_rank_; ++local) here.implicit[local].group = nullptr;
  here.pool->begin(ranks, ranks * threads_a_rank_, static_cast<std::uint32_t>(region));
  here.inside = threads_a_rank_ - 1;
  here.begun = region;
  here.barriers = here.left = 0;
  here.host->open_gate();
}

void SimTeam::run_part(RankState& here, std::uint32_t local, std::size_t region, const Part& part) {
  thread().task = &here.implicit[local];
  part(region);
  come(region, true);
  thread().task = &thread().initial;
}

void SimTeam::meet(std::size_t region) {
  come(region, false);
}

void SimTeam::come(std::size_t region, bool is_end) {
  RankState& here = rank_of_current();
  maybe_switch();
  const std::uint32_t meeting = here.meetings;
  if (++here.arrived < threads_a_rank_)
    return here.pool->wait_at_barrier(thread(), [&] { return here.meetings != meeting; });
  here.pool->drain(thread());
  here.arrived = 0;
  meet_ranks(here, region, is_end);
  here.meetings = meeting + 1;
  here.host->open_gate();
}

void SimTeam::wait_helping(RankState& here, FunctionRef<bool()> condition) {
  const TaskPool::FabricWait waits(*here.pool);
  while (!condition()) {
    if (here.pool->can_help()) {
      here.pool->help(thread());
      maybe_switch();
    } else {
      here.host->wait_in_fabric([&] { return condition() || here.pool->can_help(); });
    }
  }
}

void SimTeam::meet_ranks(RankState& here, std::size_t region, bool is_end) {
  const Rank ranks = regions_[region - 1];
  const Rank self = current().rank;
  here.host->publish();
  if (is_end) {
    ++gathered_[region];
    ranks_[0].host->notify_fabric();
    if (self == 0) {
      wait_helping(here, [&] { return gathered_[region] == size(); });
      for (Rank rank = 0; rank < ranks; ++rank) known().merge(ranks_[rank].published);
    } else if (threads_hear_) {
      wait_helping(here, [&] { return here.heard > region; });
    }
    return;
  }
  Barrier& barrier = barriers_[{region, here.barriers++}];
  if (barrier.arrived == 0) {
    barrier.known = Known(size());
    barrier.heard.resize(size());
  }
  barrier.known.merge(here.published);
  if (++barrier.arrived == ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      scheduler().after(latency_ns_, [this, &barrier, rank] {
        barrier.heard[rank] = true;
        ranks_[rank].host->notify_fabric();
      });
    }
  }
  wait_helping(here, [&] { return barrier.heard[self]; });
  known().merge(barrier.known);
  ++here.left;
  wake_all(here.behind);
  here.pool->left_barrier();
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
