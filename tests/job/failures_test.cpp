// Jobs whose ranks fail: one message that names the cause, the exit code of the first failure, nothing left.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "job/frame.hpp"
#include "job/placement.hpp"
#include "launched_job.hpp"

namespace craton::job {
namespace {

struct Failure {
  const char* how;
  const char* message;  ///< after "craton: rank 2 (pid N on host H) "
  int exit_code;
};
void PrintTo(const Failure& failure, std::ostream* out) {
  *out << failure.how;
}

class FailingRank : public testing::TestWithParam<Failure> {};

TEST_P(FailingRank, EndsTheJobWithItsCause) {
  LaunchedJob job({"-n", "4", "--", program("fail"), GetParam().how});
  EXPECT_EQ(finish_clean(job), GetParam().exit_code) << job.error();
  const std::regex message(std::string("(^|\n)craton: rank 2 \\(pid [0-9]+ on host ") + this_host_name() +
                           "\\) " + GetParam().message + "; ending the job\n");
  EXPECT_TRUE(std::regex_search(job.error(), message)) << job.error();
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << "one cause, one message\n" << job.error();
}

INSTANTIATE_TEST_SUITE_P(
    All, FailingRank,
    testing::Values(Failure{"segfault", "died: segmentation fault \\(SIGSEGV\\)(, core dumped)?", 139},
                    Failure{"kill", "died: killed \\(SIGKILL\\)", 137},
                    Failure{"abort", "died: aborted \\(SIGABRT\\)(, core dumped)?", 134},
                    Failure{"exit0", "exited with code 0 without craton_finalize", 1},
                    Failure{"exit3", "exited with code 3 without craton_finalize", 3}),
    [](const auto& failure) { return std::string(failure.param.how); });

TEST(Program, ThatSaysThatItHasEndedEndsTheJobQuietly) {
  const std::string kind = std::to_string(static_cast<int>(FrameKind::ended));
  for (const int code : {0, 7}) {
    LaunchedJob job({"-n", "3", "--share=no", "--", program("ended"), kind, std::to_string(code)});
    EXPECT_EQ(finish_clean(job), code);
    EXPECT_EQ(job.output(), "said before\n");
    EXPECT_EQ(job.error(), "");
  }
}

/// Runs a job up to its time limit, which is longer and longer until the job has come as far as it is to
/// come. \param words of the command line after the limit \param wanted what it then says \returns what it
/// said
std::string said_at_time_limit(const std::function<std::vector<std::string>(int limit_s)>& words,
                               const std::string& wanted) {
  std::string said;
  for (const int limit_s : {2, 8, 32}) {
    std::vector<std::string> line = {"--timeout", std::to_string(limit_s) + "s"};
    const std::vector<std::string> rest = words(limit_s);
    line.insert(line.end(), rest.begin(), rest.end());
    LaunchedJob job(line);
    EXPECT_EQ(finish_clean(job), 124);
    said = job.error();
    EXPECT_EQ(occurrences(said, "craton: time limit of " + std::to_string(limit_s) + " s: "), 1) << said;
    if (said.find(wanted) != std::string::npos) break;
  }
  return said;
}

TEST(TimeLimit, SaysWhoKeepsTheOthersWaiting) {
  const std::string wanted = ": rank 2 has not reached barrier 1, where ranks 0, 1, 3 wait (for ";
  const std::string said = said_at_time_limit(
      [](int) {
        return std::vector<std::string>{"-n", "4", "--", program("fail"), "hang"};
      },
      wanted);
  EXPECT_NE(said.find(wanted), std::string::npos) << said;
  EXPECT_NE(said.find("rank 2 is computing; ending the job\n"), std::string::npos) << said;
}

TEST(TimeLimit, KnowsLaterBarriersAndSleepingRanks) {
  const std::string wanted = "rank 1 has not reached barrier 2, where ranks 0, 2 wait";
  const std::string said = said_at_time_limit(
      [](int) { return std::vector<std::string>{"-n", "3", "--", program("fail"), "sleep", "1"}; }, wanted);
  EXPECT_NE(said.find(wanted), std::string::npos) << said;
  EXPECT_NE(said.find("rank 1 is computing after barrier 1"), std::string::npos) << said;
}

TEST(TimeLimit, EndsProgramsThatNeverJoin) {
  LaunchedJob job({"-n", "2", "--timeout", "200ms", "--", "sleep", "1000"});
  EXPECT_EQ(finish_clean(job), 124);
  EXPECT_NE(job.error().find("ranks 0, 1 have not called craton_init"), std::string::npos) << job.error();
}

TEST(TimeLimit, SaysThatAStoppedRankDoesNotAnswer) {
  const std::string wanted = "rank 1 does not answer (stopped, or too busy)";
  const std::string said = said_at_time_limit(
      [](int limit_s) {
        const std::string stop = "(sleep " + std::to_string(limit_s / 2) + "; kill -STOP $$) & ";
        return std::vector<std::string>{
            "-n", "2",  "--",
            "sh", "-c", "if [ $CRATON_RANK = 1 ]; then " + stop + "fi; exec " + program("fail") + " sleep 1"};
      },
      wanted);
  EXPECT_NE(said.find(wanted), std::string::npos) << said;
}

TEST(TimeLimit, IsNothingToAJobThatEndsInTime) {
  LaunchedJob job({"-n", "2", "--timeout", "20s", "--", program("hello")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
}

TEST(Program, Missing) {
  LaunchedJob job({"-n", "3", "--", "./no-such-program"});
  EXPECT_EQ(finish_clean(job), 127);
  EXPECT_EQ(job.error(), "craton: cannot run ./no-such-program on host " + this_host_name() +
                             ": No such file or directory\n");
}

TEST(Program, MissingInThePath) {
  LaunchedJob job({"-n", "3", "--", "no-such-program"});
  EXPECT_EQ(finish_clean(job), 127);
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << job.error();
}

TEST(Program, NotExecutable) {
  LaunchedJob job({"-n", "3", "--", "/etc/passwd"});
  EXPECT_EQ(finish_clean(job), 126);
  EXPECT_EQ(job.error(),
            "craton: cannot run /etc/passwd on host " + this_host_name() + ": Permission denied\n");
}

TEST(Program, ADirectoryIsNone) {
  LaunchedJob job({"-n", "3", "--", "/tmp"});
  EXPECT_EQ(finish_clean(job), 126);
}

TEST(Program, WithAMissingInterpreterIsReportedOnceAndNothingRuns) {
  const std::string script = testing::TempDir() + "bad-interpreter-" + std::to_string(::getpid());
  std::ofstream(script) << "#!/no/such/interpreter\n";
  ASSERT_EQ(::chmod(script.c_str(), 0755), 0);
  LaunchedJob job({"-n", "3", "--", script});
  EXPECT_EQ(finish_clean(job), 127);
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << job.error();
  EXPECT_NE(job.error().find("interpreter"), std::string::npos) << job.error();
  ::unlink(script.c_str());
}

TEST(PlainPrograms, TheirFirstFailureCounts) {
  LaunchedJob job({"-n", "3", "--", "sh", "-c", "[ $CRATON_RANK != 1 ] || exit 42; sleep 1000"});
  EXPECT_EQ(finish_clean(job), 42);
  EXPECT_NE(job.error().find("craton: rank 1 ("), std::string::npos) << job.error();
  EXPECT_NE(job.error().find(") exited with code 42; ending the job\n"), std::string::npos) << job.error();
}

TEST(PlainPrograms, ThatIgnoreSigtermAreKilled) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c",
                   "if [ $CRATON_RANK = 1 ]; then exit 5; fi; trap '' TERM; while :; do sleep 1; done"});
  EXPECT_EQ(finish_clean(job), 5);
}

TEST(Grandchildren, InSessionsOfTheirOwnEndWithTheJob) {
  LaunchedJob job({"-n", "3", "--", program("orphan"), "exit"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), "ready\n"), 3);
}

TEST(Grandchildren, InSessionsOfTheirOwnEndWithAFailedJob) {
  LaunchedJob job({"-n", "3", "--", program("orphan"), "fail"});
  EXPECT_EQ(finish_clean(job), 9) << job.error();
}

TEST(Launcher, KilledTakesEverythingWithIt) {
  for (const char* what : {"hang", "sleep"}) {
    LaunchedJob job({"-n", "3", "--", program("fail"), what});
    ASSERT_TRUE(job.read_until([&job] { return job.processes().size() == 4; })) << "a node and three ranks";
    job.send_signal(SIGKILL);
    EXPECT_EQ(job.finish(), 137);
    EXPECT_TRUE(job.wait_until_gone());
    EXPECT_EQ(job.leftovers(), "");
  }
}

TEST(Launcher, KilledTakesGrandchildrenWithIt) {
  LaunchedJob job({"-n", "2", "--", program("orphan"), "wait"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2));
  job.send_signal(SIGKILL);
  EXPECT_EQ(job.finish(), 137);
  EXPECT_TRUE(job.wait_until_gone());
  EXPECT_EQ(job.leftovers(), "");
}

/// The node daemon: the only process of a job whose parent is the launcher.
pid_t node_of(const LaunchedJob& job) {
  for (const pid_t pid : job.processes()) {
    std::string text = content_of("/proc/" + std::to_string(pid) + "/stat");
    text.erase(0, text.rfind(')') + 4);
    if (std::atoi(text.c_str()) == job.pid()) return pid;
  }
  return -1;
}

TEST(NodeDaemon, KilledEndsTheJobWithAMessage) {
  LaunchedJob job({"-n", "2", "--", program("orphan"), "wait"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2));
  const pid_t node = node_of(job);
  ASSERT_GT(node, 0);
  ::kill(node, SIGKILL);
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_EQ(job.error(), "craton: lost the node daemon on host " + this_host_name() +
                             ": its process died: killed (SIGKILL); ending the job\n");
}

TEST(NodeDaemon, IsNotEndedByWhatIsSentToItsGroup) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c", "echo ready; read word; echo $word"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2));
  const pid_t node = node_of(job);
  ASSERT_GT(node, 0);
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP})
    EXPECT_EQ(::kill(node, number), 0);
  job.write_input("on\n");
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), "on\n"), 1);
}

TEST(Rank, ThatJoinsTwiceIsAFailure) {
  // The shell starts a second program in the same rank while the first one is in the job.
  LaunchedJob job(
      {"-n", "1", "--", "sh", "-c", program("fail") + " sleep & sleep 0.5; exec " + program("hello")});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_NE(job.error().find("craton_init a second time"), std::string::npos) << job.error();
}

}  // namespace
}  // namespace craton::job
