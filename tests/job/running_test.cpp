// Jobs that run as they should: output, input, signals, hosts, other launchers.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "base/option_table.hpp"
#include "job/placement.hpp"
#include "launched_job.hpp"
#include "shell.hpp"

namespace craton::job {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Under a sanitizer, memory is the sanitizer's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool memory_is_measurable = false;
#else
constexpr bool memory_is_measurable = true;
#endif

/// The line that program babble writes, without its end.
std::string babble_line(int rank, long number, std::size_t length) {
  std::string line = "r" + std::to_string(rank) + " " + std::to_string(number) + " ";
  line.resize(length - 1, 'x');
  return line;
}

TEST(CApi, EveryRankJoinsAndLeaves) {
  LaunchedJob job({"-n", "4", "--", program("hello"), "100"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  std::vector<std::string> lines = lines_of(job.output());
  std::sort(lines.begin(), lines.end());
  EXPECT_EQ(lines, (std::vector<std::string>{"rank 0 of 4 on node 0", "rank 1 of 4 on node 0",
                                             "rank 2 of 4 on node 0", "rank 3 of 4 on node 0"}));
}

/// All but the first connect to it at the same time.
TEST(CApi, ManyRanksOfOneHostReachEachOther) {
  LaunchedJob job({"-n", "80", "--", program("hello")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), " of 80 on node 0\n"), 80);
}

/// Without privileges, descriptors under way are limited by those that may be open.
TEST(CApi, ManyRanksOfAUserWithAFewOpenFilesReachEachOther) {
  LaunchedJob job({"-n", "80", "--", "setpriv", "--bounding-set=-all", "--inh-caps=-all", "sh", "-c",
                   "ulimit -Sn 400; exec " + program("hello")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), " of 80 on node 0\n"), 80);
}

TEST(CApi, TheSmallestAndLargestValuesOfOptionsWork) {
  for (const Option option : {Option::ring_bytes, Option::endpoints, Option::offload_workers,
                              Option::notice_capacity, Option::parallel_releases}) {
    const OptionSpec& spec = spec_of(option);
    for (const auto value : {spec.minimum, spec.maximum}) {
      LaunchedJob job(
          {"-n", "2", "--" + std::string(spec.name), std::to_string(value), "--", program("hello")});
      EXPECT_EQ(finish_clean(job), 0) << spec.name << " " << value << "\n" << job.error();
    }
  }
}

TEST(CApi, ChecksStatesInAJob) {
  LaunchedJob job({"-n", "3", "--", program("states")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "ok\nok\nok\n");
}

TEST(CApi, WorksWithoutALauncher) {
  EXPECT_EQ(std::system((program("states") + " > /dev/null").c_str()), 0);
}

TEST(CApi, TwoProgramsOneAfterTheOther) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c", program("hello") + " && " + program("hello")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), "rank 1 of 2"), 2);
}

TEST(CApi, AClosedControlDescriptorIsAnErrorAndNoJobOfOne) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c", "CRATON_CONTROL_FD=77 exec " + program("hello")});
  EXPECT_EQ(finish_clean(job), 70);
  EXPECT_NE(job.error().find("descriptor 77 (CRATON_CONTROL_FD) is no socket"), std::string::npos)
      << job.error();
}

TEST(CApi, IsolatedNodes) {
  LaunchedJob job({"-n", "3", "--isolate-nodes", "--output", "ordered", "--", program("hello")});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(),
            "[0] rank 0 of 3 on node 0\n[1] rank 1 of 3 on node 1\n[2] rank 2 of 3 on node 2\n");
}

TEST(Output, RawPassesAHundredMegabytesInBoundedMemory) {
  LaunchedJob job({"-n", "2", "--", program("babble"), "50000000"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  std::printf("         100 MB, the launcher had at most %.1f MiB\n",
              static_cast<double>(job.launcher_memory_bytes()) / (1 << 20));
  if (memory_is_measurable) {
    EXPECT_LT(job.launcher_memory_bytes(), 64L << 20U);
  }
  std::map<int, long> next;
  bool whole = true;
  for (const std::string& line : lines_of(job.output())) {
    const int rank = line.size() > 1 ? line[1] - '0' : -1;
    if (line == "r" + std::to_string(rank) + " end") continue;
    whole = whole && rank >= 0 && rank < 2 && line == babble_line(rank, next[rank]++, 100);
  }
  EXPECT_TRUE(whole) << "a line was torn, lost or out of order";
  EXPECT_EQ(next[0], 500'000);
  EXPECT_EQ(next[1], 500'000);
  EXPECT_EQ(occurrences(job.output(), " end"), 2);
}

TEST(Output, LinesLongerThanAnyBufferKeepTheirBytes) {
  LaunchedJob job({"-n", "1", "--", program("babble"), "3000000", "1000000"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  std::string expected;
  for (long i = 0; i < 3; ++i) expected += babble_line(0, i, 1'000'000) + "\n";
  EXPECT_TRUE(job.output() == expected + "r0 end");
}

TEST(Output, PrefixStandsBeforeEveryLineOfItsRank) {
  LaunchedJob job({"-n", "4", "--output", "prefix", "--", program("babble"), "200000", "64"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  std::map<int, long> next;
  for (const std::string& line : lines_of(job.output())) {
    const int rank = line.size() > 3 ? line[1] - '0' : -1;
    ASSERT_TRUE(rank >= 0 && rank < 4) << line;
    const std::string prefix = "[" + std::to_string(rank) + "] ";
    if (line == prefix + "r" + std::to_string(rank) + " end") continue;
    ASSERT_EQ(line, prefix + babble_line(rank, next[rank]++, 64));
  }
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(next[rank], 200'000 / 64);
}

TEST(Output, OrderedKeepsWhatIsNotItsTurnInAFileWithoutAName) {
  // Rank 1 has written all of its 60 MB long before rank 0, which waits for its input, says a word.
  LaunchedJob job(
      {"-n", "2", "--output", "ordered", "--", "sh", "-c",
       "if [ $CRATON_RANK = 1 ]; then exec " + program("babble") + " 60000000; fi; read word; echo $word"});
  ASSERT_TRUE(job.read_until([&job] { return job.processes().size() == 2; })) << "rank 1 has not ended";
  EXPECT_EQ(job.output(), "");
  job.write_input("first\n");
  job.close_input();
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  std::string expected = "[0] first\n";
  for (long i = 0; i < 600'000; ++i) expected += "[1] " + babble_line(1, i, 100) + "\n";
  EXPECT_TRUE(job.output() == expected + "[1] r1 end\n") << job.output().substr(0, 200);
  std::printf("         60 MB spooled, the launcher had at most %.1f MiB\n",
              static_cast<double>(job.launcher_memory_bytes()) / (1 << 20));
  if (memory_is_measurable) {
    EXPECT_LT(job.launcher_memory_bytes(), 32L << 20U);
  }
}

TEST(Output, ThatNobodyReadsKeepsNoMessageFromComing) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c",
                   "if [ $CRATON_RANK = 1 ]; then read word; sleep 0.3; exit 6; fi; exec " +
                       program("babble") + " 1000000000"},
                  /*read_output=*/false);
  EXPECT_TRUE(job.wait_for_error("exited with code 6; ending the job\n")) << job.error();
  EXPECT_TRUE(job.read_until([&job] { return job.processes().size() <= 1; })) << "the ranks are still there";
  EXPECT_EQ(finish_clean(job), 6);
}

TEST(Output, ThatNobodyReadsAnyMoreEndsWhoWritesIt) {
  const std::string command = std::string(CRATON_COMMAND) + " run -n 2 --share=no --timeout 60s -- ";
  for (const char* const writer : {"yes", "sh -c \"while :; do echo again; done\""}) {
    const test::Ran ran = test::run_in_shell("bash -c '" + command + writer +
                                             " | head -n 1 > /dev/null; echo ${PIPESTATUS[0]}' 2>&1");
    EXPECT_EQ(ran.output, "141\n") << writer;
  }
  // One that ignores the signal finds an error instead, and goes on.
  const test::Ran ran = test::run_in_shell("bash -c '" + command +
                                           "sh -c \"trap \\\"\\\" PIPE; yes 2> /dev/null; echo on >&2\" "
                                           "| head -n 1 > /dev/null; echo ${PIPESTATUS[0]}' 2>&1");
  EXPECT_EQ(ran.output, "on\non\n0\n");
}

TEST(Output, AsksBeforeItIsAnswered) {
  LaunchedJob job(
      {"-n", "2", "--", "sh", "-c", "[ $CRATON_RANK = 1 ] || printf \"Name: \"; read word; echo $word"});
  ASSERT_TRUE(job.wait_for_output("Name: ")) << job.error();
  job.write_input("somebody\n");
  EXPECT_EQ(finish_clean(job), 0);
  EXPECT_EQ(occurrences(job.output(), "somebody\n"), 1) << job.output();
}

TEST(Output, StandardErrorIsApart) {
  LaunchedJob job({"-n", "2", "--output", "prefix", "--", "sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(finish_clean(job), 0);
  EXPECT_EQ(occurrences(job.output(), "] out\n"), 2);
  EXPECT_EQ(occurrences(job.error(), "] err\n"), 2);
}

void expect_that_input_arrives(LaunchedJob& job, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += "line " + std::to_string(i) + "\n";
  job.write_input(text);
  job.close_input();
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_TRUE(job.output() == text) << job.output().size() << " bytes instead of " << text.size();
}

TEST(Input, GoesToRankZeroAndNobodyElse) {
  LaunchedJob job({"-n", "3", "--", "cat"});
  expect_that_input_arrives(job, 300'000);
}

TEST(Input, ThatNobodyTakesKeepsNothingFromEnding) {
  LaunchedJob job({"-n", "2", "--", "true"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
}

TEST(Input, FromAFile) {
  const std::string command =
      std::string(CRATON_COMMAND) + " run -n 2 -- cat < " + CRATON_COMMAND + " | cmp - " + CRATON_COMMAND;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Input, OfThisHostIsTheFileItself) {
  const std::string run = std::string(CRATON_COMMAND) + " run -n 1 --share=no -- ";
  // Only what has a beginning can be read again from there.
  EXPECT_EQ(test::output_of(run +
                            "python3 -c 'import sys; file = sys.stdin.buffer; first = file.read(); "
                            "file.seek(0); print(len(first) > 0 and first == file.read())' < " +
                            CRATON_COMMAND),
            "True\n");
}

TEST(Input, ThatIsNotReadIsThereForTheNextCommand) {
  EXPECT_EQ(test::output_of("printf '1\\n2\\n3\\n' | while read word; do echo $word; " +
                            std::string(CRATON_COMMAND) + " run -n 2 --share=no -- true; done"),
            "1\n2\n3\n");
}

TEST(Input, OfAWriterWhomNobodyReadsAnyMoreEndsIt) {
  // The writer ends before the job does: the ranks wait for it.
  EXPECT_EQ(
      test::output_of("d=$(mktemp -d); (yes; : > $d/ended) 2> $d/error | " + std::string(CRATON_COMMAND) +
                      " run -n 2 --share=no --timeout 20s -- sh -c 'exec < /dev/null; until [ -e $0/ended ]; "
                      "do sleep 0.01; "
                      "done; echo ended' $d; rm -r $d"),
      "ended\nended\n");
}

TEST(Input, Closed) {
  EXPECT_EQ(std::system((std::string(CRATON_COMMAND) + " run -n 2 -- cat <&-").c_str()), 0);
}

TEST(Output, Closed) {
  for (const char* const closed : {" >&-", " 2>&-", " <&- >&- 2>&-"}) {
    std::string command = CRATON_COMMAND;
    command += " run -n 2 --share=no -- sh -c 'echo out; echo err >&2'";
    command += closed;
    EXPECT_EQ(std::system(command.c_str()), 0) << closed;
  }
}

TEST(Output, ThatCannotBeWrittenIsAFailure) {
  const std::string command =
      std::string(CRATON_COMMAND) + " run -n 2 --share=no -- sh -c 'echo 1; echo 2 >&2' 2>&1 >/dev/full";
  const auto [status, told] = test::run_in_shell(command);
  EXPECT_EQ(status, 1) << told;
  EXPECT_EQ(occurrences(told, "2\n"), 2) << told;
  EXPECT_EQ(occurrences(told, "craton: cannot write the output of the ranks: No space left on device\n"), 1)
      << told;
}

TEST(Signals, ThatWereIgnoredBeforeEndNothing) {
  for (const int number : {SIGHUP, SIGINT, SIGQUIT}) {
    LaunchedJob job({"-n", "2", "--", "sh", "-c", "echo ready; read word; echo $word"}, true, number);
    ASSERT_TRUE(job.wait_for_output("ready\n", 2));
    job.send_signal(number);
    job.write_input("on\n");
    EXPECT_EQ(finish_clean(job), 0) << job.error();
    EXPECT_EQ(occurrences(job.output(), "on\n"), 1);
  }
}

TEST(Signals, AreForwardedToEveryRank) {
  LaunchedJob job({"-n", "3", "--", program("signals"), "obey"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 3));
  const std::vector<std::pair<int, const char*>> signals = {
      {SIGUSR1, "USR1\n"}, {SIGUSR2, "USR2\n"}, {SIGWINCH, "WINCH\n"}};
  for (const auto& [number, name] : signals) {
    job.send_signal(number);
    EXPECT_TRUE(job.wait_for_output(name, 3)) << job.output();
  }
  job.send_signal(SIGINT);
  EXPECT_EQ(finish_clean(job), 0) << "ranks that end with 0 on SIGINT end the job with 0";
  EXPECT_EQ(occurrences(job.output(), "INT\n"), 3);
}

TEST(Signals, ThatRanksDieOfAreTheExitCode) {
  for (const auto& [number, name] : std::vector<std::pair<int, const char*>>{
           {SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}}) {
    LaunchedJob job({"-n", "2", "--", "sh", "-c", "echo ready; exec sleep 1000"});
    ASSERT_TRUE(job.wait_for_output("ready\n", 2));
    job.send_signal(number);
    EXPECT_EQ(finish_clean(job), 128 + number);
    EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << job.error();
    EXPECT_NE(job.error().find(std::string("was ended by the ") + name + " that craton was sent"),
              std::string::npos)
        << job.error();
  }
}

TEST(Signals, ASecondInterruptKills) {
  LaunchedJob job({"-n", "2", "--", program("signals"), "stubborn"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2));
  job.send_signal(SIGINT);
  ASSERT_TRUE(job.wait_for_output("INT\n", 2));
  // From another process: what one sends twice at once counts once.
  EXPECT_EQ(test::run_in_shell("kill -INT " + std::to_string(job.pid())).code, 0);
  EXPECT_EQ(finish_clean(job), 130) << job.error();
}

TEST(Signals, OfTimeoutLetProgramsEndInOrder) {
  // It sends them to its command, and then to its group, which the command is in, too.
  const std::string command = "d=$(mktemp -d); mkfifo $d/out; timeout 100 " + std::string(CRATON_COMMAND) +
                              " run -n 2 --share=no -- " + program("signals") +
                              " obey > $d/out & exec 3< $d/out; read word <&3; read word <&3; kill -TERM $!; "
                              "cat <&3; wait $!; echo code $?; rm -r $d";
  for (int i = 0; i < 3; ++i) {
    const test::Ran ran = test::run_in_shell(command);
    EXPECT_EQ(ran.output, "TERM\nTERM\ncode 0\n");
  }
}

TEST(Signals, StopAndContinue) {
  LaunchedJob job({"-n", "2", "--", "sh", "-c", "echo ready; read word; echo $word"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2));
  const auto state_of = [](pid_t pid) {
    const std::string text = content_of("/proc/" + std::to_string(pid) + "/stat");
    return text.empty() ? '?' : text[text.rfind(')') + 2];
  };
  job.send_signal(SIGTSTP);
  ASSERT_TRUE(job.read_until([&] { return state_of(job.pid()) == 'T'; })) << "the launcher does not stop";
  job.send_signal(SIGCONT);
  job.write_input("on\n");
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), "on\n"), 1);
}

/// A launch agent for tests: a script that runs what follows the host name here.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& body = "export FAKE_HOST=$1; shift; exec \"$@\"")
      : path_(testing::TempDir() + "fake-agent-" + std::to_string(::getpid())) {
    std::ofstream(path_) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path_.c_str(), 0755);
  }
  ~FakeAgent() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Input, GoesToRankZeroOfAnotherHost) {
  const FakeAgent agent;
  LaunchedJob job({"-n", "2", "--host", "a,b", "--launch-agent", agent.path(), "--", "cat"});
  expect_that_input_arrives(job, 100'000);
}

TEST(Hosts, ShareTheRanksThroughTheLaunchAgent) {
  const FakeAgent agent;
  LaunchedJob job({"-n", "5", "--host", "a,b", "--launch-agent", agent.path(), "--output", "ordered", "--",
                   "sh", "-c", "echo on $FAKE_HOST"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "[0] on a\n[1] on a\n[2] on a\n[3] on b\n[4] on b\n");
}

TEST(Hosts, AFailureIsNamedWithItsHostAndEndsTheOthers) {
  const FakeAgent agent;
  LaunchedJob job(
      {"-n", "4", "--host", "a,b", "--launch-agent", agent.path(), "--", program("fail"), "kill"});
  EXPECT_EQ(finish_clean(job), 137) << job.error();
  EXPECT_NE(job.error().find("on host b (" + this_host_name() + ")) died: killed (SIGKILL)"),
            std::string::npos)
      << job.error();
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << job.error();
}

TEST(Hosts, TooFew) {
  LaunchedJob job({"-n", "4", "--host", "a", "--ranks-per-node", "2", "--", "true"});
  EXPECT_NE(finish_clean(job), 0);
  EXPECT_NE(job.error().find("cannot place 4 ranks: 1 host holds 2"), std::string::npos) << job.error();
}

TEST(Hosts, AnAgentThatFailsIsNamed) {
  LaunchedJob job({"-n", "2", "--host", "a,b", "--launch-agent", "false", "--", "true"});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_NE(job.error().find("craton: cannot start a node daemon on host "), std::string::npos)
      << job.error();
  EXPECT_NE(job.error().find("its process exited with code 1 (started by: false "), std::string::npos)
      << job.error();
}

TEST(Hosts, AnAgentThatSaysSomethingElseIsQuoted) {
  LaunchedJob job({"-n", "1", "--host", "a", "--launch-agent", "echo Welcome to", "--", "true"});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_NE(job.error().find("are no frame, it begins with \"Welcome to a"), std::string::npos)
      << job.error();
}

TEST(Hosts, AnAgentThatNeverAnswersIsGivenUp) {
  const FakeAgent agent("exec sleep 1000");
  LaunchedJob job(
      {"-n", "1", "--host", "a", "--connect-timeout", "300ms", "--launch-agent", agent.path(), "--", "true"});
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_NE(job.error().find("host a has not answered within 300 ms"), std::string::npos) << job.error();
}

/// A daemon that is stopped is as silent as one whose host is cut off.
TEST(Hosts, OneThatAnswersNoMoreIsLost) {
  const FakeAgent agent;
  LaunchedJob job({"-n", "2", "--host", "a,b", "--node-timeout", "2s", "--launch-agent", agent.path(),
                   "--share=no", "--", "sh", "-c", "echo $PPID; exec sleep 1000"});
  ASSERT_TRUE(job.wait_for_output("\n", 2)) << job.error();
  ASSERT_EQ(::kill(std::atoi(job.output().c_str()), SIGSTOP), 0);
  EXPECT_EQ(finish_clean(job), 1);
  EXPECT_NE(job.error().find("craton: lost the node daemon on host "), std::string::npos) << job.error();
  EXPECT_NE(job.error().find(": it has not answered for 2 s; ending the job\n"), std::string::npos)
      << job.error();
}

TEST(Hosts, AreNotLostByALauncherThatWasStopped) {
  const FakeAgent agent;
  LaunchedJob job({"-n", "2", "--host", "a,b", "--node-timeout", "2s", "--launch-agent", agent.path(),
                   "--share=no", "--", "sh", "-c", "echo ready; read word; echo $word"});
  ASSERT_TRUE(job.wait_for_output("ready\n", 2)) << job.error();
  job.send_signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(3));  // more than the limit
  job.send_signal(SIGCONT);
  job.write_input("on\n");
  EXPECT_EQ(finish_clean(job), 0) << job.error();
}

/// Two network namespaces joined by a cable, gone with the object.
class TwoNamespaces {
 public:
  TwoNamespaces() {
    const std::string id = std::to_string(::getpid());
    a_ = "cra" + id;
    b_ = "crb" + id;
    made_ = run("ip netns add " + a_) && run("ip netns add " + b_) &&
            run("ip link add veth0 netns " + a_ + " type veth peer name veth0 netns " + b_) &&
            up(a_, "10.98.7.1/24") && up(b_, "10.98.7.2/24");
  }
  ~TwoNamespaces() {
    run("ip netns del " + a_);
    run("ip netns del " + b_);
  }
  bool made() const { return made_; }
  std::string hosts() const { return a_ + "," + b_; }

 private:
  static bool run(const std::string& command) {
    return std::system((command + " 2> /dev/null").c_str()) == 0;
  }
  static bool up(const std::string& name, const std::string& address) {
    return run("ip -n " + name + " addr add " + address + " dev veth0") &&
           run("ip -n " + name + " link set veth0 up") && run("ip -n " + name + " link set lo up");
  }
  std::string a_;
  std::string b_;
  bool made_ = false;
};

TEST(Hosts, InNetworkNamespacesTalkOverTcp) {
  const TwoNamespaces namespaces;
  if (!namespaces.made()) GTEST_SKIP() << "this user may not make network namespaces (ip netns add)";
  LaunchedJob job({"-n", "4", "--host", namespaces.hosts(), "--launch-agent", "ip netns exec", "--transport",
                   "tcp", "--output", "ordered", "--", program("hello"), "20"});
  EXPECT_EQ(finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(),
            "[0] rank 0 of 4 on node 0\n[1] rank 1 of 4 on node 0\n[2] rank 2 of 4 on node 1\n"
            "[3] rank 3 of 4 on node 1\n");
  LaunchedJob failing({"-n", "4", "--host", namespaces.hosts(), "--launch-agent", "ip netns exec", "--",
                       program("fail"), "kill"});
  EXPECT_EQ(finish_clean(failing), 137) << failing.error();
}

TEST(OpenMpi, RanksFindTheirPlaceThroughPmix) {
  if (std::system("command -v mpirun > /dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'") !=
      0) {
    GTEST_SKIP() << "Open MPI's mpirun is not installed";
  }
  // What Open MPI's own libraries leave allocated is not ours to look for.
  const std::string mpirun =
      "ASAN_OPTIONS=detect_leaks=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun "
      "--oversubscribe -n 4 ";
  const std::string file = testing::TempDir() + "mpirun-" + std::to_string(::getpid());
  ASSERT_EQ(std::system((mpirun + program("hello") + " > " + file + " 2>&1").c_str()), 0);
  std::string text = content_of(file);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(occurrences(text, "rank " + std::to_string(rank) + " of 4 on node 0\n"), 1) << text;
  }
  // A rank that leaves: mpirun alone would let the others wait for ever.
  EXPECT_NE(std::system((mpirun + program("fail") + " exit0 > " + file + " 2>&1").c_str()), 0);
  text = content_of(file);
  // That one, or one that has ended for its sake; where mpirun is quick to end the others, only the barrier
  // says so.
  EXPECT_NE(text.find(" has died"), std::string::npos) << text;
  ::unlink(file.c_str());
}

TEST(Mpich, IsRefusedAndNotTakenForJobsOfOne) {
  EXPECT_NE(std::system(("PMI_SIZE=2 PMI_RANK=1 " + program("hello") + " 2> /dev/null").c_str()), 0);
  EXPECT_EQ(std::system(("PMI_SIZE=1 PMI_RANK=0 " + program("hello") + " > /dev/null").c_str()), 0);
}

}  // namespace
}  // namespace craton::job
