/// \file
/// Unmodified programs of threads, without OpenMP, under `craton run --spread-threads`: they say what they
/// say in one process, and each of their steps had threads on every rank.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fabric/ucx/ucx.hpp"
#include "launched_job.hpp"
#include "shell.hpp"

namespace craton {

namespace {

using job::LaunchedJob;

struct ThreadsWay {
  std::string name;
  int ranks;
  std::vector<std::string> words;

  bool is_over_ucx() const { return name.ends_with("_ucx"); }
  friend std::ostream& operator<<(std::ostream& out, const ThreadsWay& way) { return out << way.name; }
};
const std::vector<ThreadsWay> threads_ways{
    {"1", 1, {"-n", "1"}},
    {"2", 2, {"-n", "2"}},
    {"2x2", 2, {"-n", "2", "--threads", "2"}},
    {"4", 4, {"-n", "4"}},
    {"2_isolated", 2, {"-n", "2", "--isolate-nodes"}},
    {"4_isolated", 4, {"-n", "4", "--isolate-nodes", "--transport", "tcp"}},
};
const std::vector<ThreadsWay> ucx_ways{
    {"2_ucx", 2, {"-n", "2", "--isolate-nodes", "--transport", "ucx"}},
    {"4_ucx", 4, {"-n", "4", "--isolate-nodes", "--transport", "ucx"}},
};

std::vector<std::string> command_of(const ThreadsWay& way, const std::vector<std::string>& program) {
  std::vector<std::string> flags{"--spread-threads"};
  flags.insert(flags.end(), way.words.begin(), way.words.end());
  std::vector<std::string> words{job::program(program[0])};
  words.insert(words.end(), program.begin() + 1, program.end());
  return job::to_share(flags, words);
}

std::vector<std::string> threaded() {
  std::istringstream names(CRATON_THREADED_NAMES);
  std::vector<std::string> all;
  for (std::string name; names >> name;) all.push_back(name);
  return all;
}

std::string output_of(const std::string& command) {
  const test::Ran ran = test::run_in_shell(command);
  EXPECT_EQ(ran.code, 0) << command;
  return ran.output;
}

class ThreadPrograms : public testing::TestWithParam<std::tuple<std::string, ThreadsWay>> {};

TEST_P(ThreadPrograms, SayTheSameOverRanks) {
  const auto& [program, way] = GetParam();
  if (const auto ucx = fabric::ucx::ucx_availability(); way.is_over_ucx() && !ucx.available())
    GTEST_SKIP() << ucx.reason_why_not;
  const std::string native = output_of("timeout 100 '" + job::program(program) + "' argument 2>/dev/null");
  LaunchedJob job(command_of(way, {program, "argument"}));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), native);
  EXPECT_EQ(job.error().substr(0, job.error().find(',')), "processes: " + std::to_string(way.ranks));
}

std::string name_of_threads(const testing::TestParamInfo<std::tuple<std::string, ThreadsWay>>& tested) {
  return std::get<0>(tested.param) + "_" + std::get<1>(tested.param).name;
}

/// The same programs built otherwise, on one node only.
std::vector<std::tuple<std::string, ThreadsWay>> tested_threads() {
  std::vector<std::tuple<std::string, ThreadsWay>> all;
  for (const std::string& program : threaded()) {
    const bool is_variant = program.find('_') != std::string::npos;
    for (const ThreadsWay& way : threads_ways) {
      if (!is_variant || way.name.find("isolated") == std::string::npos) all.emplace_back(program, way);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Run, ThreadPrograms, testing::ValuesIn(tested_threads()), name_of_threads);
// What UCX loads, each rank elsewhere, is none of the program's.
INSTANTIATE_TEST_SUITE_P(Ucx, ThreadPrograms,
                         testing::Combine(testing::Values("basics", "patterns"), testing::ValuesIn(ucx_ways)),
                         name_of_threads);

// ---- How they end

struct ThreadsEnd {
  std::string way;
  int code;
  std::string output;
  std::string error;  ///< a part of it

  friend std::ostream& operator<<(std::ostream& out, const ThreadsEnd& end) { return out << end.way; }
};
const std::string at_exit_line = "an exit handler, in main's process: 1\n";
const std::vector<ThreadsEnd> thread_ends{
    {"main_first", 0, "the last thread\n" + at_exit_line, ""},
    {"handing_on", 0, "the last thread\n" + at_exit_line, ""},
    {"running", 3, "main ends\n" + at_exit_line, ""},
    {"computing", 3, "main ends\n" + at_exit_line, ""},
    {"allocating", 3, "main ends\n" + at_exit_line, ""},
    {"exit", 5, "ends by exit\n" + at_exit_line, ""},
    {"quick_exit", 6, "ends by quick_exit\n" + at_exit_line, ""},
    {"_exit", 7, "ends by _exit\n", ""},
    {"abort", 134, "ends by abort\n", "craton: rank 1 "},
    {"exception", 134, "ends by exception\n", "nobody catches this"},
    {"large_stack", 4, at_exit_line, " KiB, as all threads: set OMP_STACKSIZE=65536K\n"},
    {"handler", 8, "ends by handler\n", ""},
    {"fault", 139, "ends by fault\n", "craton: rank 1 "},
};

class ThreadEnds : public testing::TestWithParam<std::tuple<ThreadsEnd, ThreadsWay>> {};

TEST_P(ThreadEnds, AreThoseOfOneProcess) {
  const auto& [end, way] = GetParam();
  LaunchedJob job(command_of(way, {"thread_ends", end.way}));
  EXPECT_EQ(job::finish_clean(job), end.code);
  EXPECT_EQ(job.output(), end.output);
  if (end.error.empty())
    EXPECT_EQ(job.error(), "");
  else
    EXPECT_NE(job.error().find(end.error), std::string::npos) << job.error();
}

// The second thread of a rank ended its process while the first one's handlers ran: one job in six had
// failed.
TEST(ThreadsThatExitAtOnce, EndTheJobOnce) {
  for (int run = 0; run < 12; ++run) {
    LaunchedJob exits(
        command_of(threads_ways[static_cast<std::size_t>(run) % 4], {"thread_ends", "all_exit"}));
    EXPECT_EQ(job::finish_clean(exits), 10);
    EXPECT_EQ(exits.output(), at_exit_line);
    EXPECT_EQ(exits.error(), "");
    LaunchedJob quick(
        command_of(threads_ways[static_cast<std::size_t>(run) % 2], {"thread_ends", "all_quick_exit"}));
    EXPECT_EQ(job::finish_clean(quick), 11);
    EXPECT_EQ(quick.error(), "");
  }
}

std::string name_of_end(const testing::TestParamInfo<std::tuple<ThreadsEnd, ThreadsWay>>& tested) {
  return std::get<0>(tested.param).way + "_over_" + std::get<1>(tested.param).name;
}

INSTANTIATE_TEST_SUITE_P(Run, ThreadEnds,
                         testing::Combine(testing::ValuesIn(thread_ends),
                                          testing::Values(threads_ways[1], threads_ways[5])),
                         name_of_end);

/// On one node: a file that is mapped on several is not the same memory.
TEST(ThreadObjects, ThatProcessesShareInAFileOrderMemory) {
  const std::string file = testing::TempDir() + "craton-mapped-" + std::to_string(::getpid());
  for (std::size_t way = 1; way < 4; ++way) {
    LaunchedJob job(command_of(threads_ways[way], {"mapped_lock", file}));
    EXPECT_EQ(job::finish_clean(job), 0);
    EXPECT_EQ(job.output(), "1800 right, over ranks\n") << threads_ways[way];
    EXPECT_EQ(job.error(), "");
    std::filesystem::remove(file);
  }
}

/// The examples check their own results.
class ThreadExamples : public testing::TestWithParam<ThreadsWay> {};

TEST_P(ThreadExamples, Verify) {
  for (const std::vector<std::string>& program :
       {std::vector<std::string>{"factor", "4", "512"}, {"factor", "3", "320"}, {"sort", "200000"}}) {
    LaunchedJob job(command_of(GetParam(), program));
    EXPECT_EQ(job::finish_clean(job), 0) << program[0];
    EXPECT_NE(job.output().find("\nVERIFICATION SUCCESSFUL\n"), std::string::npos) << job.output();
    EXPECT_EQ(job.error(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Run, ThreadExamples, testing::ValuesIn(threads_ways),
                         [](const testing::TestParamInfo<ThreadsWay>& tested) { return tested.param.name; });

/// Without the option the ranks of a program that has threads, but no OpenMP, are one; a line says what would
/// make it otherwise.
TEST(SpreadThreads, AreNamedToWhoHasNotAskedForThem) {
  LaunchedJob job({"--share=auto", "-n", "4", "--", job::program("patterns")});
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_NE(job.error().find("--spread-threads"), std::string::npos) << job.error();
  EXPECT_NE(job.error().find("processes: 1,"), std::string::npos) << job.error();
}

/// What the ranks have counted, also where threads still wait or compute, and where another rank asks for the
/// end.
TEST(SpreadThreads, AreCountedWhateverTheyDoAtTheEnd) {
  struct End {
    const char* way;
    int status;
    bool is_for_one;  ///< rank; else a thread of another one does it
  };
  for (const auto& [end, status, is_for_one] :
       {End{"main_first", 0, true}, End{"running", 3, true}, End{"computing", 3, true},
        End{"allocating", 3, true}, End{"exit", 5, false}, End{"quick_exit", 6, false},
        End{"_exit", 7, false}, End{"main_now", 9, true}}) {
    for (const unsigned ranks : is_for_one ? std::vector{1U, 3U} : std::vector{3U}) {
      LaunchedJob job({"--share=auto", "--spread-threads", "-n", std::to_string(ranks), "--stats=json", "--",
                       job::program("thread_ends"), end});
      EXPECT_EQ(job::finish_clean(job), status) << end;
      const nlohmann::json told = nlohmann::json::parse(job.error(), nullptr, false);
      ASSERT_FALSE(told.is_discarded()) << end << ": " << job.error();
      ASSERT_EQ(told.at("ranks").size(), ranks) << end;
      EXPECT_TRUE(ranks == 1 || told.at("ranks")[1].at("read_faults") > 0) << end;
    }
  }
}

/// A pool of as many threads as there are processors has one for each thread of all ranks.
TEST(SpreadThreads, SeeTheProcessorsOfAllRanks) {
  LaunchedJob job({"--share=auto", "--spread-threads", "-n", "3", "--threads", "5", "--", "/usr/bin/getconf",
                   "_NPROCESSORS_ONLN"});
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), "15\n");
}

/// Its threads are those of a library of the system.
class Compressing : public testing::Test {
 protected:
  static std::vector<std::string> command(std::vector<std::string> words) {
    const std::vector<std::string> program{
        "-n", "3",           "--share=auto",      "--spread-threads", "--",
        tool, "--threads=3", "--block-size=8KiB", "--stdout",         job::program("patterns")};
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  static std::string native() {
    return output_of("timeout 100 " + tool + " --threads=3 --block-size=8KiB --stdout '" +
                     job::program("patterns") + "'");
  }

  inline static const std::string tool = "/usr/bin/xz";
};

TEST_F(Compressing, HasItsThreadsOnOneRankAndSaysWhatWouldSpreadThem) {
  LaunchedJob job(command({}));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_TRUE(job.output() == native());
  EXPECT_EQ(job.error(),
            "craton: threads of liblzma.so.5 run on rank 0 alone: a library of the system; "
            "--program-libraries=liblzma spreads them\n");
}

TEST_F(Compressing, HasThemOnAllRanksWhereTheLibraryIsNamed) {
  LaunchedJob job(command({"--program-libraries=liblzma.so.5", "--stats=json"}));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_TRUE(job.output() == native());
  const nlohmann::json ranks = nlohmann::json::parse(job.error()).at("ranks");
  for (int rank = 0; rank < 3; ++rank) EXPECT_GT(ranks.at(rank).at("write_faults"), 0) << "rank " << rank;
}

TEST_F(Compressing, IsToldOfLibrariesThatItDoesNotHave) {
  struct Wrong {
    std::string libraries;
    std::string told;
  };
  const std::string path = std::filesystem::canonical(tool);
  for (const auto& [libraries, told] :
       {Wrong{"libzlma", "libzlma: the program starts with no library of that name; did you mean liblzma?"},
        Wrong{"liblzma,libothers",
              "libothers: the program starts with no library of that name; ldd lists those of " + path},
        Wrong{
            "/usr/lib/nowhere",
            "/usr/lib/nowhere: the program starts with no library of that name; ldd lists those of " + path},
        Wrong{"libc", "libc: its state is always that of one process; leave it out"}}) {
    LaunchedJob job(command({"--program-libraries=" + libraries}));
    EXPECT_EQ(job::finish_clean(job), 1);
    EXPECT_EQ(job.output(), "");
    EXPECT_EQ(job.error().substr(0, job.error().find('\n')), "craton: --program-libraries names " + told);
  }
}

// ---- C++17's parallel algorithms

TEST(Algorithms, HaveTheirThreadsOnAllRanksWhereTheirLibraryIsNamed) {
  const std::string program = job::program("algorithms");
  if (::access(program.c_str(), X_OK) != 0) GTEST_SKIP() << "there is no libtbb-dev";
  const std::string native = output_of("timeout 100 " + program);
  for (const ThreadsWay& way : threads_ways) {
    std::vector<std::string> words = command_of(way, {"algorithms"});
    words.insert(words.begin(), {"--program-libraries=libtbb", "--stats=json"});
    LaunchedJob job(words);
    EXPECT_EQ(job::finish_clean(job), 0) << way << ": " << job.error();
    EXPECT_EQ(job.output(), native) << way;
    const nlohmann::json told = nlohmann::json::parse(job.error(), nullptr, false);
    ASSERT_FALSE(told.is_discarded()) << way << ": " << job.error();
    int ranks = 0;
    for (const nlohmann::json& rank : told.at("ranks")) ranks += rank.at("write_faults") > 100 ? 1 : 0;
    EXPECT_GE(ranks, way.ranks > 1 ? 2 : 0) << way;
  }
}

}  // namespace

}  // namespace craton
