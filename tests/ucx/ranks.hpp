/// \file
/// Runs a test body in several processes, one a rank, with a UCX transport each that is driven directly: a
/// poll loop that sleeps on the transport's descriptor and no fabric around it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/ucx/ucx.hpp"

namespace craton::fabric::ucx::testing {

/// How long any wait may take. Reaching it fails the test.
inline constexpr TimeNs wait_limit_ns = 120'000'000'000;
inline constexpr RegionId test_region = 3;

/// Fails the rank's process with what was expected and seen.
template <typename Seen, typename Expected>
void expect_equal(const Seen& seen, const Expected& expected, const std::string& what) {
  if (seen == expected) return;
  throw std::runtime_error(what + ": saw " + std::to_string(seen) + ", expected " + std::to_string(expected));
}
void expect(bool holds, const std::string& what);

/// One rank, inside its process.
class TestRank final : private TransportEvents {
 public:
  TestRank(Rank rank, Rank size, UniqueFd hub, const UcxOptions& options, const JobSecret& secret);
  ~TestRank() override;

  Rank rank() const noexcept { return rank_; }
  Rank size() const noexcept { return size_; }
  Transport& transport() noexcept { return *transport_; }
  std::byte* memory() noexcept { return memory_->data(); }
  std::uint64_t* words() noexcept { return reinterpret_cast<std::uint64_t*>(memory_->data()); }

  /// Gives a string to all ranks, through the parent. Needs no transport.
  std::vector<std::string> exchange(const std::string& mine);
  void connect_all();
  /// Makes `bytes` bytes reachable at every rank.
  void register_region(std::size_t bytes);
  void barrier();
  /// Polls, and sleeps when there is nothing to do. \returns false when the time is over
  bool wait_until(const std::function<bool()>& condition, TimeNs limit_ns = wait_limit_ns);
  Status wait(Completion& completion);
  void leave();

  void get(void* destination, Rank source, std::uint64_t offset, std::size_t bytes, Completion& completion);
  void put(Rank target, std::uint64_t offset, const void* source, std::size_t bytes, Completion& completion);
  void atomic(AtomicKind kind, Rank target, std::uint64_t offset, std::uint64_t first, std::uint64_t second,
              std::uint64_t* previous, Completion& completion);
  void send(Rank target, HandlerId handler, const void* payload, std::size_t bytes);

  using Handler = std::function<void(Rank source, const std::byte* payload, std::size_t bytes)>;
  std::vector<Handler> handlers;
  std::set<Rank> lost;
  std::set<Rank> left;
  std::uint64_t messages = 0;
  std::uint64_t sleeps = 0;

 private:
  void message_arrived(Rank source, HandlerId handler, const std::byte* payload, std::size_t bytes) override;
  void region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* direct) override;
  void peer_lost(Rank peer, const char* cause) override;
  void peer_left(Rank peer) override;
  LocalPart local_part(RegionId region) const noexcept override;

  const Rank rank_;
  const Rank size_;
  UniqueFd hub_;
  SteadyClock clock_;
  std::unique_ptr<RegionMemory> memory_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::uint64_t> announced_;  ///< bytes of the region, by rank
  std::vector<std::uint64_t> barriers_;   ///< barrier messages, by rank
  std::uint64_t barrier_number_ = 0;
};

struct RunOptions {
  UcxOptions ucx;
  bool connect = true;
  std::set<Rank> expect_killed;        ///< ranks that die of SIGKILL
  std::set<Rank> with_another_secret;  ///< ranks that do not know the job's
};

/// Forks `size` processes, runs `body` in each and fails the test if any of them fails or takes too long.
void run_ranks(Rank size, const RunOptions& options, const std::function<void(TestRank&)>& body);

/// Runs `body` in a process of its own and hands back what it returns (0 to 255), or -1 if it did not end
/// well.
int run_alone(const std::function<int()>& body);

/// Why the tests cannot run here, or nothing. Looks in a child: UCX must not be loaded before a fork.
std::string reason_to_skip();

struct Network {
  const char* name;
  const char* transports;  ///< UCX_TLS
  bool ucx_emulation;      ///< UcxOptions::ucx_emulation: the calls that RDMA uses, without RDMA
};

/// Tests over each of UCX's ways between processes that every machine has.
class OverUcx : public ::testing::TestWithParam<Network> {
 protected:
  void SetUp() override {
    if (const std::string reason = reason_to_skip(); !reason.empty()) GTEST_SKIP() << reason;
  }
  RunOptions options() const {
    RunOptions options;
    options.ucx.transports = GetParam().transports;
    options.ucx.ucx_emulation = GetParam().ucx_emulation;
    return options;
  }
  bool reports_death() const { return std::string(GetParam().transports) == "tcp"; }
};

inline constexpr Network over_tcp{"tcp", "tcp", false};
inline constexpr Network over_shm{"shm", "shm,self", false};
inline constexpr Network over_tcp_native{"tcp_native", "tcp", true};
inline constexpr Network over_shm_native{"shm_native", "shm,self", true};

#define CRATON_INSTANTIATE_OVER(Suite, ...)            \
  INSTANTIATE_TEST_SUITE_P(                            \
      Networks, Suite, ::testing::Values(__VA_ARGS__), \
      [](const ::testing::TestParamInfo<Network>& network) { return network.param.name; })
#define CRATON_INSTANTIATE_OVER_UCX(Suite) \
  CRATON_INSTANTIATE_OVER(Suite, over_tcp, over_shm, over_tcp_native, over_shm_native)
#define CRATON_INSTANTIATE_OVER_SHARED_MEMORY(Suite) CRATON_INSTANTIATE_OVER(Suite, over_shm, over_shm_native)

}  // namespace craton::fabric::ucx::testing
