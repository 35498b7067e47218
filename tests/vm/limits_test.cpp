/// \file
/// How far each mechanism goes, and what is said where it ends; which ones there are.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.hpp"
#include "segment_rig.hpp"
#include "vm/mprotect_page_table.hpp"

namespace craton::vm {
namespace {

std::vector<Run> every_other(std::uint64_t blocks) {
  std::vector<vm::Run> runs;
  for (BlockIndex block = 0; block < blocks; block += 2) runs.push_back({.first = block, .count = 1});
  return runs;
}

std::string message_of(PageTable& table, std::span<const Run> runs, Access access) {
  try {
    table.set_access(runs, access);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_resources);
    return error.what();
  }
  return "nothing was thrown";
}

// Protecting what is not there yet takes no memory, but opening it does; so the states are those of 8 GiB,
// and the bytes those of the pages in a stretch of it.
TEST(Limits, UserfaultfdNeedsNoMappings) {
  if (const std::string why_not = missing(Backend::userfaultfd); !why_not.empty()) GTEST_SKIP() << why_not;
#if defined(CRATON_FIBER_SANITIZED)
  constexpr std::uint64_t open_blocks = 1U << 13U;
#else
  constexpr std::uint64_t open_blocks = 1U << 16U;
#endif
  constexpr std::uint64_t blocks = (std::uint64_t{8} << 30U) / page_bytes;
  SegmentRig rig(Backend::userfaultfd, blocks);
  std::vector<vm::Run> runs;
  // Every other block of a stretch, and of the rest a block in 64, is in another state than its neighbours.
  for (BlockIndex block = 0; block < blocks; block += block < open_blocks ? 2 : 64)
    runs.push_back({.first = block, .count = 1});
  rig.table().set_access(runs, Access::read);
  EXPECT_LT(count_maps(), 1000U);
  rig.store((blocks - 64) * page_bytes, 1);
  EXPECT_EQ(rig.load(page_bytes), 0U);
  EXPECT_EQ(rig.handler().writes, 1);
  EXPECT_EQ(rig.handler().reads, 1);
  rig.table().set_access(runs, Access::none);
  EXPECT_LT(count_maps(), 1000U);
}

TEST(Limits, MprotectStopsAtItsBudgetAndSaysWhy) {
  const auto reservation = reserve(256 * page_bytes);
  const SegmentMemory memory("checkers", reservation->take(256 * page_bytes, page_bytes), page_bytes);
  MapBudget budget(125);
  MprotectPageTable table(memory, budget);
  const std::string message = message_of(table, every_other(256), Access::read);
  for (const char* const part : {"vm.max_map_count is 125", "segments may use 100 of them",
                                 "choose larger blocks", "userfaultfd", "sysctl -w vm.max_map_count=1048576"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_LE(budget.used(), budget.limit());
  EXPECT_GE(budget.used(), budget.limit() - 2);
  // What is possible with what is there goes on working.
  const vm::Run all{.first = 0, .count = 256};
  table.set_access({&all, 1}, Access::write);
  EXPECT_EQ(table.maps(), 1);
  EXPECT_EQ(budget.used(), 1);
}

std::size_t maps_of(const MprotectPageTable& table) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  std::size_t count = 0;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    const auto begin = std::strtoull(line, nullptr, 16);
    const auto view = reinterpret_cast<std::uintptr_t>(table.application_view());
    if (view <= begin && begin < view + table.bytes()) ++count;
  }
  std::fclose(maps);
  return count;
}

TEST(Limits, TheBudgetIsSharedAndCountsWhatTheKernelCounts) {
  const auto reservation = reserve(512 * page_bytes);
  const SegmentMemory first("first", reservation->take(256 * page_bytes, page_bytes), page_bytes);
  const SegmentMemory second("second", reservation->take(256 * page_bytes, page_bytes), page_bytes);
  MapBudget budget(1000);
  MprotectPageTable a(first, budget);
  {
    MprotectPageTable b(second, budget);
    unsigned random = 1;
    for (int step = 0; step < 300; ++step) {
      random = random * 1664525 + 1013904223;
      PageTable& table = step % 2 == 0 ? a : b;
      const vm::Run run{.first = (random >> 8U) % 250, .count = 1 + (random >> 20U) % 6};
      table.set_access({&run, 1}, static_cast<Access>((random >> 28U) % 3));
    }
    EXPECT_EQ(a.maps(), static_cast<std::int64_t>(maps_of(a)));
    EXPECT_EQ(b.maps(), static_cast<std::int64_t>(maps_of(b)));
    EXPECT_EQ(budget.used(), a.maps() + b.maps());
  }
  EXPECT_EQ(budget.used(), a.maps());
}

TEST(Limits, TheLimitOfThisMachineIsRead) {
  EXPECT_GE(MapBudget::kernel_limit_here(), 1000);
}

TEST(Mechanism, ChoosesWhatWorks) {
  Mechanisms all;
  all.userfaultfd = true;
  Mechanisms few;
  few.why_not = "userfaultfd(2): Operation not permitted";
  EXPECT_EQ(choose_mechanism("auto", all), Mechanism::userfaultfd);
  EXPECT_EQ(choose_mechanism("auto", few), Mechanism::mprotect);
  EXPECT_EQ(choose_mechanism("mprotect", all), Mechanism::mprotect);
  EXPECT_EQ(choose_mechanism("userfaultfd", all), Mechanism::userfaultfd);
  EXPECT_THROW(choose_mechanism("segv", all), Error);
  try {
    choose_mechanism("userfaultfd", few);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_supported);
    EXPECT_NE(std::string(error.what()).find(few.why_not), std::string::npos) << error.what();
  }
}

TEST(Mechanism, ProbingSaysWhyNot) {
  const Mechanisms there = probe();
  EXPECT_EQ(there.userfaultfd, there.why_not.empty()) << there.why_not;
}

}  // namespace
}  // namespace craton::vm
