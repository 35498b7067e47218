// Regions with random work shares, over ranks: each iteration runs once, ordered parts in their order, those
// that others wait for before them; whoever has met finds what was written before; and where a loop or a
// region is cancelled, all come to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "schedules.hpp"
#include "sim_team.hpp"

namespace craton::omp::test {

namespace {

constexpr std::array<const char*, 17> share_counts = {
    "fixed",   "dynamic", "guided",    "sections",       "ordered",         "doacross",
    "nowait",  "single",  "reduction", "memory",         "put off",         "not put off",
    "awaited", "barrier", "run here",  "cancelled loop", "cancelled region"};

class ShareRun {
 public:
  explicit ShareRun(std::uint64_t seed)
      : seed_(seed),
        job_(seed, {.ranks = static_cast<Rank>(2 + seed % 3),
                    .threads_a_rank = static_cast<std::uint32_t>(1 + seed / 3 % 3),
                    .may_cancel = seed / 9 % 2 == 0,
                    .beats = seed / 18 % 2 == 0}),
        may_cancel_(seed / 9 % 2 == 0),
        beats_(seed / 18 % 2 == 0) {}

  std::string go() {
    std::vector<RegionSize> sizes(random().between(1, 3));
    is_patient_ = random().one_in(2);
    cancels_often_ = random().one_in(4);
    has_many_ = !cancels_often_ && random().one_in(20);
    updates_often_ = beats_ && !may_cancel_ && !has_many_ && random().one_in(2);
    if (cancels_often_ || updates_often_) sizes.resize(random().between(2, 8));
    regions_.emplace_back(job_.size());
    for (RegionSize& size : sizes) {
      size.ranks = random().one_in(4) ? static_cast<Rank>(random().between(2, job_.size())) : job_.size();
      size.threads = static_cast<std::uint32_t>(
          random().between(size.ranks, std::uint64_t{size.ranks} * job_.threads_a_rank()));
      make_region(size);
    }
    job_.spawn_threads(sizes, [this](std::size_t region) { run_thread(region); });
    std::string failure = job_.run();
    for (const Region& region : regions_)
      if (failure.empty() && !has_sums(region)) failure = "something put off is not applied";
    if (failure.empty() && job_.allocations() != 0) failure = "shared memory is left";
    job_.abandon();
    return failure.empty() ? failure : "seed " + std::to_string(seed_) + ", " + failure;
  }

  Seen seen;

 private:
  struct Iteration {
    bool has_run = false;
    Known known{};  ///< when it has
    struct Posted {
      bool is_posted = false;
      Known known{};
    };
    std::vector<Posted> posted{};  ///< by the number of the inner loop's
  };
  struct Updated {
    SimTeam::Variable* variable;
    Arithmetic arithmetic;
    std::uint64_t sum = 0;  ///< that it is to be
  };
  struct Construct {
    enum class Kind : std::uint8_t { loop, barrier, single, reduction, memory, update };
    Kind kind;
    std::uint32_t site;
    Loop loop{};
    bool is_cancellable = false, has_barrier = false;
    std::uint64_t inner = 0;  ///< iterations of the inner loop (doacross)
    std::vector<Iteration> iterations{};
    std::uint64_t ordered = 0;  ///< the next one of the ordered parts
    Known ordered_known{};
    Known known{};  ///< of who gives
    std::uint64_t sum = 0;
    std::vector<Updated> updated{};
    std::uint32_t threads_to_come = 0;  ///< that have not added their parts
    bool is_cancelled = false;
  };
  struct Region {
    explicit Region(std::size_t ranks) : known(ranks) {}
    std::uint32_t threads = 0;
    bool is_cancellable = false, is_cancelled = false;
    std::vector<Construct> constructs{};
    Known known;  ///< of all who have run it
  };
  /// Of a reduction.
  struct Part {
    ShareRun* run;
    std::uint64_t sum;
    Known known;
  };

  Random& random() { return job_.random(); }
  Team& team() { return job_.team(); }
  Cancellation& cancellation() { return team().cancellation(); }

  // ---- Making them

  void make_region(const RegionSize& size) {
    Region& region = regions_.emplace_back(job_.size());
    region.threads = size.threads;
    region.is_cancellable = may_cancel_ && random().one_in(2);
    std::uint64_t constructs = random().between(1, cancels_often_ || updates_often_ ? 2
                                                   : random().one_in(4)             ? 20
                                                                                    : 6);
    if (has_many_) constructs = 2 * loop_words;
    for (std::uint64_t i = 0; i < constructs; ++i) make_construct(region, size);
  }

  void make_construct(Region& region, const RegionSize& size) {
    using Kind = Construct::Kind;
    Kind kind = random().one_in(has_many_ ? 100 : 3)
                    ? random().pick(std::array{Kind::barrier, Kind::single, Kind::reduction, Kind::memory,
                                               Kind::update})
                    : Kind::loop;
    if (updates_often_) kind = random().one_in(4) ? Kind::barrier : Kind::update;
    // Memory for the reductions of tasks, which a cancelled region does not make.
    if (kind == Kind::memory && region.is_cancellable) kind = Kind::barrier;
    const auto site = static_cast<std::uint32_t>(100 * regions_.size() + region.constructs.size());
    Construct& made = region.constructs.emplace_back(Construct{.kind = kind, .site = site});
    made.known = made.ordered_known = Known(job_.size());
    if (kind == Kind::update) make_updated(made, size.threads);
    if (kind == Kind::loop) make_loop(made, region.is_cancellable);
  }

  void make_updated(Construct& made, std::uint32_t threads) {
    using Operation = Arithmetic::Operation;
    made.threads_to_come = threads;
    const bool is_too_much = random().one_in(50);
    made.updated.resize(is_too_much ? UpdateList::updates_most + 1 : random().between(1, 3));
    for (Updated& each : made.updated) {
      each.variable = &job_.add_variable();
      each.arithmetic.operation = random().pick(std::array{Operation::add, Operation::bit_xor});
      each.arithmetic.bytes = random().pick(std::array<std::uint8_t, 4>{1, 2, 4, 8});
      each.arithmetic.is_floating = random().one_in(4);
      if (each.arithmetic.is_floating) each.arithmetic = {.is_floating = true, .bytes = 8};
    }
  }

  void make_loop(Construct& made, bool in_cancellable_region) {
    Loop& loop = made.loop;
    loop.kind = random().pick(std::array{WorkKind::fixed, WorkKind::dynamic, WorkKind::dynamic,
                                         WorkKind::guided, WorkKind::sections});
    const std::uint64_t count = random().below(has_many_ ? 3 : random().one_in(4) ? 30 : 8);
    loop.iterations = {.start = 0, .step = 1, .end = count, .count = count};
    loop.chunk = random().between(loop.kind == WorkKind::fixed ? 0 : 1, 3);
    if (loop.kind == WorkKind::sections) loop.chunk = 1;
    made.iterations.resize(count);
    made.has_barrier = random().one_in(has_many_ ? 100 : 2);
    // Where iterations wait for each other nobody may leave before they have run.
    const bool is_free = loop.kind == WorkKind::sections || in_cancellable_region;
    loop.ordered = !is_free && random().one_in(4);
    loop.doacross = !is_free && !loop.ordered && random().one_in(4);
    made.is_cancellable =
        may_cancel_ && made.has_barrier && !loop.ordered && !loop.doacross && random().one_in(2);
    if (!loop.doacross) return;
    made.inner = random().between(1, 3);
    for (Iteration& iteration : made.iterations) iteration.posted.resize(made.inner);
  }

  // ---- Running them

  void run_thread(std::size_t number) {
    Region& region = regions_[number];
    job_.know_at_least(regions_[number - 1].known);
    job_.require(has_sums(regions_[number - 1]), "what was put off is not there in the next region");
    if (job_.current().rank != 0) ++seen["run here"];
    std::size_t unchecked = 0;
    for (std::size_t i = 0; i < region.constructs.size(); ++i) {
      Construct& construct = region.constructs[i];
      job_.maybe_switch();
      if (random().one_in(4)) job_.compute();
      if (region.is_cancellable && random().one_in(2) && is_at_its_end(region)) return;
      if (!run_construct(region, construct)) return leave_cancelled(region);
      // It may go on till it comes to a cancellation point.
      if (cancellation().is_region_cancelled()) continue;
      if (construct.kind == Construct::Kind::loop && !construct.has_barrier) continue;
      if (construct.kind == Construct::Kind::update) continue;
      for (; unchecked <= i; ++unchecked) expect_done(region.constructs[unchecked]);
    }
    job_.wrote();
    region.known.merge(job_.known());
  }

  /// A cancellation point, between constructs.
  bool is_at_its_end(Region& region) {
    if (random().one_in(cancels_often_ ? 3 : 30)) cancel(region);
    // One that does nothing else until it is.
    int tries = 0;
    while (region.is_cancelled && is_patient_ && !cancellation().is_region_cancelled()) {
      job_.compute();
      if (++tries > 1000) {
        job_.fail("region");
        break;
      }
    }
    if (!cancellation().is_region_cancelled()) return false;
    leave_cancelled(region);
    return true;
  }
  void cancel(Region& region) {
    ++seen["cancelled region"];
    region.is_cancelled = true;
    cancellation().cancel_region();
  }
  void leave_cancelled(Region& region) {
    job_.require(region.is_cancelled, "a region is cancelled that is not");
    job_.wrote();
    region.known.merge(job_.known());
  }

  /// \returns false where the region is cancelled, so that the caller goes to its end
  bool run_construct(Region& region, Construct& construct) {
    using Kind = Construct::Kind;
    job_.wrote();
    switch (construct.kind) {
      case Kind::loop:
        return run_loop(region, construct);
      case Kind::barrier:
        return meet(region, construct.site);
      case Kind::single:
        give(region, construct);
        return true;
      case Kind::reduction:
        reduce(region, construct);
        return true;
      case Kind::memory:
        use_memory(construct);
        return true;
      case Kind::update:
        update(region, construct);
        return true;
    }
    return false;
  }

  bool meet(Region& region, std::uint32_t site) {
    ++seen["barrier"];
    if (region.is_cancellable) return !team().meet_or_end(site);
    team().meet(site);
    return true;
  }

  static const char* name_of(WorkKind kind) {
    constexpr std::array names = {"", "fixed", "dynamic", "guided", "sections"};
    return names[static_cast<std::size_t>(kind)];
  }

  /// As begin_share() or begin_doacross(), next_chunk() and end_share() do. \returns as run_construct
  bool run_loop(Region& region, Construct& construct) {
    const Loop& loop = construct.loop;
    ++seen[name_of(loop.kind)];
    TeamState& state = job_.thread().state;
    state.position = {.loop = loop, .number = ++state.shares};
    if (loop.doacross)
      team().doacross().enter(state.position, std::array{loop.iterations.count, construct.inner});
    bool goes_on = true;
    while (goes_on && team().next_chunk(state)) {
      for (std::uint64_t i = state.position.first; i < state.position.last && goes_on; ++i)
        goes_on = run_iteration(region, construct, state.position, i);
    }
    if (region.is_cancellable && cancellation().is_region_cancelled()) return false;
    team().end_share(state.position);
    if (construct.has_barrier) return meet(region, construct.site);
    ++seen["nowait"];
    return true;
  }

  /// \returns false where the loop is cancelled, so that the caller leaves it
  bool run_iteration(Region& region, Construct& construct, const LoopPosition& position,
                     std::uint64_t number) {
    Iteration& iteration = construct.iterations[number];
    job_.require(!iteration.has_run, "an iteration is run again");
    iteration.has_run = true;
    if (construct.loop.ordered) {
      run_ordered(construct, position, number);
    } else if (construct.loop.doacross) {
      run_inner(construct, position, number);
    } else if (random().one_in(4)) {
      job_.compute();
    } else {
      job_.maybe_switch();
    }
    job_.wrote();
    iteration.known = job_.known();
    if (construct.is_cancellable) {
      if (random().one_in(8)) {
        ++seen["cancelled loop"];
        construct.is_cancelled = true;
        cancellation().cancel_share();
        return false;
      }
      int tries = 0;
      while (construct.is_cancelled && is_patient_ && !cancellation().is_share_cancelled()) {
        job_.compute();
        if (++tries > 1000) {
          job_.fail("share");
          break;
        }
      }
      if (cancellation().is_share_cancelled()) {
        job_.require(construct.is_cancelled, "a loop is cancelled that is not");
        return false;
      }
    }
    if (!region.is_cancellable) return true;
    if (random().one_in(60)) cancel(region);
    return !cancellation().is_region_cancelled();
  }

  void run_ordered(Construct& construct, const LoopPosition& position, std::uint64_t number) {
    if (random().one_in(4)) return;  // it has none
    ++seen["ordered"];
    if (team().size() > 1) team().turns().wait(position);
    job_.require(construct.ordered <= number, "an ordered part runs after a later one");
    construct.ordered = number + 1;
    job_.know_at_least(construct.ordered_known);
    job_.maybe_switch();
    job_.wrote();
    construct.ordered_known = job_.known();
    job_.require(construct.ordered == number + 1, "two ordered parts run at a time");
  }

  void run_inner(Construct& construct, const LoopPosition& position, std::uint64_t outer) {
    ++seen["doacross"];
    for (std::uint64_t i = 0; i < construct.inner; ++i) {
      if (outer > 0 && random().one_in(2)) wait_for(construct, position, {random().below(outer), i});
      if (outer > 0) wait_for(construct, position, {outer - 1, i});
      job_.maybe_switch();
      job_.wrote();
      construct.iterations[outer].posted[i] = {.is_posted = true, .known = job_.known()};
      team().doacross().post(position, std::array{outer, i});
    }
  }
  void wait_for(Construct& construct, const LoopPosition& position,
                const std::array<std::uint64_t, 2>& which) {
    team().doacross().wait(position, which);
    const Iteration::Posted& posted = construct.iterations[which[0]].posted[which[1]];
    job_.require(posted.is_posted, "a wait ends before the iteration is posted");
    job_.know_at_least(posted.known);
  }

  /// As a `single` with copyprivate does.
  void give(Region& region, Construct& construct) {
    ++seen["single"];
    const bool is_first = job_.thread().state.number == 0;
    if (is_first) construct.known = job_.known();
    const void* const given = team().meet_with(is_first ? &construct : nullptr, construct.site);
    if (!cancellation().is_region_cancelled()) {
      job_.require(given == &construct, "a single gives something else");
      job_.know_at_least(construct.known);
    } else {
      job_.require(region.is_cancelled, "a region is cancelled that is not");
    }
    team().meet(construct.site + 1);
  }

  /// As a compiler's reduction does.
  void reduce(Region& region, Construct& construct) {
    ++seen["reduction"];
    Part part{.run = this, .sum = 1, .known = job_.known()};
    parts_.insert(&part);
    const auto add = [](void* into, void* from) {
      auto& all = *static_cast<Part*>(into);
      const auto& other = *static_cast<Part*>(from);
      if (all.run->parts_.count(&other) == 0) return all.run->job_.fail("a part is used that is gone");
      all.run->job_.know_at_least(other.known);
      all.sum += other.sum;
      all.known.merge(other.known);
    };
    if (team().reduce(&part, add, construct.site)) {
      job_.require(part.sum == region.threads, "a reduction leaves some out");
      construct.sum = part.sum;
    }
    team().meet(construct.site + 1);
    parts_.erase(&part);
    if (!cancellation().is_region_cancelled())
      job_.require(construct.sum == region.threads, "a reduction is not done");
  }

  void use_memory(Construct& construct) {
    ++seen["memory"];
    auto* const memory = static_cast<char*>(team().shared_memory(64, job_.thread().state.number == 0));
    job_.require(memory != nullptr && memory[job_.thread().state.number] == 0, "memory is not of zero bytes");
    memory[job_.thread().state.number] = 1;
    team().meet(construct.site + 1);
    for (std::uint32_t i = 0; i < team().size(); ++i)
      job_.require(memory[i] == 1, "threads have memory of their own");
  }

  /// Parts of reductions. Some threads then wait for the sums, which others see before all have met.
  void update(Region& region, Construct& construct) {
    const auto meeting = random().pick(std::array{Updates::Meeting::barrier, Updates::Meeting::end});
    for (Updated& each : construct.updated) {
      const bool is_floating = each.arithmetic.is_floating;
      const auto part = is_floating ? std::bit_cast<std::uint64_t>(static_cast<double>(random().below(100)))
                                    : random().below(std::uint64_t{1} << (8U * each.arithmetic.bytes - 1));
      each.sum = each.arithmetic.combine(each.sum, part);
      ++seen[job_.add(*each.variable, each.arithmetic, part, meeting) ? "put off" : "not put off"];
      job_.maybe_switch();
    }
    --construct.threads_to_come;
    if (updates_often_ && random().one_in(2)) job_.compute();  // so that some of it is late
    const bool is_too_much = construct.updated.size() > UpdateList::updates_most;
    if (!beats_ || is_too_much || region.is_cancellable || !random().one_in(4)) return;
    ++seen["awaited"];
    const auto is_there = [&](const Updated& each) { return each.variable->value == each.sum; };
    for (int tries = 0; construct.threads_to_come != 0 ||
                        !std::all_of(construct.updated.begin(), construct.updated.end(), is_there);) {
      job_.compute();
      if (++tries > 50'000) return job_.fail("a sum is not there that is waited for");
    }
  }

  /// After a barrier.
  void expect_done(const Construct& construct) {
    for (const Iteration& iteration : construct.iterations) {
      job_.require(iteration.has_run || construct.is_cancelled, "an iteration has not run");
      if (iteration.has_run) job_.know_at_least(iteration.known);
    }
    for (const Updated& each : construct.updated) {
      job_.require(each.variable->value == each.sum, "what was put off is not applied");
      job_.know_at_least(each.variable->known);
    }
  }
  static bool has_sums(const Region& region) {
    for (const Construct& construct : region.constructs)
      for (const Updated& each : construct.updated)
        if (each.variable->value != each.sum) return false;
    return true;
  }

  const std::uint64_t seed_;
  std::deque<Region> regions_;  ///< from 1 on
  std::set<const Part*> parts_;
  SimTeam job_;
  const bool may_cancel_, beats_;
  bool cancels_often_ = false, updates_often_ = false;
  bool has_many_ =
      false;  ///< loops, so that words for them are used again while some thread is at the loop before
  bool is_patient_ = false;  ///< who comes to a cancellation point waits there, where something is cancelled
};

class SharePrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SharePrograms, RunEachIterationOnce) {
  const Schedules all = run_schedules<ShareRun>(GetParam(), schedules_wanted(40'000, 500));
  expect_names_seen(all, share_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, SharePrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::omp::test
