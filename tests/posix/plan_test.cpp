/// \file
/// Reading an object's code on several threads at a time.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "posix/atomics/patch_plan.hpp"
#include "posix/atomics/readers.hpp"

namespace craton::posix {
namespace {

TEST(Readers, TakeEachBlockOnce) {
  for (const unsigned threads : {1U, 3U, 40U}) {
    std::array<std::atomic<int>, 1000> times{};
    read_in_blocks(times.size(), 7, threads, [&](std::size_t first, std::size_t last) {
      ASSERT_LE(last, times.size());
      for (std::size_t i = first; i < last; ++i) ++times[i];
    });
    for (const std::atomic<int>& each : times) ASSERT_EQ(each.load(), 1);
  }
  read_in_blocks(0, 7, 3, [](std::size_t, std::size_t) { FAIL() << "there is nothing to read"; });
}

TEST(Readers, ThrowWhatOneOfThemThrows) {
  const auto read = [](std::size_t first, std::size_t /*last*/) {
    if (first == 50) throw std::runtime_error("the block at 50");
  };
  try {
    read_in_blocks(1000, 10, 3, read);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the block at 50");
  }
}

using Facts = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>>;

/// What was found, in order.
Facts facts_of(const PatchPlan& plan) {
  Facts facts{{plan.read_bytes, plan.unread_bytes, 0}};
  for (const Run& run : plan.runs)
    facts.emplace_back(run.instructions.front().address, run.end, run.instructions.size());
  for (const PatchPlan::Trap& trap : plan.traps) facts.emplace_back(trap.instruction.address, 0, 1);
  for (const PatchPlan::Trap& one : plan.untouched) facts.emplace_back(one.instruction.address, 0, 2);
  for (const std::uintptr_t load : plan.loads_to_store) facts.emplace_back(load, 0, 3);
  return facts;
}

TEST(Plans, AreTheSameByAnyNumberOfReaders) {
  const std::optional<CodeMap> library = code_map_at(reinterpret_cast<const void*>(&std::rand));
  ASSERT_TRUE(library.has_value());
  SharedMemory shared;
  shared.hooks.look = [](const Look&, Perform, void*) {};
  const auto facts_by = [&](unsigned threads) { return facts_of(Planner(*library, shared, threads).make()); };
  const Facts alone = facts_by(1);
  EXPECT_GT(alone.size(), 100U);  // of its locks
  for (const unsigned threads : {2U, 5U}) EXPECT_EQ(facts_by(threads), alone) << threads;
}

}  // namespace
}  // namespace craton::posix
