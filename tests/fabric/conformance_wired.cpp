/// \file
/// The conformance suite over real processes and every wiring: each case once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "conformance.hpp"
#include "fabric/wired_fabric.hpp"
#include "network_namespaces.hpp"
#include "rank_processes.hpp"

namespace craton::fabric::conformance {

namespace {

/// How the ranks of a job are joined.
struct Wiring {
  const char* name;
  const char* network;         ///< between nodes, as WiredOptions::network
  const char* ucx_transports;  ///< as UCX_TLS; null without ucx
  Rank nodes;                  ///< rank modulo nodes is its node
  Rank ranks_at_most;
  bool namespaces = false;      ///< two network namespaces joined by a veth pair; the machine tells the nodes
  bool told_of_deaths = false;  ///< by the launcher, since this transport does not notice by itself
  offload::OffloadOptions offload{};

  friend std::ostream& operator<<(std::ostream& out, const Wiring& wiring) { return out << wiring.name; }
};

using offload::OffloadMode;

constexpr std::array wirings{
    Wiring{"shm", "shm", nullptr, 1, 4},
    Wiring{"tcp", "tcp", nullptr, 4, 4},
    Wiring{"mixed", "tcp", nullptr, 2, 4},
    Wiring{"ucx_tcp", "ucx", "tcp", 4, 3},
    Wiring{"ucx_shm", "ucx", "posix,sysv", 4, 3, false, true},
    Wiring{"netns", "tcp", nullptr, 2, 4, true},
    Wiring{"tcp_offload_static", "tcp", nullptr, 3, 3, false, false, {OffloadMode::fixed, 2, 1}},
    Wiring{"tcp_offload_dynamic", "tcp", nullptr, 3, 3, false, false, {OffloadMode::dynamic, 3, 2}},
    Wiring{"ucx_tcp_offload_dynamic", "ucx", "tcp", 3, 3, false, false, {OffloadMode::dynamic, 2, 1}},
    Wiring{"ucx_shm_offload_dynamic", "ucx", "posix,sysv", 3, 3, false, true, {OffloadMode::dynamic, 2, 1}},
};

constexpr int job_limit_s = 300;

class ProcessRank final : public RankContext {
 public:
  ProcessRank(Fabric& on, std::optional<Rank> who_dies, ParentLink& parent)
      : RankContext(on, static_cast<std::uint64_t>(::getppid()), who_dies), parent_(parent) {}

  std::uint64_t count(std::uint64_t, std::uint64_t real) const noexcept override { return real; }
  void compute() override { std::atomic_signal_fence(std::memory_order_seq_cst); }
  void run_threads(unsigned threads, const std::function<void(unsigned)>& body) override {
    std::vector<std::exception_ptr> thrown(threads);
    std::vector<std::thread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
      running.emplace_back([&body, &thrown, thread] {
        try {
          body(thread);
        } catch (...) {
          thrown[thread] = std::current_exception();
        }
      });
    }
    for (std::thread& one : running) one.join();
    for (const std::exception_ptr& one : thrown) {
      if (one != nullptr) std::rethrow_exception(one);
    }
  }
  void die_soon() override {
    const auto delay_ns = static_cast<long>(random.below(20'000'000));
    std::thread([delay_ns] {
      const timespec delay{0, delay_ns};
      ::nanosleep(&delay, nullptr);
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }
  void fail(const std::string& what) noexcept override { parent_.fail(what); }

 private:
  ParentLink& parent_;
};

/// What each process does.
void run_rank(ParentLink& parent, const Wiring& wiring, const NetworkNamespaces* namespaces, const Case& one,
              std::optional<Rank> victim) {
  WiredOptions options;
  options.network = wiring.network;
  options.offload = wiring.offload;
  if (namespaces != nullptr) {
    namespaces->enter(parent.rank() % wiring.nodes);
  } else {
    options.node_name = "node " + std::to_string(parent.rank() % wiring.nodes);
  }
  if (wiring.ucx_transports != nullptr) options.ucx.transports = wiring.ucx_transports;
  const SteadyClock clock;
  std::optional<WiredFabric> fabric;
  try {
    fabric.emplace(parent, options, clock);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::not_supported) throw;
    return parent.skip(error.what());
  }
  if (wiring.told_of_deaths) {
    fabric->progress().watch(parent.obituaries(), [&fabric, &parent] {
      Rank dead = 0;
      if (::read(parent.obituaries(), &dead, sizeof dead) == sizeof dead) fabric->declare_lost(dead);
      return true;
    });
  }
  if (namespaces != nullptr && fabric->size() > 2) {
    CHECK_EQUAL(fabric->node_of(2), fabric->node_of(0));
    CHECK(fabric->node_of(1) != fabric->node_of(0));
  }
  ProcessRank context(*fabric, victim, parent);
  one.body(context);
  if (!victim) context.stop();
  parent.done();
  const Status parted = fabric->farewell(context.deadline());
  if (!victim) CHECK_EQUAL(parted, Status::ok);
  if (wiring.told_of_deaths) fabric->progress().unwatch(parent.obituaries());
  fabric.reset();  // before what its handlers use
}

using Parameter = std::tuple<Wiring, Case>;

class WiredConformance : public testing::TestWithParam<Parameter> {};

TEST_P(WiredConformance, Holds) {
  const auto& [wiring, one] = GetParam();
  const Rank size =
      std::clamp(one.ranks_at_most, Rank{1}, std::max(one.ranks_at_least, wiring.ranks_at_most));
  const std::optional<Rank> victim = one.victim ? std::optional(size - 1) : std::nullopt;
  std::optional<NetworkNamespaces> namespaces;
  if (wiring.namespaces && !namespaces.emplace().reason_why_not().empty())
    GTEST_SKIP() << namespaces->reason_why_not();
  const NetworkNamespaces* const joined = namespaces ? &*namespaces : nullptr;
  const JobResult result = run_processes(size, victim, job_limit_s,
                                         [&wiring = wiring, &one = one, victim, joined](ParentLink& parent) {
                                           run_rank(parent, wiring, joined, one, victim);
                                         });
  if (!result.skipped.empty()) GTEST_SKIP() << result.skipped;
  for (const std::string& failure : result.failures) ADD_FAILURE() << failure;
}

std::string name_of(const testing::TestParamInfo<Parameter>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(Real, WiredConformance,
                         testing::Combine(testing::ValuesIn(wirings), testing::ValuesIn(all_cases())),
                         name_of);

}  // namespace

}  // namespace craton::fabric::conformance
