// Programs that know nothing of us do the same over ranks as by themselves: output, exit code, and no word of
// ours.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <csignal>
#include <string>
#include <tuple>
#include <vector>

#include "launched_job.hpp"
#include "shell.hpp"

namespace craton::job {
namespace {

struct Native {
  std::string output;
  int code = -1;
};

/// Runs a program by itself.
Native run_native(const std::vector<std::string>& command) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it goes with this test, should that be ended at its limit
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(nothing, STDERR_FILENO);  // the programs' own complaints are seen in the other run
    ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  Native native;
  std::array<char, 65536> buffer;
  for (ssize_t count = 0; (count = ::read(ends[0], buffer.data(), buffer.size())) > 0;)
    native.output.append(buffer.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  native.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return native;
}

struct Case {
  const char* program;
  const char* argument = "";
  /// What of ours is to be said on standard error; empty: nothing.
  const char* said = "";
};
void PrintTo(const Case& each, std::ostream* out) {
  *out << each.program << " " << each.argument;
}

/// A case, and whether the ranks are on nodes of their own.
class SharedProgram : public testing::TestWithParam<std::tuple<Case, bool>> {};

TEST_P(SharedProgram, DoesTheSameAsByItself) {
  const auto& [each, isolated] = GetParam();
  std::vector<std::string> command{program(each.program)};
  if (*each.argument != '\0') command.emplace_back(each.argument);
  const Native native = run_native(command);
  std::vector<std::string> arguments{"-n", "2", "--share=yes"};
  if (isolated) arguments.emplace_back("--isolate-nodes");
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), command.begin(), command.end());
  LaunchedJob job(arguments);
  job.close_input();
  EXPECT_EQ(finish_clean(job), native.code) << job.error();
  EXPECT_EQ(job.output(), native.output) << job.error();
  if (*each.said == '\0') {
    EXPECT_EQ(occurrences(job.error(), "craton: "), 0) << job.error();
  } else {
    EXPECT_EQ(occurrences(job.error(), each.said), 1) << job.error();
    EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << "one cause, one message\n" << job.error();
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<Case, bool>>& info) {
  const auto& [each, isolated] = info.param;
  std::string name = std::string(each.program) + "_" + each.argument + (isolated ? "_isolated" : "");
  for (char& character : name) {
    if (std::isalnum(static_cast<unsigned char>(character)) == 0) character = '_';
  }
  return name;
}

constexpr const char* aborted = "died: aborted (SIGABRT)";
constexpr const char* segmentation_fault = "died: segmentation fault (SIGSEGV)";
constexpr const char* bus_error = "died: bus error (SIGBUS)";

INSTANTIATE_TEST_SUITE_P(
    Calls, SharedProgram,
    testing::Combine(testing::Values(Case{"transfers"}, Case{"transfers_fortified"}, Case{"names"},
                                     Case{"names_fortified"}, Case{"structures"},
                                     Case{"structures_fortified"}, Case{"requests"}, Case{"queues"},
                                     Case{"stdio"}, Case{"stdio_fortified"}, Case{"signals"},
                                     Case{"environment"}, Case{"children"}, Case{"cpp_streams"}),
                     testing::Bool()),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Ends, SharedProgram,
    testing::Combine(testing::Values(Case{"ends", "return0"}, Case{"ends", "return5"}, Case{"ends", "exit6"},
                                     Case{"ends", "exit-1"}, Case{"ends", "thread7"}, Case{"ends", "_exit8"},
                                     Case{"ends", "_exit0"}, Case{"ends", "_Exit9"}, Case{"ends", "quick10"},
                                     Case{"main_leaves"}, Case{"ends", "abort", aborted},
                                     Case{"ends", "segv", segmentation_fault},
                                     Case{"ends", "raise-segv", segmentation_fault},
                                     Case{"ends", "queue-segv", segmentation_fault},
                                     Case{"ends", "handled-segv", segmentation_fault},
                                     Case{"ends", "kill-bus", bus_error}, Case{"ends", "ignored-bus"},
                                     Case{"ends", "term", "died: terminated (SIGTERM)"},
                                     Case{"ends", "kill", "died: killed (SIGKILL)"},
                                     Case{"cpp_streams", "throw", aborted}),
                     testing::Values(false)),
    name_of);

#ifdef CRATON_HAVE_FORTRAN
INSTANTIATE_TEST_SUITE_P(Fortran, SharedProgram,
                         testing::Combine(testing::Values(Case{"units"}, Case{"region_units"}),
                                          testing::Bool()),
                         name_of);

/// Nobody makes a fort.20 of a unit of another rank's.
class ForeignUnit : public testing::TestWithParam<Case> {};

TEST_P(ForeignUnit, EndsTheJobWithAMessage) {
  LaunchedJob job({"-n", "2", "--share=yes", "--", program("region_units"), GetParam().argument});
  EXPECT_EQ(finish_clean(job), 1);
  ::unlink("fort.21");  // the unit that nobody has opened by name
  EXPECT_EQ(occurrences(job.error(), "craton: rank 1: "), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), GetParam().said), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "region_units.f90:"), 1) << "the statement\n" << job.error();
}

constexpr const char* opened_there = "unit 20 was opened on rank 0, and others can only write text to it";
INSTANTIATE_TEST_SUITE_P(All, ForeignUnit,
                         testing::Values(Case{"", "modes", "unit 23 was opened on rank 0"},
                                         Case{"", "raw", "unit 24 was opened on rank 0"},
                                         Case{"", "direct", "unit 25 was opened on rank 0"},
                                         Case{"", "read", opened_there}, Case{"", "rewind", opened_there},
                                         Case{"", "inquire", opened_there}, Case{"", "close", opened_there},
                                         Case{"", "open", opened_there},
                                         Case{"", "new", "unit -10 was opened on rank 0"},
                                         Case{"", "implicit", "unit 21 was opened on rank 0"},
                                         Case{"", "input", "unit 5 was opened on rank 0"}),
                         [](const auto& param) { return std::string(param.param.argument); });
#endif

#ifdef CRATON_HAVE_OPENMP_ROOM
INSTANTIATE_TEST_SUITE_P(
    Regions, SharedProgram,
    testing::Combine(testing::Values(Case{"transfers_openmp"}, Case{"names_openmp"},
                                     Case{"structures_openmp"}, Case{"requests_openmp"},
                                     Case{"queues_openmp"}, Case{"stdio_openmp"}, Case{"open_files_openmp"},
                                     Case{"forwarded_openmp"}, Case{"lent_streams_openmp"},
                                     Case{"file_streams_openmp"}, Case{"environment_openmp"},
                                     Case{"region_ends_openmp", "exit3"}, Case{"region_ends_openmp", "exit0"},
                                     Case{"region_ends_openmp", "_exit4"},
                                     Case{"region_ends_openmp", "first-exit5"},
                                     Case{"region_ends_openmp", "first-_exit6"},
                                     Case{"region_ends_openmp", "abort", aborted},
                                     Case{"region_ends_openmp", "raise-segv", segmentation_fault},
                                     Case{"region_ends_openmp", "thread-bus", bus_error}),
                     testing::Bool()),
    name_of);
INSTANTIATE_TEST_SUITE_P(RegionsOfOneNode, SharedProgram,
                         testing::Combine(testing::Values(Case{"descriptors_openmp", "calls"},
                                                          Case{"descriptors_openmp_fortified", "calls"},
                                                          Case{"descriptors_openmp", "hidden"},
                                                          Case{"descriptors_openmp", "whole"},
                                                          Case{"descriptors_openmp", "closed"},
                                                          Case{"descriptors_openmp", "sets"},
                                                          Case{"descriptors_openmp", "children"},
                                                          Case{"descriptors_openmp", "signals"}),
                                          testing::Values(false)),
                         name_of);

/// What a thread of another rank cannot use ends the job, with the function and the remedy.
class ForeignFile : public testing::TestWithParam<Case> {};

TEST_P(ForeignFile, EndsTheJobWithAMessage) {
  LaunchedJob job({"-n", "2", "--share=yes", "--", program("open_files_openmp"), GetParam().argument});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_EQ(occurrences(job.error(), GetParam().said), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << "one cause, one message\n" << job.error();
}

INSTANTIATE_TEST_SUITE_P(
    All, ForeignFile,
    testing::Values(Case{"", "memory", "rank 1: getc(): the stream was opened on rank 0"},
                    Case{"", "wide", "rank 1: fgetwc(): the stream was opened on rank 0"},
                    Case{"", "wide_text", "rank 1: fwprintf(): the stream was opened on rank 0"},
                    Case{"", "wide_input", "rank 1: getwchar(): the stream was opened on rank 0"},
                    Case{"", "wide_words", "rank 1: __isoc99_wscanf(): the stream was opened on rank 0"},
                    Case{"", "directory", "rank 1: readdir(): the stream was opened on rank 0"},
                    Case{"", "asynchronous", "rank 1: aio_read(): descriptor "},
                    Case{"", "list", "rank 1: lio_listio(): descriptor "}),
    [](const auto& param) { return std::string(param.param.argument); });

TEST(ForeignDescriptor, OfAnotherNodeEndsTheJobWithAMessage) {
  LaunchedJob job({"-n", "2", "--share=yes", "--isolate-nodes", "--", program("open_files_openmp"), "copy"});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_EQ(occurrences(job.error(), "was not opened on this rank, and rank 0 is on another node"), 1)
      << job.error();
}

/// Whether ranks are on nodes of their own.
class StandardInput : public testing::TestWithParam<bool> {};

TEST_P(StandardInput, IsReadByAllRanks) {
  constexpr std::array words{"zero", "one", "two", "three", "four", "five", "six"};
  std::vector<std::string> arguments{"-n", "2", "--share=yes", "--", program("forwarded_openmp"), "input"};
  if (GetParam()) arguments.insert(arguments.begin(), "--isolate-nodes");
  LaunchedJob job(arguments);
  std::string input;
  for (std::size_t i = 0; i < 240; ++i) input += std::to_string(i) + " " + words[i % words.size()] + "\n";
  job.write_input(input);
  job.close_input();
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "input: 0 failures\n") << job.error();
}

TEST_P(StandardInput, IsReadByLinesOfAllThreadsAtOnce) {
  std::vector<std::string> arguments{
      "-n", "2", "--threads", "2", "--share=yes", "--", program("lent_streams_openmp"), "lines"};
  if (GetParam()) arguments.insert(arguments.begin(), "--isolate-nodes");
  LaunchedJob job(arguments);
  std::string input;
  for (std::size_t i = 0; i < 1500; ++i)
    input += std::to_string(i) + " " + std::to_string(i) + (i % 5 == 0 ? " and so on, and so on\n" : "\n");
  job.write_input(input);
  job.close_input();
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "lines: 0 failures\n") << job.error();
}

TEST_P(StandardInput, IsLeftWhereItHasBeenReadTo) {
  const std::string run = std::string(CRATON_COMMAND) + (GetParam() ? " run --isolate-nodes" : " run") +
                          " -n 2 --share=yes -- " + program("lent_streams_openmp") + " rest";
  const test::Ran ran = test::run_in_shell("file=$(mktemp) && seq 0 5000 > $file && (" + run +
                                           " && head -n 1) < $file; code=$?; rm $file; exit $code");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, "rest: 0 failures\n5\n");
}

/// Likewise.
class Forwarded : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(Forwarded, BySeveralThreadsOfARank) {
  const auto& [name, isolated] = GetParam();
  std::vector<std::string> arguments{
      "-n", "2", "--threads", "2", "--share=yes", "--", program(name + std::string("_openmp"))};
  if (isolated) arguments.insert(arguments.begin(), "--isolate-nodes");
  LaunchedJob job(arguments);
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), name + std::string(": 0 failures\n")) << job.error();
}

INSTANTIATE_TEST_SUITE_P(All, Forwarded,
                         testing::Combine(testing::Values("forwarded", "lent_streams"), testing::Bool()),
                         [](const auto& param) {
                           return std::get<0>(param.param) +
                                  std::string(std::get<1>(param.param) ? "_isolated" : "_one_node");
                         });
INSTANTIATE_TEST_SUITE_P(All, StandardInput, testing::Bool(),
                         [](const auto& param) { return param.param ? "isolated" : "one_node"; });
#endif

TEST(Refused, ForkExecAndDaemonSayWhyAndFail) {
  LaunchedJob job({"-n", "2", "--share=yes", "--", program("refused")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(),
            "fork -1 Function not implemented\n_Fork -1 Function not implemented\n"
            "forkpty -1 Function not implemented\nexecv -1 Function not implemented\n"
            "daemon -1 Function not implemented\n");
  for (const char* call : {"fork()", "_Fork()", "forkpty()", "execv() of /bin/true", "daemon()"})
    EXPECT_EQ(occurrences(job.error(), std::string("craton: ") + call + " is refused: "), 1) << job.error();
}

}  // namespace
}  // namespace craton::job
