#include "coherence/interleaver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"

namespace craton::coherence {

namespace {

using fabric::sim::SimFabric;
using fabric::sim::World;

constexpr fabric::RegionId region = 1;
constexpr std::size_t words = 64;

/// Runs `body` on rank 0 of two, with a region of 64 words on each, under some seeds.
template <typename Body>
void on_seeds(const Body& body, std::uint32_t kill_one_in = 0) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world({.size = 2, .seed = seed, .kill_one_in = kill_one_in});
    for (fabric::Rank rank = 0; rank < 2; ++rank) {
      world.spawn(rank, [&](SimFabric& fabric) {
        fabric::RegionMemory memory("words", words * sizeof(std::uint64_t));
        fabric.register_region(region, memory);
        if (fabric.rank() == 0) body(fabric);
        fabric.unregister_region(region);
      });
    }
    const World::Outcome outcome = world.run();
    ASSERT_TRUE(outcome.failure.empty() || kill_one_in != 0) << "seed " << seed << ": " << outcome.failure;
  }
}

/// A round trip to the other rank that ends with a wait.
void add_one(SimFabric& fabric, Interleaver& interleaver, std::size_t word) {
  std::uint64_t previous = 0;
  fabric::Completion completion;
  fabric.fetch_add({.rank = 1, .region = region, .offset = word * sizeof previous}, 1, &previous, completion);
  interleaver.wait(completion);
}

std::uint64_t value_of(SimFabric& fabric, std::size_t word) {
  std::uint64_t value = 0;
  fabric::Completion completion;
  fabric.get(&value, {.rank = 1, .region = region, .offset = word * sizeof value}, sizeof value, completion);
  EXPECT_EQ(fabric.wait(completion), fabric::Status::ok);
  return value;
}

class Widths : public testing::TestWithParam<unsigned> {};

TEST_P(Widths, DoesEachActionOnceAndNoMoreThanThatAtATime) {
  const std::size_t width = std::max(1U, GetParam());
  std::size_t most_ever = 0;
  on_seeds([&](SimFabric& fabric) {
    Interleaver interleaver(fabric, GetParam());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3}, words}) {
      std::vector<int> done(words);
      std::size_t at_a_time = 0;
      std::size_t most = 0;
      interleaver.run(count, [&](std::size_t i) {
        most = std::max(most, ++at_a_time);
        add_one(fabric, interleaver, i);
        add_one(fabric, interleaver, i);
        --at_a_time;
        ++done[i];
      });
      EXPECT_EQ(std::count(done.begin(), done.end(), 1), static_cast<std::ptrdiff_t>(count));
      EXPECT_LE(most, std::min(count, width));
      most_ever = std::max(most_ever, most);
    }
    EXPECT_EQ(value_of(fabric, 0), 6U);
    EXPECT_EQ(value_of(fabric, words - 1), 2U);
  });
  EXPECT_EQ(most_ever, width);
}

INSTANTIATE_TEST_SUITE_P(Interleaver, Widths, testing::Values(0U, 1U, 2U, 16U));

TEST(Interleaver, PassesOnTheFirstExceptionWhenAllThatHadBegunHaveEnded) {
  on_seeds([](SimFabric& fabric) {
    Interleaver interleaver(fabric, 4);
    std::size_t begun = 0;
    std::size_t ended = 0;
    const auto action = [&](std::size_t i) {
      ++begun;
      if (i == 5) throw std::runtime_error("five");
      add_one(fabric, interleaver, i);
      ++ended;
    };
    EXPECT_THROW(interleaver.run(words, action), std::runtime_error);
    EXPECT_EQ(ended + 1, begun);
    EXPECT_LT(begun, words);
    interleaver.run(words, [&](std::size_t i) { add_one(fabric, interleaver, i); });  // is as good as new
  });
}

TEST(Interleaver, WakesAStrandAtItsDeadline) {
  on_seeds([](SimFabric& fabric) {
    Interleaver interleaver(fabric, 2);
    const TimeNs start_ns = fabric.clock().now_ns();
    bool told = false;
    interleaver.run(2, [&](std::size_t i) {
      if (i == 1) return add_one(fabric, interleaver, 0);
      const TimeNs until_ns = start_ns + 1'000'000;
      EXPECT_EQ(interleaver.wait_until([&] { return told; }, until_ns), fabric::Status::timed_out);
      EXPECT_GE(fabric.clock().now_ns(), until_ns);
    });
  });
}

TEST(Interleaver, EndsWithARankThatDies) {
  unsigned lost = 0;
  on_seeds(
      [&lost](SimFabric& fabric) {
        Interleaver interleaver(fabric, 4);
        try {
          for (int i = 0; i < 20; ++i)
            interleaver.run(words, [&](std::size_t word) { add_one(fabric, interleaver, word); });
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::peer_lost);
          ++lost;
        }
      },
      2000);
  EXPECT_GT(lost, 0U);
}

}  // namespace

}  // namespace craton::coherence
