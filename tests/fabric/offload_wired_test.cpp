/// \file
/// Offloaded communication between processes: what the conformance suite does not ask, since it concerns
/// queues alone.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "conformance.hpp"
#include "fabric/barrier.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/wired_fabric.hpp"
#include "fiber/fiber.hpp"
#include "rank_processes.hpp"

namespace craton::fabric {

namespace {

using conformance::ParentLink;
using offload::OffloadMode;

constexpr RegionId words = 1;
constexpr std::size_t word_count = 4096;
constexpr HandlerId barrier_handler = first_free_handler;
constexpr HandlerId answer_handler = first_free_handler + 1;
constexpr int job_limit_s = 300;
constexpr TimeNs limit_ns = 120'000'000'000;

/// A rank with a region of words, and a barrier.
class OffloadedRank {
 public:
  OffloadedRank(WiredFabric& on, const Clock& with) : fabric(on), clock(with), barrier(on, barrier_handler) {}

  WiredFabric& fabric;
  const Clock& clock;
  Barrier barrier;
  RegionMemory memory{"offload test", word_count * sizeof(std::uint64_t)};

  TimeNs deadline() const { return clock.now_ns() + limit_ns; }
  void meet() { CHECK_EQUAL(barrier.wait(deadline()), Status::ok); }
  void wait_for(const char* what, FunctionRef<bool()> condition) {
    if (fabric.wait_until(condition, deadline()) != Status::ok)
      throw std::runtime_error(std::string("waited in vain for ") + what);
  }
  std::uint64_t word(std::size_t index) const {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(memory.data())[index]).load();
  }
};

RemoteAddress word_of(Rank rank, std::size_t index) {
  return {.rank = rank, .region = words, .offset = index * sizeof(std::uint64_t)};
}

struct Way {
  const char* name;
  const char* network;
  const char* ucx_transports;
  offload::OffloadOptions offload;
  bool ucx_emulation = false;  ///< of the operations that RDMA would execute: the way they are issued
};

constexpr std::array ways{
    Way{"tcp_static", "tcp", nullptr, {OffloadMode::fixed, 2, 1}},
    Way{"tcp_dynamic", "tcp", nullptr, {OffloadMode::dynamic, 2, 1}},
    Way{"tcp_dynamic_16", "tcp", nullptr, {OffloadMode::dynamic, 16, 3}},
    Way{"tcp_direct", "tcp", nullptr, {OffloadMode::direct, 3, 1}},
    Way{"ucx_tcp_dynamic", "ucx", "tcp", {OffloadMode::dynamic, 2, 1}},
    Way{"ucx_shm_dynamic", "ucx", "posix,sysv", {OffloadMode::dynamic, 2, 1}},
    Way{"ucx_native_dynamic", "ucx", "posix,sysv", {OffloadMode::dynamic, 2, 1}, true},
};

using Body = void (*)(OffloadedRank&);

void run_rank(ParentLink& parent, const Way& way, bool isolated, bool one_dies, Body body) {
  WiredOptions options;
  options.network = way.network;
  options.isolate_nodes = isolated;
  options.offload = way.offload;
  if (way.ucx_transports != nullptr) options.ucx.transports = way.ucx_transports;
  options.ucx.ucx_emulation = way.ucx_emulation;
  const SteadyClock clock;
  std::optional<WiredFabric> fabric;
  try {
    fabric.emplace(parent, options, clock);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::not_supported) throw;
    return parent.skip(error.what());
  }
  // As the launcher would tell of a death; UCX over shared memory does not notice one.
  fabric->progress().watch(parent.obituaries(), [&] {
    Rank dead = 0;
    if (::read(parent.obituaries(), &dead, sizeof dead) == sizeof dead) fabric->declare_lost(dead);
    return true;
  });
  OffloadedRank rank(*fabric, clock);
  fabric->register_region(words, rank.memory);
  body(rank);
  if (!one_dies) {
    rank.meet();
    fabric->unregister_region(words);
  }
  parent.done();
  const Status parted = fabric->farewell(rank.deadline());
  if (!one_dies) CHECK_EQUAL(parted, Status::ok);
  fabric->progress().unwatch(parent.obituaries());
  fabric.reset();
}

void run_job(Rank size, const Way& way, Body body, bool isolated = true,
             std::optional<Rank> victim = std::nullopt) {
  const conformance::JobResult result = conformance::run_processes(
      size, victim, job_limit_s,
      [&](ParentLink& parent) { run_rank(parent, way, isolated, victim.has_value(), body); });
  if (!result.skipped.empty()) GTEST_SKIP() << result.skipped;
  for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
}

// ---- What ranks do

/// What a thread has put is complete when its flush returns, however much was still in the queues.
void flush_what_is_queued(OffloadedRank& rank) {
  const Rank target = (rank.fabric.rank() + 1) % rank.fabric.size();
  std::atomic<unsigned> early{0};
  const auto put_and_flush = [&](std::size_t first) {
    for (std::uint64_t round = 1; round <= 100; ++round) {
      Completion completion;
      for (std::size_t i = 0; i < 150; ++i) {
        rank.fabric.put(word_of(target, first + i), &round, sizeof round, completion);
      }
      if (rank.fabric.flush(target) != Status::ok || !completion.done()) ++early;
      if (rank.fabric.wait(completion) != Status::ok) ++early;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 3; ++i) threads.emplace_back(put_and_flush, i * 200);
  }
  CHECK_EQUAL(early.load(), 0U);
  rank.meet();
  for (std::size_t thread = 0; thread < 3; ++thread) {
    for (std::size_t i = 0; i < 150; ++i) CHECK_EQUAL(rank.word(thread * 200 + i), 100U);
  }
}

/// Threads, and fibers beside them, add to one word of each rank.
void many_requesters(OffloadedRank& rank) {
  constexpr std::uint64_t adds = 500;
  constexpr unsigned each = 8;  // threads, and as many fibers
  const auto add = [&](unsigned seed) {
    Completion completion;
    std::vector<std::uint64_t> before(adds);
    for (std::uint64_t i = 0; i < adds; ++i) {
      const auto target = static_cast<Rank>((seed + i) % rank.fabric.size());
      rank.fabric.fetch_add(word_of(target, 0), 1, &before[i], completion);
    }
    CHECK_EQUAL(rank.fabric.wait(completion), Status::ok);
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < each; ++i) threads.emplace_back(add, i);
    fiber::Runtime runtime({.workers = 2});
    std::vector<fiber::Join> fibers;
    for (unsigned i = 0; i < each; ++i) fibers.push_back(runtime.spawn([&add, i] { add(i); }));
    for (fiber::Join& one : fibers) one.join();
  }
  rank.meet();
  std::uint64_t sum = 0;
  for (Rank other = 0; other < rank.fabric.size(); ++other) {
    std::uint64_t value = 0;
    Completion completion;
    rank.fabric.get(&value, word_of(other, 0), sizeof value, completion);
    CHECK_EQUAL(rank.fabric.wait(completion), Status::ok);
    sum += value;
  }
  CHECK_EQUAL(sum, rank.fabric.size() * 2 * each * adds);
}

/// Handlers and callbacks issue more than a queue holds.
void handlers_and_callbacks(OffloadedRank& rank) {
  constexpr unsigned asked = 100;
  constexpr unsigned each = 50;
  static std::atomic<unsigned> handled{0};
  static std::uint64_t one = 1;
  static std::array<std::uint64_t, 2> before{};  // nobody reads them
  static Completion second;
  static Completion first(
      [](void* of, Status) noexcept {
        auto& self = *static_cast<OffloadedRank*>(of);
        const Rank next = (self.fabric.rank() + 1) % self.fabric.size();
        self.fabric.fetch_add(word_of(next, 1), 1, &before[0], second);
      },
      &rank);
  rank.fabric.set_handler(
      answer_handler,
      [](void* of, Rank source, const std::byte*, std::size_t) noexcept {
        auto& self = *static_cast<OffloadedRank*>(of);
        for (unsigned i = 0; i < each; ++i) self.fabric.fetch_add(word_of(source, 0), one, &before[1], first);
        ++handled;
      },
      &rank);
  rank.meet();
  const Rank next = (rank.fabric.rank() + 1) % rank.fabric.size();
  for (unsigned i = 0; i < asked; ++i) {
    CHECK_EQUAL(rank.fabric.send(next, answer_handler, nullptr, 0), Status::ok);
  }
  rank.wait_for("the handlers", [] { return handled.load() == asked; });
  rank.wait_for("their operations", [] { return first.done(); });
  rank.wait_for("what their callbacks did", [] { return second.done(); });
  rank.meet();
  CHECK_EQUAL(rank.word(0), asked * each);
  CHECK_EQUAL(rank.word(1), asked * each);
}

/// The last rank dies under a load that keeps the queues filled.
void die_with_commands_queued(OffloadedRank& rank) {
  const Rank victim = rank.fabric.size() - 1;
  rank.meet();
  if (rank.fabric.rank() == victim) {
    // Once its words have been read or added to for a while.
    rank.wait_for("some load", [&] { return rank.word(0) > 20'000; });
    ::kill(::getpid(), SIGKILL);
  }
  std::atomic<unsigned> wrong{0};
  const auto load = [&] {
    Completion lost;
    Completion kept;
    std::vector<std::uint64_t> before(256);
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; lost.status() == Status::ok; ++i) {
      rank.fabric.fetch_add(word_of(victim, 0), 1, &before[i % before.size()], lost);
      if (i % 4 == 0) rank.fabric.get(&value, word_of(1 - rank.fabric.rank(), 1), sizeof value, kept);
    }
    for (unsigned i = 0; i < 500; ++i) rank.fabric.fetch_add(word_of(victim, 0), 1, &before[0], lost);
    const auto ended = [&] { return lost.done() && kept.done(); };
    if (rank.fabric.wait_until(ended, rank.deadline()) != Status::ok) ++wrong;
    if (kept.status() != Status::ok || rank.fabric.alive(victim)) ++wrong;
    if (rank.fabric.flush(victim) != Status::peer_lost) ++wrong;
    if (rank.fabric.flush(1 - rank.fabric.rank()) != Status::ok) ++wrong;
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 6; ++i) threads.emplace_back(load);
  }
  CHECK_EQUAL(wrong.load(), 0U);
}

unsigned executor_threads() {
  unsigned count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "craton-offload") ++count;
  }
  return count;
}

void has_no_executors(OffloadedRank& rank) {
  std::uint64_t before = 0;
  Completion completion;
  rank.fabric.fetch_add(word_of(1 - rank.fabric.rank(), 0), 1, &before, completion);
  CHECK(completion.done());
  CHECK_EQUAL(executor_threads(), 0U);
}

void has_two_executors(OffloadedRank& rank) {
  std::uint64_t before = 0;
  for (unsigned i = 0; i < 2; ++i) {  // which brings each of them to its work
    Completion completion;
    rank.fabric.fetch_add(word_of(1 - rank.fabric.rank(), 0), 1, &before, completion);
    CHECK_EQUAL(rank.fabric.wait(completion), Status::ok);
  }
  CHECK_EQUAL(executor_threads(), 2U);
}

struct Named {
  const char* name;
  Body body;
  Rank ranks;
  bool victim = false;
};
constexpr std::array cases{
    Named{"flush_what_is_queued", flush_what_is_queued, 2},
    Named{"many_requesters", many_requesters, 3},
    Named{"handlers_and_callbacks", handlers_and_callbacks, 2},
    Named{"die_with_commands_queued", die_with_commands_queued, 3, true},
};

class WiredOffload : public testing::TestWithParam<std::tuple<Way, Named>> {};

TEST_P(WiredOffload, Holds) {
  const auto& [way, one] = GetParam();
  if (way.ucx_emulation && one.victim)
    GTEST_SKIP() << "UCX 1.13 aborts a rank whose emulated put loses its target";
  run_job(one.ranks, way, one.body, true, one.victim ? std::optional(one.ranks - 1) : std::nullopt);
}

std::string name_of(const testing::TestParamInfo<std::tuple<Way, Named>>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Real, WiredOffload,
                         testing::Combine(testing::ValuesIn(ways), testing::ValuesIn(cases)), name_of);

TEST(OffloadThreads, AreNoneWhereAllShareANode) {
  run_job(2, {"shm", "tcp", nullptr, {OffloadMode::fixed, 2, 1}}, has_no_executors, false);
}

TEST(OffloadThreads, AreOneForEachStaticEndpoint) {
  run_job(2, ways[0], has_two_executors);
}

}  // namespace

}  // namespace craton::fabric
