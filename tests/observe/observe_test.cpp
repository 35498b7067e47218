/// \file
/// What `craton run` tells of a program: planted false sharing and a planted race by the names of variables,
/// statistics that add up, traces that parse.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::occurrences;
using nlohmann::json;

std::string observed(const std::string& name) {
  return std::string(CRATON_PROGRAMS) + "/" + name;
}

std::vector<std::string> words(std::vector<std::string> flags, const std::vector<std::string>& program) {
  flags.insert(flags.begin(), {"-n", "2", "--threads", "1", "--share=auto"});
  flags.emplace_back("--");
  flags.insert(flags.end(), program.begin(), program.end());
  return flags;
}

/// The number of the first line that has a text, as reports have it; the example may be edited.
std::string line_of(const std::string& source, const std::string& text) {
  std::ifstream file(source);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find(text) != std::string::npos)
      return std::filesystem::path(source).filename().string() + ":" + std::to_string(number);
  }
  return "there is no such line: " + text;
}

/// A file, gone at the end.
class Output {
 public:
  explicit Output(const std::string& name)
      : path_(testing::TempDir() + "craton-observe-" + std::to_string(::getpid()) + "-" + name) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }
  std::string text() const { return job::content_of(path_); }

 private:
  std::string path_;
};

const std::string counters_source = CRATON_EXAMPLES "/counters.c";

}  // namespace

TEST(ReportOfSharing, NamesTheFalselySharedVariable) {
  LaunchedJob job(words({"--report", "sharing"}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  const std::string& text = job.error();
  const std::size_t first = text.find("\n1. ");
  ASSERT_NE(first, std::string::npos) << text;
  const std::string entry = text.substr(first, text.find("\n2. ") - first);
  EXPECT_EQ(
      occurrences(entry, "counters (" + line_of(counters_source, "static struct counter counters") + ")"), 1)
      << text;
  EXPECT_EQ(occurrences(entry, "\n   false sharing\n"), 1) << text;
  EXPECT_GE(occurrences(entry, "rank 0 wrote bytes 0 to "), 1) << text;
  EXPECT_GE(occurrences(entry, "rank 1 wrote bytes 8 to "), 1) << text;
  EXPECT_GE(occurrences(entry, line_of(counters_source, "counters[own].found++")), 1) << text;
  EXPECT_EQ(occurrences(entry, "advice: pad: "), 1) << text;
}

TEST(ReportOfSharing, FindsNoneWhereItsAdviceWasFollowed) {
  LaunchedJob job(words({"--report", "sharing"}, {observed("counters_padded"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.error(), "sharing: 2 ranks"), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "\n   false sharing\n"), 0) << job.error();
}

TEST(ReportOfSharing, TellsSegmentAndOffsetOfAStrippedProgram) {
  LaunchedJob job(words({"--report", "sharing"}, {observed("counters_stripped"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_GE(occurrences(job.error(), " of data of counters_stripped: "), 1) << job.error();
  EXPECT_GE(occurrences(job.error(), "\n   false sharing\n"), 1) << job.error();
}

TEST(ReportOfSharing, IsAWebPage) {
  const Output page("page.html");
  LaunchedJob job(
      words({"--report", "sharing", "--report-file", page.path()}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  const std::string text = page.text();
  EXPECT_TRUE(text.starts_with("<!DOCTYPE html>")) << text;
  EXPECT_EQ(occurrences(text, "<svg "), 1);
  EXPECT_GE(occurrences(text, "<b>counters ("), 1) << text;
  EXPECT_EQ(occurrences(text, "src="), 0) << "it needs another file";
  EXPECT_EQ(occurrences(text, "href="), 0) << "it needs another file";
}

TEST(Races, AreToldByVariableAndRegion) {
  LaunchedJob job(words({"--races", "report"}, {observed("race")}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_GE(occurrences(job.error(), "of last_writer (race.c:5), in main (race.c:"), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "results"), 0) << job.error();
}

TEST(Races, AreNoneInAProgramWithout) {
  LaunchedJob job(words({"--races", "report"}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.error(), "race"), 0) << job.error();
}

TEST(Statistics, TellRegionsThatAddUp) {
  const Output file("stats.json");
  LaunchedJob job(words({"--stats", "json", "--stats-file", file.path()}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  const json all = json::parse(file.text());
  std::uint64_t faults = 0;
  std::uint64_t parts = 0;
  std::set<unsigned> ranks;
  for (const json& row : all.at("regions")) {
    faults += row.at("faults").get<std::uint64_t>();
    if (!row.at("region").get<std::string>().starts_with("main (counters.c:")) continue;
    parts += row.at("parts").get<std::uint64_t>();
    ranks.insert(row.at("rank").get<unsigned>());
    EXPECT_GT(row.at("compute_ns").get<std::uint64_t>(), 0U) << row;
    EXPECT_GT(row.at("barrier_ns").get<std::uint64_t>(), 0U) << row;
  }
  EXPECT_EQ(parts, 2U) << all;
  EXPECT_EQ(ranks.size(), 2U) << all;
  // Faults on other ranks' stacks are in no segment's counters.
  const json& sum = all.at("sum");
  EXPECT_GE(faults, sum.at("read_faults").get<std::uint64_t>() + sum.at("write_faults").get<std::uint64_t>())
      << all;
  EXPECT_GT(sum.at("write_faults").get<std::uint64_t>(), 0U) << all;
}

TEST(Statistics, AreATableWithRegions) {
  LaunchedJob job(words({"--stats", "text"}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.error(), "by region, in ms of all threads:"), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "\nmain (counters.c:"), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "\noutside of regions\n"), 1) << job.error();
}

TEST(Statistics, CountThreadsThatTheProgramStartsAsTheProgram) {
  constexpr std::uint64_t threads = 4;
  const Output file("stats.json");
  LaunchedJob job(words({"--stats", "json", "--stats-file", file.path()}, {observed("threads")}));
  job.close_input();
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  std::uint64_t of_program = 0;
  std::uint64_t of_runtime = 0;
  const json all = json::parse(file.text());
  for (const json& row : all.at("regions")) {
    if (row.at("rank") != 0) continue;
    const auto faults = row.at("faults").get<std::uint64_t>();
    if (row.at("region") == "the runtime's own threads") of_runtime += faults;
    if (row.at("region") == "outside of regions") of_program += faults;
  }
  // Blocks are fetched ahead, so how many faults there are varies; the runtime's own are at its start and
  // end.
  EXPECT_GE(of_program, threads) << all;
  EXPECT_LE(of_runtime, of_program / 4) << all;
}

TEST(Trace, IsWhatPerfettoReads) {
  const Output file("trace.json");
  LaunchedJob job(words({"--trace", file.path()}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  const json all = json::parse(file.text());
  std::set<std::string> kinds;
  std::set<int> ranks;
  std::uint64_t regions = 0;
  for (const json& event : all.at("traceEvents")) {
    ranks.insert(event.at("pid").get<int>());
    if (event.at("ph") == "M") continue;
    ASSERT_EQ(event.at("ph"), "X") << event;
    EXPECT_GE(event.at("ts").get<double>(), 0.0) << event;
    EXPECT_GE(event.at("dur").get<double>(), 0.0) << event;
    kinds.insert(event.at("cat").get<std::string>());
    if (event.at("cat") == "region" && event.at("name").get<std::string>().starts_with("main (counters.c:"))
      ++regions;
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  EXPECT_EQ(regions, 2U);
  for (const char* const kind : {"region", "write fault", "release", "acquire", "barrier"})
    EXPECT_TRUE(kinds.contains(kind)) << kind;
}

TEST(Trace, CountsEventsForWhichThereIsNoRoom) {
  const Output file("trace.json");
  LaunchedJob job(words({"--trace", file.path(), "--observed-events", "10"}, {observed("counters"), "200"}));
  ASSERT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_GE(occurrences(file.text(), " events lost\""), 2);
  EXPECT_LE(occurrences(file.text(), "\"ph\":\"X\""), 10 * occurrences(file.text(), "\"thread_name\""));
}

TEST(Flags, ThatCannotWorkAreRefusedBeforeTheProgramRuns) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--trace", "/nowhere/trace.json"},
      {"--report", "sharing", "--report-file", "/nowhere/page.html"},
      {"--report-file", "/tmp/page.html"},
      {"--report", "everything"},
      {"--observed-events", "0"}};
  for (const std::vector<std::string>& flags : wrong) {
    LaunchedJob job(words(flags, {observed("counters"), "1"}));
    EXPECT_EQ(job::finish_clean(job), 2) << job.error();
    EXPECT_EQ(job.output(), "");
    EXPECT_EQ(occurrences(job.error(), "\n"), 1) << "one line: " << job.error();
  }
}

}  // namespace craton
