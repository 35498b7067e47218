/// \file
/// The conformance suite over the simulator: every case with many seeds, and the proof that the suite notices
/// a fabric which breaks its contract.
///
///   CRATON_SIM_SEEDS=5000 ...   seeds a case
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <unistd.h>

#include "conformance.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::fabric::conformance {

namespace {

using sim::Mutation;
using sim::SimFabric;
using sim::World;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CRATON_SLOW_ASSERTIONS)
constexpr std::uint64_t default_seeds = 60;
#else
constexpr std::uint64_t default_seeds = 600;
#endif

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

class SimRank final : public RankContext {
 public:
  SimRank(SimFabric& on, std::uint64_t seed, std::optional<Rank> who_dies)
      : RankContext(on, seed, who_dies), world_(on.world()) {}

  std::uint64_t count(std::uint64_t simulated, std::uint64_t) const noexcept override { return simulated; }
  void compute() override { world_.preempt(); }
  void run_threads(unsigned threads, const std::function<void(unsigned)>& body) override {
    unsigned done = 0;
    for (unsigned thread = 0; thread < threads; ++thread) {
      world_.spawn(rank(), [&, thread](SimFabric&) {
        body(thread);
        ++done;
        fabric.notify();
      });
    }
    wait_for("the threads of a rank", [&] { return done == threads; });
  }
  void die_soon() override {
    world_.kill_later(rank(), random.pick(std::array<TimeNs, 3>{1'000, 10'000, 100'000}));
  }
  void fail(const std::string& what) noexcept override {
    world_.fail("rank " + std::to_string(rank()) + ": " + what);
  }

 private:
  World& world_;
};

/// What a crash must still say: the command that replays the schedule that crashed.
char replay_line[256] = "";

void say_replay_and_crash(int signal) {
  for (const char* text : {last_failed_check(), static_cast<const char*>(replay_line)}) {
    static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
  }
  std::signal(signal, SIG_DFL);
  static_cast<void>(::raise(signal));
}

World::Outcome run_case(const Case& one, std::uint64_t seed, Mutation mutation) {
  forget_failed_check();
  sim::Random shape(sim::Random::mix(seed) ^ 0x7368617065U);  // "shape"
  sim::Options options;
  options.seed = seed;
  options.mutation = mutation;
  options.size = static_cast<Rank>(shape.between(one.ranks_at_least, one.ranks_at_most));
  options.ranks_per_node = static_cast<Rank>(shape.between(1, options.size));
  // A mutated fabric cannot break what does not pass through it.
  options.direct_neighbours = mutation == Mutation::none && shape.one_in(4);
  World world(options);
  const std::optional<Rank> victim = one.victim ? std::optional(options.size - 1) : std::nullopt;
  for (Rank rank = 0; rank < options.size; ++rank) {
    world.spawn(rank, [&one, seed, victim](SimFabric& fabric) {
      SimRank context(fabric, seed, victim);
      one.body(context);
      if (!victim) context.stop();
    });
  }
  return world.run();
}

class SimConformance : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE})
      std::signal(signal, say_replay_and_crash);
  }
  static void TearDownTestSuite() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) std::signal(signal, SIG_DFL);
  }
};

TEST_P(SimConformance, HoldsUnderEverySchedule) {
  const Case& one = GetParam();
  const std::optional<std::uint64_t> only = from_environment("CRATON_SIM_SEED");
  const std::uint64_t first = only.value_or(1);
  const std::uint64_t seeds = only ? 1 : from_environment("CRATON_SIM_SEEDS").value_or(default_seeds);
  std::uint64_t events = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    std::snprintf(replay_line, sizeof replay_line,
                  "replay: CRATON_SIM_SEED=%llu %s --gtest_filter='*SimConformance*/%s'\n",
                  static_cast<unsigned long long>(seed), program_invocation_name, one.name);
    const World::Outcome outcome = run_case(one, seed, Mutation::none);
    events += outcome.steps;
    if (!outcome.failure.empty()) FAIL() << outcome.failure << replay_line;
  }
  std::printf("%llu schedules, %llu events each on average\n", static_cast<unsigned long long>(seeds),
              static_cast<unsigned long long>(events / seeds));
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Sim, SimConformance, testing::ValuesIn(all_cases()), name_of_case);

TEST(SimSuite, RunsTenThousandSchedules) {
  if (from_environment("CRATON_SIM_SEED") || from_environment("CRATON_SIM_SEEDS")) {
    GTEST_SKIP() << "the environment chooses the number of schedules";
  }
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_GE(all_cases().size() * default_seeds, 10'000U);
#endif
  std::printf("%zu cases, %llu schedules in all\n", all_cases().size(),
              static_cast<unsigned long long>(all_cases().size() * default_seeds));
}

// ---- A broken fabric is noticed

struct Broken {
  Mutation mutation;
  const char* name;
  const char* noticed_by;  ///< the case that must fail

  friend std::ostream& operator<<(std::ostream& out, const Broken& broken) { return out << broken.name; }
};

class BrokenFabric : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFabric, IsNoticed) {
  const Broken& broken = GetParam();
  const std::vector<Case> cases = all_cases();
  const auto one = std::find_if(cases.begin(), cases.end(), [&](const Case& some) {
    return std::strcmp(some.name, broken.noticed_by) == 0;
  });
  ASSERT_NE(one, cases.end());
  constexpr std::uint64_t seeds = 100;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const World::Outcome outcome = run_case(*one, seed, broken.mutation);
    if (outcome.failure.empty()) continue;
    std::printf("noticed with seed %llu: %s\n", static_cast<unsigned long long>(seed),
                outcome.failure.substr(0, outcome.failure.find('\n')).c_str());
    return;
  }
  FAIL() << "no seed of " << seeds << " noticed it";
}

std::string name_of_broken(const testing::TestParamInfo<Broken>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(
    Sim, BrokenFabric,
    testing::Values(
        Broken{Mutation::tear_words, "tear_words", "words_are_never_torn"},
        Broken{Mutation::reorder_messages, "reorder_messages", "storm_of_all_sizes"},
        Broken{Mutation::reorder_messages, "reorder_messages_of_threads", "threads_send_in_order"},
        Broken{Mutation::repeat_messages, "repeat_messages", "storm_of_all_sizes"},
        Broken{Mutation::drop_messages, "drop_messages", "storm_of_all_sizes"},
        Broken{Mutation::drop_messages, "drop_answers", "handlers_answer"},
        Broken{Mutation::overlap_handlers, "overlap_handlers", "handlers_run_one_at_a_time"},
        Broken{Mutation::lose_wakeups, "lose_wakeups", "put_and_wake"},
        Broken{Mutation::lose_wakeups, "lose_notifications", "threads_notify_waiters"},
        Broken{Mutation::split_atomics, "split_atomics", "sums_are_exact"},
        Broken{Mutation::split_atomics, "split_atomics_in_a_lock", "lock_guards_a_counter"},
        Broken{Mutation::split_atomics, "split_swaps", "swaps_form_a_chain"},
        Broken{Mutation::complete_early, "complete_early", "completion_then_message"},
        Broken{Mutation::complete_early, "complete_early_for_others", "completed_puts_are_seen_by_others"},
        Broken{Mutation::complete_early, "complete_early_in_a_lock", "lock_guards_a_counter"},
        Broken{Mutation::repeat_callbacks, "repeat_callbacks", "callbacks_run_once_and_may_issue"},
        Broken{Mutation::flush_early, "flush_early", "flush_then_message"},
        Broken{Mutation::forget_lost_peers, "forget_lost_peers", "killed_during_gets"},
        Broken{Mutation::touch_beyond, "touch_beyond", "small_sizes_at_odd_offsets"},
        Broken{Mutation::touch_beyond, "touch_a_neighbour", "neighbouring_puts_do_not_disturb"}),
    name_of_broken);

}  // namespace

}  // namespace craton::fabric::conformance
