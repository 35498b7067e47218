/// \file
/// An unmodified OpenMP program that relies on plain stores coming in their order, under `craton run
/// --causal`. Without the option docs/run.md promises nothing; how often it went wrong then is recorded, not
/// judged: the simulated schedules of tests/coherence/racy_programs_test.cpp show that it does.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;

struct RacyWay {
  const char* name;
  std::vector<std::string> flags;
  int threads;  ///< of the team

  friend std::ostream& operator<<(std::ostream& out, const RacyWay& way) { return out << way.name; }
};
const std::vector<RacyWay> racy_ways{
    {"Shm2", {"-n", "2", "--threads", "1"}, 2},
    {"Shm4", {"-n", "4", "--threads", "1"}, 4},
    {"ShmThreads", {"-n", "2", "--threads", "2"}, 4},
    {"Tcp2", {"-n", "2", "--threads", "1", "--isolate-nodes", "--transport", "tcp"}, 2},
    {"Tcp4", {"-n", "4", "--threads", "1", "--isolate-nodes", "--transport", "tcp"}, 4},
};

std::vector<std::string> racy_command(const RacyWay& way, bool causal) {
  std::vector<std::string> words{"--share=auto", "--heartbeat=1ms"};
  words.insert(words.end(), way.flags.begin(), way.flags.end());
  if (causal) words.emplace_back("--causal");
  words.insert(words.end(), {"--", job::program("causal")});
  return words;
}

class RacyOpenMp : public testing::TestWithParam<RacyWay> {};

TEST_P(RacyOpenMp, IsRightWhereSegmentsAreCausal) {
  LaunchedJob job(racy_command(GetParam(), true));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), "data after its flag, " + std::to_string(GetParam().threads) +
                              " threads: 0 times wrong\n"
                              "a sum that one thread sets: 0 times wrong\n"
                              "a volatile bell: 0 did not hear it\n");
  EXPECT_EQ(job.error(), "");
}

TEST_P(RacyOpenMp, GoesOnWhereTheyAreNot) {
  LaunchedJob job(racy_command(GetParam(), false));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_NE(job.output().find("a volatile bell: 0 did not hear it\n"), std::string::npos) << job.output();
  EXPECT_EQ(job.error(), "");
  RecordProperty("without_causal", job.output());
}

std::string output_of_handlers(const char* causal) {
  LaunchedJob job(
      {"--share=auto", "-n", "4", "--threads", "1", causal, "--timeout=20s", "--", job::program("handlers")});
  EXPECT_EQ(job::finish_clean(job), 0);
  return job.output();
}

// A handler's fault acquires, and once waited for the barrier that its own thread was in.
TEST(CausalHandlers, AcquireWhereverTheirThreadsAre) {
  const std::string usual = output_of_handlers("--causal=no");
  for (int run = 0; run < 8; ++run) EXPECT_EQ(output_of_handlers("--causal"), usual);
}

INSTANTIATE_TEST_SUITE_P(Run, RacyOpenMp, testing::ValuesIn(racy_ways),
                         [](const testing::TestParamInfo<RacyWay>& tested) {
                           return std::string(tested.param.name);
                         });

}  // namespace

}  // namespace craton
