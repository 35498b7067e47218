// What the launcher tells people.
#include "job/describe.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace craton::job {
namespace {

constexpr TimeNs second_ns = 1'000'000'000;

TEST(Describe, Exits) {
  EXPECT_EQ(describe_exit(3 << 8), "exited with code 3");
  EXPECT_EQ(describe_exit(SIGSEGV), "died: segmentation fault (SIGSEGV)");
  EXPECT_EQ(describe_exit(SIGSEGV | 0x80), "died: segmentation fault (SIGSEGV), core dumped");
  EXPECT_EQ(describe_exit(SIGKILL), "died: killed (SIGKILL)");
  EXPECT_EQ(describe_exit(40), "died: signal 40");
  EXPECT_EQ(exit_code_of(3 << 8), 3);
  EXPECT_EQ(exit_code_of(SIGKILL), 137);
}

TEST(Describe, RankLists) {
  EXPECT_EQ(list_ranks({2}), "rank 2");
  EXPECT_EQ(list_ranks({0, 1, 3}), "ranks 0, 1, 3");
  EXPECT_EQ(list_ranks({0, 1, 2, 5, 7, 8, 9}), "ranks 0-2, 5, 7-9");
}

TEST(Describe, Durations) {
  EXPECT_EQ(describe_duration(5 * second_ns), "5 s");
  EXPECT_EQ(describe_duration(1'500'000'000), "1.5 s");
  EXPECT_EQ(describe_duration(250'000'000), "250 ms");
  EXPECT_EQ(describe_duration(2500), "0.0025 ms");
  EXPECT_EQ(describe_duration(1), "1 ns");
}

StalledRank stalled(Rank rank, Activity activity, std::uint64_t barrier) {
  return {.rank = rank,
          .joined = true,
          .ready = true,
          .answer = RankActivity{
              .rank = rank, .activity = activity, .barrier = barrier, .since_ns = 4'200'000'000}};
}

TEST(Stall, NamesWhoKeepsTheOthersWaiting) {
  EXPECT_EQ(
      describe_stall(5 * second_ns,
                     {stalled(0, Activity::in_barrier, 1), stalled(1, Activity::in_barrier, 1),
                      stalled(2, Activity::computing, 0), stalled(3, Activity::in_barrier, 1)}),
      "time limit of 5 s: rank 2 has not reached barrier 1, where ranks 0, 1, 3 wait (for 4.2 s); rank 2 is "
      "computing");
}

TEST(Stall, TellsRanksInDifferentBarriersApart) {
  EXPECT_EQ(
      describe_stall(second_ns, {stalled(0, Activity::in_barrier, 3), stalled(1, Activity::in_barrier, 2)}),
      "time limit of 1 s: rank 1 has not reached barrier 3, where rank 0 waits (for 4.2 s); rank 1 waits in "
      "barrier 2");
}

TEST(Stall, AllComputing) {
  EXPECT_EQ(
      describe_stall(second_ns, {stalled(0, Activity::computing, 0), stalled(1, Activity::computing, 0)}),
      "time limit of 1 s: ranks 0, 1 are computing");
}

TEST(Stall, AllInOneBarrierIsSaidAsItIs) {
  EXPECT_EQ(
      describe_stall(second_ns, {stalled(0, Activity::in_barrier, 1), stalled(1, Activity::in_barrier, 1)}),
      "time limit of 1 s: all ranks wait in barrier 1 (for 4.2 s)");
}

TEST(Stall, EveryStateHasItsWords) {
  StalledRank ended = stalled(0, Activity::computing, 0);
  ended.running = false;
  const StalledRank outside{.rank = 1, .answer = {}};
  const StalledRank joining{.rank = 2, .joined = true, .answer = {}};
  const StalledRank silent{.rank = 3, .joined = true, .ready = true, .answer = {}};
  StalledRank finished = stalled(4, Activity::computing, 0);
  finished.finalized = true;
  EXPECT_EQ(
      describe_stall(second_ns, {ended, outside, joining, silent, finished,
                                 stalled(5, Activity::in_finalize, 2), stalled(6, Activity::computing, 2)}),
      "time limit of 1 s: rank 0 has ended; rank 1 has not called craton_init; rank 2 is in craton_init; "
      "rank 3 "
      "does not answer (stopped, or too busy); rank 4 is running after craton_finalize; rank 5 waits in "
      "craton_finalize; rank 6 is computing after barrier 2");
}

}  // namespace
}  // namespace craton::job
