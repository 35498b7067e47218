/// \file
/// The times of a simulated world with Options::timing: what the LogGP model says, to the nanosecond.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/barrier.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::fabric::sim {
namespace {

constexpr RegionId region = 3;
constexpr HandlerId handler = 20;
constexpr std::size_t bytes = 200;

// Numbers of which no sum of a few is another's.
constexpr TimeNs latency_ns = 1000;
constexpr TimeNs overhead_ns = 100;
constexpr TimeNs gap_ns = 41;
constexpr TimeNs transfer_ns = 100;  // of `bytes`
constexpr TimeNs access_ns = 7;
constexpr LogGP network{.latency_ns = latency_ns,
                        .overhead_ns = overhead_ns,
                        .gap_ns = gap_ns,
                        .gap_ns_per_byte = 0.5,
                        .one_sided = OneSided::target_nic,
                        .access_ns = access_ns};

LogGP served_by(OneSided who) {
  LogGP changed = network;
  changed.one_sided = who;
  return changed;
}

Options options_of(Rank size, const LogGP& between_nodes = network) {
  return {.size = size, .timing = Timing{.network = between_nodes, .neighbours = {}, .local = {}}};
}

/// Runs a program on all ranks. The world's time at its end.
TimeNs run(const Options& options, const std::function<void(SimFabric&)>& program) {
  World world(options);
  for (Rank rank = 0; rank < world.size(); ++rank) world.spawn(rank, program);
  const World::Outcome outcome = world.run();
  EXPECT_EQ(outcome.failure, "");
  return outcome.virtual_ns;
}

/// What one operation of rank 0 takes, from its call to its completion.
using Operation = std::function<void(SimFabric&, std::vector<std::byte>& buffer, Completion&)>;
TimeNs time_of(const Options& options, const Operation& operation, TimeNs target_computes_ns = 0) {
  TimeNs taken_ns = -1;
  run(options, [&](SimFabric& fabric) {
    RegionMemory memory("timing", 4096);
    fabric.register_region(region, memory);
    if (fabric.rank() == 0) {
      std::vector<std::byte> buffer(bytes);
      const TimeNs before_ns = fabric.clock().now_ns();
      Completion completion;
      operation(fabric, buffer, completion);
      EXPECT_EQ(fabric.wait(completion), Status::ok);
      taken_ns = fabric.clock().now_ns() - before_ns;
    } else {
      fabric.world().compute(target_computes_ns);
    }
    fabric.unregister_region(region);
  });
  return taken_ns;
}

void put(SimFabric& fabric, std::vector<std::byte>& buffer, Completion& completion) {
  fabric.put({1, region, 0}, buffer.data(), bytes, completion);
}
void get(SimFabric& fabric, std::vector<std::byte>& buffer, Completion& completion) {
  fabric.get(buffer.data(), {1, region, 0}, bytes, completion);
}
void add(SimFabric& fabric, std::vector<std::byte>& buffer, Completion& completion) {
  fabric.fetch_add({1, region, 0}, 1, reinterpret_cast<std::uint64_t*>(buffer.data()), completion);
}

TEST(SimTiming, OneSidedByTheNetworkCard) {
  const Options options = options_of(2);
  EXPECT_EQ(time_of(options, put), 2 * overhead_ns + 2 * latency_ns + transfer_ns);
  EXPECT_EQ(time_of(options, get), 2 * overhead_ns + 2 * latency_ns + transfer_ns);
  EXPECT_EQ(time_of(options, add), 2 * overhead_ns + 2 * latency_ns);
}

TEST(SimTiming, OneSidedByTheTargetsCpu) {
  const Options options = options_of(2, served_by(OneSided::target_cpu));
  for (const TimeNs target_computes_ns : {TimeNs{0}, TimeNs{1'000'000}}) {  // its agent serves either way
    EXPECT_EQ(time_of(options, put, target_computes_ns), 4 * overhead_ns + 2 * latency_ns + transfer_ns);
    EXPECT_EQ(time_of(options, get, target_computes_ns), 4 * overhead_ns + 2 * latency_ns + transfer_ns);
    EXPECT_EQ(time_of(options, add, target_computes_ns), 4 * overhead_ns + 2 * latency_ns);
  }
}

TEST(SimTiming, OneSidedByTheInitiatorsCpu) {
  const Options options = options_of(2, served_by(OneSided::initiator_cpu));
  EXPECT_EQ(time_of(options, put), access_ns + transfer_ns);
  EXPECT_EQ(time_of(options, get), access_ns + transfer_ns);
  EXPECT_EQ(time_of(options, add), access_ns + 4);  // 8 bytes
}

TEST(SimTiming, OperationsMoveTheirBytes) {
  for (const OneSided who : {OneSided::target_nic, OneSided::target_cpu, OneSided::initiator_cpu}) {
    run(options_of(2, served_by(who)), [](SimFabric& fabric) {
      RegionMemory memory("timing", 4096);
      fabric.register_region(region, memory);
      if (fabric.rank() == 0) {
        const std::array<std::uint64_t, 3> written{11, 22, 33};
        std::array<std::uint64_t, 3> read{};
        std::uint64_t previous = 0;
        Completion completion;
        fabric.put({1, region, 0}, written.data(), sizeof written, completion);
        EXPECT_EQ(fabric.wait(completion), Status::ok);
        fabric.fetch_add({1, region, 8}, 5, &previous, completion);
        EXPECT_EQ(fabric.wait(completion), Status::ok);
        EXPECT_EQ(previous, 22U);
        fabric.get(read.data(), {1, region, 0}, sizeof read, completion);
        EXPECT_EQ(fabric.wait(completion), Status::ok);
        EXPECT_EQ(read, (std::array<std::uint64_t, 3>{11, 27, 33}));
      }
      fabric.unregister_region(region);
    });
  }
}

/// A gap keeps the port, not the operation.
TEST(SimTiming, PortsKeepOperationsApart) {
  const auto two = [](SimFabric& fabric, std::vector<std::byte>& buffer, Completion& completion) {
    get(fabric, buffer, completion);
    get(fabric, buffer, completion);
  };
  // The second's answer finds the port of the target busy with the first one's, and its gap.
  EXPECT_EQ(time_of(options_of(2), two), 2 * overhead_ns + 2 * latency_ns + 2 * transfer_ns + gap_ns);
}

/// When handlers have run, in order. Each of `routes` sends one message at time 0.
struct Route {
  Rank source, target;
};
std::vector<TimeNs> arrivals(const Options& options, const std::vector<Route>& routes) {
  struct Heard {
    SimFabric* fabric = nullptr;
    std::vector<TimeNs>* times_ns = nullptr;
    std::size_t here = 0;
  };
  std::vector<TimeNs> times_ns;
  run(options, [&](SimFabric& fabric) {
    Heard heard{.fabric = &fabric, .times_ns = &times_ns};
    const auto note = [](void* to, Rank, const std::byte*, std::size_t) noexcept {
      auto& self = *static_cast<Heard*>(to);
      self.times_ns->push_back(self.fabric->clock().now_ns());
      ++self.here;
    };
    fabric.set_handler(handler, note, &heard);
    const std::vector<std::byte> buffer(bytes);
    std::size_t sent = 0;
    std::size_t due = 0;
    for (const Route& route : routes) {
      if (route.target == fabric.rank()) ++due;
      if (route.source != fabric.rank()) continue;
      EXPECT_EQ(fabric.send(route.target, handler, buffer.data(), bytes), Status::ok);
      EXPECT_EQ(fabric.clock().now_ns(), static_cast<TimeNs>(++sent) * overhead_ns);
    }
    EXPECT_EQ(fabric.wait_until([&] { return heard.here == due; }, no_deadline), Status::ok);
  });
  return times_ns;
}

constexpr TimeNs alone_ns = 2 * overhead_ns + latency_ns + transfer_ns;

TEST(SimTiming, Message) {
  EXPECT_EQ(arrivals(options_of(2), {{0, 1}}), std::vector<TimeNs>{alone_ns});
}

TEST(SimTiming, TwoSendersToOneReceiver) {
  EXPECT_EQ(arrivals(options_of(3), {{0, 2}, {1, 2}}),
            (std::vector<TimeNs>{alone_ns, alone_ns + transfer_ns + gap_ns}));
}

TEST(SimTiming, OneSenderToTwoReceivers) {
  EXPECT_EQ(arrivals(options_of(3), {{0, 1}, {0, 2}}),
            (std::vector<TimeNs>{alone_ns, alone_ns + transfer_ns + gap_ns}));
}

TEST(SimTiming, TheReceiversCpuIsOne) {
  LogGP slow = network;
  slow.overhead_ns = 700;
  // Bytes are there 141 ns apart; the second handler waits for the first one's overhead.
  World world(options_of(3, slow));
  const TimeNs first_ns = 2 * slow.overhead_ns + latency_ns + transfer_ns;
  std::vector<TimeNs> times_ns;
  for (const Rank source : {Rank{0}, Rank{1}}) {
    world.spawn(source, [](SimFabric& fabric) {
      const std::vector<std::byte> buffer(bytes);
      EXPECT_EQ(fabric.send(2, handler, buffer.data(), bytes), Status::ok);
    });
  }
  struct Heard {
    SimFabric& fabric;
    std::vector<TimeNs>& times_ns;
  };
  world.spawn(2, [&times_ns](SimFabric& fabric) {
    Heard heard{.fabric = fabric, .times_ns = times_ns};
    const auto note = [](void* to, Rank, const std::byte*, std::size_t) noexcept {
      const auto& self = *static_cast<Heard*>(to);
      self.times_ns.push_back(self.fabric.clock().now_ns());
    };
    fabric.set_handler(handler, note, &heard);
    EXPECT_EQ(fabric.wait_until([&] { return times_ns.size() == 2; }, no_deadline), Status::ok);
  });
  EXPECT_EQ(world.run().failure, "");
  EXPECT_EQ(times_ns, (std::vector<TimeNs>{first_ns, first_ns + slow.overhead_ns}));
}

TEST(SimTiming, RanksOfANodeShareItsPort) {
  Options options = options_of(4);
  EXPECT_EQ(arrivals(options, {{0, 2}, {1, 3}}), (std::vector<TimeNs>{alone_ns, alone_ns}));
  options.ranks_per_node = 2;
  EXPECT_EQ(arrivals(options, {{0, 2}, {1, 3}}),
            (std::vector<TimeNs>{alone_ns, alone_ns + transfer_ns + gap_ns}));
}

TEST(SimTiming, NeighboursHaveTheirOwn) {
  Options options = options_of(4);
  options.ranks_per_node = 2;
  options.timing->neighbours = {.latency_ns = 10, .overhead_ns = overhead_ns};
  EXPECT_EQ(arrivals(options, {{0, 1}, {1, 0}}),
            (std::vector<TimeNs>{2 * overhead_ns + 10, 2 * overhead_ns + 10}));
  options.timing->neighbours.one_sided = OneSided::initiator_cpu;
  EXPECT_EQ(time_of(options, get), 0);
}

TEST(SimTiming, Computing) {
  EXPECT_EQ(run(options_of(1), [](SimFabric& fabric) { fabric.world().compute(12'345); }), 12'345);
  // What was charged is done first, and delays what the rank issues.
  EXPECT_EQ(run(options_of(1),
                [](SimFabric& fabric) {
                  fabric.charge(300);
                  fabric.charge(200);
                  fabric.world().compute(1000);
                }),
            1500);
  const auto charged_get = [](SimFabric& fabric, std::vector<std::byte>& buffer, Completion& completion) {
    fabric.charge(300);
    get(fabric, buffer, completion);
  };
  EXPECT_EQ(time_of(options_of(2), charged_get), 300 + 2 * overhead_ns + 2 * latency_ns + transfer_ns);
}

/// Who has polled long enough sleeps, as does the agent of who computes, and must be woken first.
TEST(SimTiming, Sleepers) {
  constexpr TimeNs wake_ns = 5000;
  Options options = options_of(2, served_by(OneSided::target_cpu));
  options.timing->network.wake_ns = wake_ns;
  options.timing->local.polling_ns = 3000;
  const TimeNs awake_ns = 4 * overhead_ns + 2 * latency_ns + transfer_ns;
  EXPECT_EQ(time_of(options, get, 0), awake_ns);
  // The initiator polls for long enough, but not for the target to be woken as well.
  EXPECT_EQ(time_of(options, get, 1'000'000), awake_ns + 2 * wake_ns);
  options.timing->local.polling_ns = 8000;
  EXPECT_EQ(time_of(options, get, 1'000'000), awake_ns + wake_ns);
}

TEST(SimTiming, DeadlinesAreExact) {
  EXPECT_EQ(run(options_of(1),
                [](SimFabric& fabric) {
                  EXPECT_EQ(fabric.wait_until([] { return false; }, 777), Status::timed_out);
                }),
            777);
}

/// Everybody talks to everybody.
World::Outcome run_traffic(std::uint64_t seed) {
  Options options = options_of(6, served_by(OneSided::target_cpu));
  options.ranks_per_node = 2;
  options.timing->neighbours = {.latency_ns = 10, .overhead_ns = 3, .gap_ns = 2, .gap_ns_per_byte = 0.1};
  options.seed = seed;
  World world(options);
  for (Rank rank = 0; rank < world.size(); ++rank) {
    world.spawn(rank, [](SimFabric& fabric) {
      Barrier barrier(fabric, fabric_barrier_handler + first_free_handler);
      RegionMemory memory("timing", 4096);
      fabric.register_region(region, memory);
      std::vector<std::byte> buffer(bytes);
      for (int round = 0; round < 20; ++round) {
        Completion completion;
        for (Rank peer = 0; peer < fabric.size(); ++peer) {
          fabric.get(buffer.data(), {peer, region, 0}, bytes, completion);
          fabric.put({peer, region, 8 * fabric.rank()}, buffer.data(), 8, completion);
        }
        EXPECT_EQ(fabric.wait(completion), Status::ok);
        EXPECT_EQ(barrier.wait(), Status::ok);
      }
    });
  }
  return world.run();
}

TEST(SimTiming, TheSameEachTimeAndForEachSeed) {
  const World::Outcome first = run_traffic(1);
  EXPECT_EQ(first.failure, "");
  for (const std::uint64_t seed : {1U, 1U, 2U, 99U}) {
    const World::Outcome other = run_traffic(seed);
    EXPECT_EQ(other.virtual_ns, first.virtual_ns);
    EXPECT_EQ(other.steps, first.steps);
    EXPECT_EQ(other.fingerprint, first.fingerprint);
  }
}

TEST(SimTiming, BarrierGrowsWithTheLogarithmOfRanks) {
  // Dissemination: each round all send one message of 4 bytes, which takes 2 ns, and receive one.
  constexpr TimeNs round_ns = 2 * overhead_ns + latency_ns + 2;
  TimeNs expected_ns = 0;
  for (Rank size = 1; size <= 256; size *= 2) {
    const TimeNs taken_ns = run(options_of(size), [](SimFabric& fabric) {
      Barrier barrier(fabric, handler);
      EXPECT_EQ(barrier.wait(), Status::ok);
    });
    EXPECT_EQ(taken_ns, expected_ns) << size << " ranks";
    expected_ns += round_ns;
  }
}

/// A killed rank is unwound and its peers learn of it, wherever it pays, sleeps or waits.
TEST(SimTiming, DeathEndsWhatWaitsForIt) {
  for (TimeNs after_ns = 0; after_ns <= 2600; after_ns += 50) {
    run(options_of(2), [after_ns](SimFabric& fabric) {
      RegionMemory memory("timing", 4096);
      fabric.register_region(region, memory);
      World& world = fabric.world();
      if (fabric.rank() == 0) {
        world.spawn(0, [after_ns](SimFabric& killer) {
          killer.world().compute(after_ns);
          killer.world().kill(1);
        });
      }
      const Rank peer = 1 - fabric.rank();
      std::vector<std::byte> buffer(bytes);
      Status status = Status::ok;
      while (status == Status::ok) {
        Completion completion;
        fabric.get(buffer.data(), {peer, region, 0}, bytes, completion);
        status = fabric.wait(completion);
      }
      EXPECT_EQ(status, Status::peer_lost);
      EXPECT_EQ(fabric.rank(), 0U);
    });
  }
}

TEST(SimTiming, RefusesWhatItCannotTime) {
  std::array<Options, 3> wrong{options_of(2), options_of(2), options_of(2)};
  wrong[0].direct_neighbours = true;
  wrong[1].kill_one_in = 10;
  wrong[2].mutation = Mutation::tear_words;
  for (const Options& options : wrong) {
    try {
      const World world(options);
      ADD_FAILURE() << "not refused: number " << &options - wrong.data();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace craton::fabric::sim
