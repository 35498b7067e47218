/// \file
/// space.h and space.hpp, in programs of their own under `craton run`: neighbours that share memory and ranks
/// that talk over tcp, both ways to catch faults; reports of races and statistics.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "launched_job.hpp"

namespace craton::capi {

namespace {

using job::LaunchedJob;

struct Ways {
  const char* name;
  std::vector<std::string> arguments;  ///< of craton run

  friend std::ostream& operator<<(std::ostream& out, const Ways& way) { return out << way.name; }
};
const std::vector<Ways> ways{
    {"Alone", {"-n", "1"}},
    {"Shm", {"-n", "4"}},
    {"ShmMprotect", {"-n", "3", "--vm-mechanism", "mprotect"}},
    {"Tcp", {"-n", "3", "--isolate-nodes", "--transport", "tcp"}},
    {"TcpMprotect", {"-n", "2", "--isolate-nodes", "--transport", "tcp", "--vm-mechanism", "mprotect"}},
};

std::vector<std::string> with(const Ways& way, const std::vector<std::string>& rest) {
  std::vector<std::string> all = way.arguments;
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class Programs : public testing::TestWithParam<Ways> {
 protected:
  /// Every rank says ok, and nothing else is said.
  static void expect_ok(const std::string& name) {
    LaunchedJob job(with(GetParam(), {"--races", "report", "--", job::program(name)}));
    EXPECT_EQ(job.finish(), 0) << job.error();
    EXPECT_EQ(times(job.output(), "ok\n"), std::stoul(GetParam().arguments[1]))
        << job.output() << job.error();
    EXPECT_EQ(job.error(), "");
    EXPECT_EQ(job.leftovers(), "");
  }
};

TEST_P(Programs, CallsReturnWhatTheHeaderSays) {
  expect_ok("space_calls");
}

TEST_P(Programs, TheCppLayerKeepsCount) {
  expect_ok("space_layer");
}

TEST_P(Programs, ASegmentThatOneRankCannotMakeIsMadeNowhere) {
  expect_ok("space_short");
}

INSTANTIATE_TEST_SUITE_P(Space, Programs, testing::ValuesIn(ways),
                         [](const testing::TestParamInfo<Ways>& tested) {
                           return std::string(tested.param.name);
                         });

TEST(Barrier, SaysOfEachCallThatARankIsLost) {
  LaunchedJob job({"-n", "3", "--", job::program("space_lost")});
  EXPECT_NE(job.finish(), 0);
  EXPECT_EQ(job.output(), "lost\nlost\nlost\nlost\n");
  EXPECT_EQ(job.leftovers(), "");
}

TEST(Threads, ThatCannotBeMadeAreAnErrorOfOpening) {
  LaunchedJob job({"-n", "2", "--", job::program("space_threadless"), "open"});
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(job.output(), "ok\nok\n");
}

TEST(Threads, ThatCannotBeMadeLaterEndTheJobInALine) {
  LaunchedJob job({"-n", "2", "--", job::program("space_threadless"), "strong"});
  EXPECT_EQ(job.finish(), 1) << job.error();
  EXPECT_EQ(job.output(), "");
  EXPECT_NE(job.error().find(": cannot start the thread that serves strong blocks: "), std::string::npos)
      << job.error();
  EXPECT_NE(job.error().find("ulimit -u"), std::string::npos) << job.error();
  EXPECT_EQ(job.error().find("terminate called"), std::string::npos) << job.error();
}

TEST(Example, HeatIsKept) {
  LaunchedJob job({"-n", "3", "--isolate-nodes", "--races", "report", "--", CRATON_HEAT, "9000", "50"});
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_NE(job.output().find("1.000000 of the heat"), std::string::npos) << job.output();
  EXPECT_EQ(times(job.output(), "warmest at cell"), 3U);
  EXPECT_EQ(job.error(), "");
}

// ---- Races

class Races : public testing::TestWithParam<Ways> {};

TEST_P(Races, APlantedOneIsReportedOnce) {
  LaunchedJob job(with(GetParam(), {"--races", "report", "--", job::program("space_races"), "segment"}));
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(times(job.error(), "craton: race"), 1U) << job.error();
  EXPECT_EQ(times(job.error(), "offset 4120 of segment 'field'"), 1U) << job.error();
  EXPECT_EQ(times(job.error(), "8 bytes"), 1U) << job.error();
  EXPECT_EQ(times(job.error(), "; seen "), 1U) << job.error();
  EXPECT_EQ(times(job.error(), "ranks 0 and 1") + times(job.error(), "ranks 1 and 0"), 1U) << job.error();
}

TEST_P(Races, OneInTheHeapNamesTheAllocation) {
  LaunchedJob job(with(GetParam(), {"--races", "report", "--", job::program("space_races"), "heap"}));
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(times(job.error(), "craton: race"), 1U) << job.error();
  EXPECT_EQ(times(job.error(), "byte 24 of an allocation of 256 bytes"), 1U) << job.error();
}

TEST_P(Races, NoneIsReportedWhereThereIsNone) {
  LaunchedJob job(with(GetParam(), {"--races", "abort", "--", job::program("space_races"), "none"}));
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(job.error(), "");
}

TEST_P(Races, AbortEndsTheJobAtTheFirst) {
  LaunchedJob job(with(GetParam(), {"--races", "abort", "--", job::program("space_races"), "segment"}));
  EXPECT_EQ(job.finish(), 128 + 6) << job.error();
  EXPECT_GE(times(job.error(), "ends at a race"), 1U) << job.error();
  EXPECT_GE(times(job.error(), "offset 4120 of segment 'field'"), 1U) << job.error();
  EXPECT_EQ(job.leftovers(), "");
}

TEST_P(Races, IgnoredOnesAreOnlyCounted) {
  LaunchedJob job(with(GetParam(), {"--stats", "json", "--", job::program("space_races"), "segment"}));
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(times(job.error(), "craton: race"), 0U) << job.error();
  // Of ten, some are over before the other rank looks.
  const auto races = nlohmann::json::parse(job.error())["sum"]["races"].get<unsigned>();
  EXPECT_GE(races, 1U);
  EXPECT_LE(races, 10U);
}

INSTANTIATE_TEST_SUITE_P(Space, Races, testing::Values(ways[1], ways[2], ways[3], ways[4]),
                         [](const testing::TestParamInfo<Ways>& tested) {
                           return std::string(tested.param.name);
                         });

// ---- Statistics

TEST(Statistics, JsonAddsUp) {
  const std::string path = testing::TempDir() + "craton-stats-" + std::to_string(::getpid()) + ".json";
  LaunchedJob job({"-n", "3", "--stats", "json", "--stats-file", path, "--", CRATON_HEAT, "9000", "20"});
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_EQ(job.error(), "");
  const std::string text = job::content_of(path);
  std::remove(path.c_str());
  const nlohmann::json read = nlohmann::json::parse(text);
  ASSERT_EQ(read["ranks"].size(), 3U) << text;
  for (const auto& [name, sum] : read["sum"].items()) {
    std::uint64_t added = 0;
    for (unsigned rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(read["ranks"][rank]["rank"], rank);
      added += read["ranks"][rank][name].get<std::uint64_t>();
    }
    EXPECT_EQ(added, sum.get<std::uint64_t>()) << name;
  }
  for (unsigned rank = 0; rank < 3; ++rank) {
    const nlohmann::json& values = read["ranks"][rank];
    EXPECT_EQ(values["acquires"].get<unsigned>() >= 22, true) << text;  // one a barrier
    EXPECT_GT(values["write_faults"].get<std::uint64_t>(), 0U) << text;
    EXPECT_GT(values["fault_ns"].get<std::uint64_t>(), 0U) << text;
    EXPECT_GT(values["barrier_ns"].get<std::uint64_t>(), 0U) << text;
    EXPECT_GT(values["mutex_ns"].get<std::uint64_t>(), 0U) << text;
    EXPECT_EQ(values["races"], 0) << text;
  }
  EXPECT_GT(read["sum"]["fetched_bytes"].get<std::uint64_t>(), 0U) << text;
  // Faults happen in segments, and nowhere else.
  std::uint64_t faults = 0;
  ASSERT_GE(read["segments"].size(), 2U) << text;
  EXPECT_EQ(read["segments"][0]["name"], "heap");
  for (const nlohmann::json& segment : read["segments"])
    faults += segment["write_faults"].get<std::uint64_t>();
  EXPECT_EQ(read["sum"]["write_faults"].get<std::uint64_t>(), faults) << text;
}

TEST(Statistics, CountEnteredThreadsAsTheProgram) {
  LaunchedJob job({"-n", "2", "--stats", "json", "--", job::program("space_threads")});
  EXPECT_EQ(job.finish(), 0) << job.error();
  std::uint64_t of_program = 0;
  std::uint64_t of_runtime = 0;
  const nlohmann::json read = nlohmann::json::parse(job.error());
  for (const nlohmann::json& row : read["regions"]) {
    const auto faults = row["faults"].get<std::uint64_t>();
    if (row["region"] == "outside of regions") of_program += faults;
    if (row["region"] == "the runtime's own threads") of_runtime += faults;
  }
  EXPECT_GT(of_program, 0U) << job.error();
  EXPECT_EQ(of_runtime, 0U) << job.error();
}

TEST(Statistics, TextHasALineARankASumAndALineASegment) {
  LaunchedJob job({"-n", "2", "--isolate-nodes", "--stats", "text", "--", CRATON_HEAT, "9000", "20"});
  EXPECT_EQ(job.finish(), 0) << job.error();
  const std::size_t by_segment = job.error().find("of it, by segment:\n");
  ASSERT_NE(by_segment, std::string::npos) << job.error();
  EXPECT_EQ(times(job.error().substr(0, by_segment), "\n"), 4U) << job.error();
  EXPECT_NE(job.error().find("  heap\n", by_segment), std::string::npos) << job.error();
  EXPECT_NE(job.error().find("  rank "), std::string::npos) << job.error();
  EXPECT_NE(job.error().find("\n     1 "), std::string::npos) << job.error();
  EXPECT_NE(job.error().find("\n   sum "), std::string::npos) << job.error();
}

TEST(Statistics, AFileThatCannotBeWrittenFailsNoJob) {
  LaunchedJob job(
      {"-n", "2", "--stats", "text", "--stats-file", "/dev/full", "--", CRATON_HEAT, "9000", "5"});
  EXPECT_EQ(job.finish(), 0) << job.error();
  EXPECT_NE(job.error().find("cannot write /dev/full"), std::string::npos) << job.error();
}

}  // namespace

}  // namespace craton::capi
