/// \file
/// What the simulator promises beyond the fabric's contract: the same seed gives the same run, deadlocks and
/// livelocks are found, killed ranks leave nothing.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "fabric/barrier.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"
#include "fiber/fiber.hpp"

namespace craton::fabric::sim {
namespace {

constexpr RegionId only_region = 3;

/// A little of everything between all ranks. \returns false if a rank died meanwhile
bool traffic(SimFabric& fabric) {
  std::atomic<std::uint64_t> heard{0};
  fabric.set_handler(
      20,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept {
        ++*static_cast<std::atomic<std::uint64_t>*>(to);
      },
      &heard);
  RegionMemory memory("traffic", 4096);
  fabric.register_region(only_region, memory);
  std::uint64_t previous = 0;
  std::byte buffer[100] = {};
  bool well = true;
  for (int round = 0; round < 10; ++round) {
    Completion completion;
    for (Rank peer = 0; peer < fabric.size(); ++peer) {
      fabric.fetch_add({peer, only_region, 0}, 1, &previous, completion);
      fabric.get(buffer, {peer, only_region, 11}, sizeof buffer, completion);
      well = fabric.send(peer, 20, buffer, sizeof buffer) == Status::ok && well;
    }
    well = fabric.wait(completion) == Status::ok && well;
  }
  const auto all_heard = [&] { return heard.load() == 10 * fabric.size(); };
  const auto enough = [&] { return all_heard() || fabric.lost_ranks() != 0; };
  return fabric.wait_until(enough, no_deadline) == Status::ok && all_heard() && well;
}

World::Outcome run_ranks(std::uint64_t seed) {
  World world({.size = 4, .seed = seed});
  for (Rank rank = 0; rank < world.size(); ++rank)
    world.spawn(rank, [](SimFabric& fabric) { EXPECT_TRUE(traffic(fabric)); });
  return world.run();
}

TEST(SimWorld, SameSeedSameRun) {
  std::set<std::uint64_t> runs;
  constexpr std::uint64_t seeds = 50;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const World::Outcome first = run_ranks(seed);
    // Memory lies elsewhere the second time.
    const auto elsewhere = std::make_unique<std::byte[]>(seed * 1000);
    const World::Outcome second = run_ranks(seed);
    EXPECT_EQ(first.failure, "");
    EXPECT_EQ(first.fingerprint, second.fingerprint);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    runs.insert(first.fingerprint);
  }
  EXPECT_EQ(runs.size(), seeds) << "different seeds should give different runs";
}

TEST(SimWorld, FindsDeadlock) {
  World world({.size = 2, .seed = 5});
  world.spawn(
      0, [](SimFabric& fabric) { static_cast<void>(fabric.wait_until([] { return false; }, no_deadline)); });
  world.spawn(1, [](SimFabric&) {});
  const World::Outcome outcome = world.run();
  EXPECT_NE(outcome.failure.find("deadlock"), std::string::npos) << outcome.failure;
  EXPECT_NE(outcome.failure.find("seed 5"), std::string::npos) << outcome.failure;
  EXPECT_NE(outcome.failure.find("wait_until"), std::string::npos) << outcome.failure;
}

/// Ranks that only send, to ranks that wait for one another's handlers to make room: a real deadlock of
/// programs that hold two locks in two orders.
TEST(SimWorld, FindsDeadlockOfTwoLocks) {
  bool found = false;
  for (std::uint64_t seed = 1; seed <= 100 && !found; ++seed) {
    World world({.size = 2, .seed = seed});
    for (Rank rank = 0; rank < 2; ++rank) {
      world.spawn(rank, [](SimFabric& fabric) {
        RegionMemory memory("locks", 8);
        fabric.register_region(only_region, memory);
        const auto lock = [&](Rank of) {
          std::uint64_t previous = 1;
          Completion completion;
          fabric.compare_exchange({of, only_region, 0}, 0, 1, &previous, completion);
          ASSERT_EQ(fabric.wait(completion), Status::ok);
          if (previous != 0) static_cast<void>(fabric.wait_until([] { return false; }, no_deadline));
        };
        lock(fabric.rank());
        fabric.world().preempt();
        lock(1 - fabric.rank());
      });
    }
    found = world.run().failure.find("deadlock") != std::string::npos;
  }
  EXPECT_TRUE(found);
}

TEST(SimWorld, FindsLivelock) {
  World world({.size = 1, .seed = 1, .step_limit = 1000});
  world.spawn(0, [](SimFabric& fabric) {
    for (;;) fabric.world().preempt();
  });
  const World::Outcome outcome = world.run();
  EXPECT_NE(outcome.failure.find("livelock"), std::string::npos) << outcome.failure;
}

TEST(SimWorld, ReportsTheExceptionOfAProgram) {
  World world({.size = 3, .seed = 1});
  for (Rank rank = 0; rank < 3; ++rank) {
    world.spawn(rank, [](SimFabric& fabric) {
      if (fabric.rank() == 1) throw std::runtime_error("the milk is sour");
      static_cast<void>(fabric.wait_until([] { return false; }, no_deadline));
    });
  }
  const World::Outcome outcome = world.run();
  EXPECT_NE(outcome.failure.find("rank 1"), std::string::npos) << outcome.failure;
  EXPECT_NE(outcome.failure.find("the milk is sour"), std::string::npos) << outcome.failure;
}

TEST(SimWorld, TellsOfMessagesWithoutHandler) {
  World world({.size = 2, .seed = 1});
  world.spawn(0, [](SimFabric& fabric) { ASSERT_EQ(fabric.send(1, 77, nullptr, 0), Status::ok); });
  world.spawn(
      1, [](SimFabric& fabric) { static_cast<void>(fabric.wait_until([] { return false; }, no_deadline)); });
  EXPECT_NE(world.run().failure.find("handler 77"), std::string::npos);
}

TEST(SimWorld, ReportsAWaitInsideAHandler) {
  World world({.size = 2, .seed = 1});
  world.spawn(0, [](SimFabric& fabric) { ASSERT_EQ(fabric.send(1, 20, nullptr, 0), Status::ok); });
  world.spawn(1, [](SimFabric& fabric) {
    fabric.set_handler(
        20,
        [](void* context, Rank, const std::byte*, std::size_t) noexcept {
          static_cast<void>(static_cast<SimFabric*>(context)->wait_until([] { return true; }, no_deadline));
        },
        &fabric);
    static_cast<void>(fabric.wait_until([] { return false; }, no_deadline));
  });
  EXPECT_NE(world.run().failure.find("inside a handler"), std::string::npos);
}

TEST(SimWorld, ReportsRegionsOutOfOrder) {
  World world({.size = 2, .seed = 1});
  for (Rank rank = 0; rank < 2; ++rank) {
    world.spawn(rank, [](SimFabric& fabric) {
      RegionMemory memory("out of order", 8);
      fabric.register_region(only_region + fabric.rank(), memory);
    });
  }
  EXPECT_NE(world.run().failure.find("register_region(3)"), std::string::npos);
}

/// Counts objects, so that what a killed rank does not destroy is seen.
struct Alive {
  explicit Alive(int& in) : count(in) { ++count; }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  ~Alive() { --count; }
  int& count;
};

TEST(SimWorld, KilledRanksAreUnwound) {
  std::uint64_t disturbed = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    int alive = 0;
    {
      World world({.size = 3, .seed = seed, .kill_one_in = 100, .kills_at_most = 2});
      for (Rank rank = 0; rank < 3; ++rank) {
        world.spawn(rank, [&alive, &disturbed, &world](SimFabric& fabric) {
          const Alive own(alive);
          std::uint64_t done = 0;
          world.spawn(fabric.rank(), [&alive, &done](SimFabric& same) {
            const Alive of_thread(alive);
            same.world().preempt();
            ++done;
            same.notify();
          });
          static_cast<void>(fabric.wait_until([&done] { return done == 1; }, no_deadline));
          try {
            if (!traffic(fabric)) ++disturbed;
          } catch (const Error& error) {  // of register_region
            ASSERT_EQ(error.code(), ErrorCode::peer_lost);
            ++disturbed;
          }
        });
      }
      EXPECT_EQ(world.run().failure, "");
    }
    EXPECT_EQ(alive, 0) << "seed " << seed;
  }
  EXPECT_GT(disturbed, 50U);
}

TEST(SimWorld, EffectsOfADeadRankMayOrMayNotHappen) {
  int happened = 0;
  int never = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world({.size = 2, .seed = seed});
    for (Rank rank = 0; rank < 2; ++rank) {
      world.spawn(rank, [&](SimFabric& fabric) {
        bool ready = false;
        fabric.set_handler(
            20,
            [](void* to, Rank, const std::byte*, std::size_t) noexcept { *static_cast<bool*>(to) = true; },
            &ready);
        RegionMemory memory("effects", 8);
        fabric.register_region(only_region, memory);
        if (fabric.rank() == 1) {
          ASSERT_EQ(fabric.wait_until([&] { return ready; }, no_deadline), Status::ok);
          const std::uint64_t one = 1;
          Completion completion;
          fabric.put({0, only_region, 0}, &one, 8, completion);
          fabric.world().kill(1);
          static_cast<void>(fabric.wait(completion));
          static_cast<void>(fabric.wait_until([] { return false; }, no_deadline));
        } else {
          ASSERT_EQ(fabric.send(1, 20, nullptr, 0), Status::ok);
          ASSERT_EQ(fabric.wait_until([&] { return fabric.lost_ranks() == 1; }, no_deadline), Status::ok);
          std::uint64_t seen = 0;
          std::memcpy(&seen, memory.data(), 8);
          ++(seen == 1 ? happened : never);
          // And once the death is known, nothing comes any more.
          ASSERT_EQ(fabric.wait_until([] { return false; }, fabric.clock().now_ns() + 10'000'000),
                    Status::timed_out);
          std::uint64_t later = 0;
          std::memcpy(&later, memory.data(), 8);
          ASSERT_EQ(later, seen);
        }
      });
    }
    ASSERT_EQ(world.run().failure, "");
  }
  EXPECT_GT(happened, 20);
  EXPECT_GT(never, 20);
}

#if defined(CRATON_FIBER_TSAN)
constexpr Rank many_ranks = 50;  // ThreadSanitizer's record of a fiber takes megabytes
#else
constexpr Rank many_ranks = 1000;
#endif

TEST(SimWorld, ManyRanks) {
  World world({.size = many_ranks, .seed = 1, .ranks_per_node = 10, .stack_bytes = 64 * 1024});
  for (Rank rank = 0; rank < world.size(); ++rank) {
    world.spawn(rank, [](SimFabric& fabric) {
      Barrier barrier(fabric, first_free_handler);
      RegionMemory memory("one of many", 8);
      fabric.register_region(only_region, memory);
      Completion completion;
      std::uint64_t previous = 0;
      fabric.fetch_add({0, only_region, 0}, 1, &previous, completion);
      ASSERT_EQ(fabric.wait(completion), Status::ok);
      ASSERT_EQ(barrier.wait(), Status::ok);
      if (fabric.rank() == 0) {
        std::uint64_t sum = 0;
        std::memcpy(&sum, memory.data(), 8);
        ASSERT_EQ(sum, many_ranks);
      }
      ASSERT_EQ(barrier.wait(), Status::ok);
    });
  }
  const World::Outcome outcome = world.run();
  EXPECT_EQ(outcome.failure, "");
}

TEST(SimWorld, RefusesImpossibleJobs) {
  EXPECT_THROW(World({.size = 0}), Error);
  EXPECT_THROW(World({.size = max_ranks + 1}), Error);
  EXPECT_THROW(World({.size = 2, .ranks_per_node = 0}), Error);
}

/// What protocol code waits on works in the simulator as it does on fibers and kernel threads.
void wait_for_messages(SimFabric& fabric, int rounds) {
  struct State {
    fiber::Mutex mutex;
    fiber::Waiter* waiter = nullptr;
    int early = 0;
  } state;
  fabric.set_handler(
      20,
      [](void* to, Rank, const std::byte*, std::size_t) noexcept {
        auto& own = *static_cast<State*>(to);
        if (fiber::Waiter* const waiter = std::exchange(own.waiter, nullptr)) {
          waiter->notify();
        } else {
          ++own.early;
        }
      },
      &state);
  for (int round = 0; round < rounds; ++round) {
    if (fabric.send((fabric.rank() + 1) % fabric.size(), 20, &round, sizeof round) != Status::ok) return;
    fiber::Waiter waiter;
    if (state.early != 0) {
      --state.early;
      continue;
    }
    state.waiter = &waiter;
    waiter.wait();
  }
}

TEST(SimWorld, WaitersSuspendRanks) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world({.size = 3, .seed = seed});
    for (Rank rank = 0; rank < world.size(); ++rank)
      world.spawn(rank, [](SimFabric& fabric) { wait_for_messages(fabric, 5); });
    const World::Outcome outcome = world.run();
    ASSERT_EQ(outcome.failure, "") << "seed " << seed;
  }
}

TEST(SimWorld, MutexesExcludeThreadsOfARank) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world({.size = 2, .seed = seed});
    struct Shared {
      fiber::Mutex mutex;
      fiber::Barrier barrier{3};
      int inside = 0;
      int count = 0;
    };
    std::array<Shared, 2> shared;
    for (Rank rank = 0; rank < world.size(); ++rank) {
      for (int thread = 0; thread < 3; ++thread) {
        world.spawn(rank, [&own = shared[rank]](SimFabric& fabric) {
          for (int i = 0; i < 3; ++i) {
            own.mutex.lock();
            EXPECT_EQ(own.inside++, 0);
            // Others run meanwhile.
            EXPECT_EQ(fabric.wait_until([] { return false; }, fabric.clock().now_ns() + 1'000),
                      Status::timed_out);
            --own.inside;
            ++own.count;
            own.mutex.unlock();
            own.barrier.arrive_and_wait();
            EXPECT_GE(own.count, 3 * (i + 1));
          }
        });
      }
    }
    const World::Outcome outcome = world.run();
    ASSERT_EQ(outcome.failure, "") << "seed " << seed;
    for (const Shared& each : shared) EXPECT_EQ(each.count, 9);
  }
}

TEST(SimWorld, AKilledRankLeavesItsWaits) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    World world({.size = 3, .seed = seed});
    for (Rank rank = 0; rank < world.size(); ++rank) {
      world.spawn(rank, [&world, rank](SimFabric& fabric) {
        if (rank == 2) {
          fiber::Waiter never;
          world.kill_later(2, 10'000);
          never.wait();
          ADD_FAILURE() << "a wait ended that nobody ended";
        } else {
          EXPECT_EQ(fabric.wait_until([&fabric] { return fabric.lost_ranks() != 0; }, no_deadline),
                    Status::ok);
        }
      });
    }
    const World::Outcome outcome = world.run();
    ASSERT_EQ(outcome.failure, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace craton::fabric::sim
