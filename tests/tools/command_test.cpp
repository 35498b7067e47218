/// \file
/// The command line of `craton` as a user meets it: what it prints, where, and its exit code. Jobs are
/// launched in tests/job.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"
#include "base/unique_fd.hpp"
#include "shell.hpp"

namespace craton {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string error;
};

/// Reads both pipes until they are closed.
void read_both(std::array<UniqueFd, 2>& pipes, std::array<std::string*, 2> texts) {
  while (pipes[0] || pipes[1]) {
    std::array<pollfd, 2> waits = {{{.fd = pipes[0].get(), .events = POLLIN, .revents = 0},
                                    {.fd = pipes[1].get(), .events = POLLIN, .revents = 0}}};
    if (::poll(waits.data(), waits.size(), 60'000) <= 0) return;
    for (std::size_t i = 0; i < pipes.size(); ++i) {
      if (waits[i].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t got = ::read(pipes[i].get(), buffer.data(), buffer.size());
      if (got > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(got));
      } else {
        pipes[i].reset();
      }
    }
  }
}

/// Runs craton with nothing in its environment but `variables`.
Outcome craton_command(std::vector<std::string> arguments, std::vector<std::string> variables = {}) {
  arguments.insert(arguments.begin(), "craton");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);

  std::array<int, 2> out{};
  std::array<int, 2> error{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 || ::pipe2(error.data(), O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipe";
    return {};
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(error[1], STDERR_FILENO);
    ::execve(CRATON_COMMAND, argv.data(), environment.data());
    ::_exit(126);
  }
  ::close(out[1]);
  ::close(error[1]);
  Outcome outcome;
  std::array<UniqueFd, 2> pipes = {UniqueFd(out[0]), UniqueFd(error[0])};
  read_both(pipes, {&outcome.out, &outcome.error});
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "died of signal " << WTERMSIG(status);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

struct WrongLine {
  std::vector<std::string> arguments;
  const char* message;
};

class WrongCommandLine : public testing::TestWithParam<WrongLine> {};

TEST_P(WrongCommandLine, IsToldInOneLineWithExitCode2) {
  const Outcome outcome = craton_command(GetParam().arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.error, std::string("craton: ") + GetParam().message + "\n");
  EXPECT_EQ(outcome.out, "");
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(, WrongCommandLine, testing::Values(
  WrongLine{{}, "which command? craton --help lists them"},
  WrongLine{{"rnu"}, "unknown command \"rnu\"; did you mean run?"},
  WrongLine{{"frobnicate"}, "unknown command \"frobnicate\"; craton --help lists all"},
  WrongLine{{"--vresion"}, "unknown flag --vresion; did you mean --version?"},
  WrongLine{{"--frobnicate"}, "unknown flag --frobnicate; craton --help lists all"},
  WrongLine{{"run"}, "craton run needs -n, the number of ranks: craton run -n 4 -- program"},
  WrongLine{{"run", "./program"}, "craton run needs -n, the number of ranks: craton run -n 4 -- program"},
  WrongLine{{"run", "-n", "4"}, "craton run needs a program: craton run -n 4 -- program arguments"},
  WrongLine{{"run", "-n", "4", "--"}, "craton run needs a program: craton run -n 4 -- program arguments"},
  WrongLine{{"run", "-n", "0", "./p"}, "cannot run \"0\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"run", "-n", "4097", "./p"}, "cannot run \"4097\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"run", "-n", "4x", "./p"}, "cannot run \"4x\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"run", "-n", "99999999999", "./p"}, "cannot run \"99999999999\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"run", "-n", "4", "-n", "5x", "./p"}, "cannot run \"5x\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"top", "--interval", "1s", "--interval", "2x"}, "cannot use \"2x\" of flag --interval: unknown unit \"x\" (it takes a time such as 20us, 1.5s or 5min, from 100ms to 1000s)"},
  WrongLine{{"top", "--job", "1", "--job", "2", "--once", "--interval", "1"}, "cannot use \"1\" of flag --interval: without a unit (it takes a time such as 20us, 1.5s or 5min, from 100ms to 1000s)"},
  WrongLine{{"run", "--spni", "5us", "-n", "4", "./p"}, "unknown flag --spni; did you mean --spin?"},
  WrongLine{{"run", "-n", "4", "--isolate-node", "--", "./p"}, "unknown flag --isolate-node; did you mean --isolate-nodes?"},
  WrongLine{{"run", "-n", "4", "--spni=5us", "./p"}, "unknown flag --spni; did you mean --spin?"},
  WrongLine{{"run", "-n", "4", "--colour", "./p"}, "unknown flag --colour; craton run --help lists all"},
  WrongLine{{"run", "-n", "4", "--spin"}, "--spin needs a value"},
  WrongLine{{"run", "-n", "4", "--spin", "50ms", "./p"}, "cannot use \"50ms\" of flag --spin: above the maximum of 10ms (it takes a time such as 20us, 1.5s or 5min, from 0s to 10ms)"},
  WrongLine{{"run", "-n", "4", "--spin=", "./p"}, "cannot use \"\" of flag --spin: not a number (it takes a time such as 20us, 1.5s or 5min, from 0s to 10ms)"},
  WrongLine{{"run", "--ranks=", "4", "./p"}, "cannot run \"\" ranks: -n takes a whole number from 1 to 4096"},
  WrongLine{{"run", "-n", "4", "--isolate-nodes=", "./p"}, "--isolate-nodes needs a value after =, or no ="},
  WrongLine{{"run", "-n", "4", "--trace=", "--spin=", "./p"}, "cannot use \"\" of flag --spin: not a number (it takes a time such as 20us, 1.5s or 5min, from 0s to 10ms)"},
  WrongLine{{"top", "--interval=", "1s"}, "craton top takes no argument \"1s\""},
  WrongLine{{"run", "-n", "4", "--isolate-nodes=maybe", "./p"}, "cannot use \"maybe\" of flag --isolate-nodes: neither yes nor no (it takes yes or no)"},
  WrongLine{{"run", "-n", "4", "--output", "pretty", "./p"}, "cannot use \"pretty\" of flag --output: not one of the choices (it takes one of raw|prefix|ordered)"},
  WrongLine{{"run", "-n", "1", "--share=no", "--stats-file=f", "/bin/true"}, "cannot write statistics to f: none are asked for; say --stats=text or --stats=json as well"},
  WrongLine{{"run", "-n", "1", "--share=no", "--stats=json", "--stats-file=/dev/null/f", "/bin/true"}, "cannot write /dev/null/f: Not a directory; name another file"},
  WrongLine{{"info", "--optoins"}, "unknown flag --optoins; did you mean --options?"},
  WrongLine{{"info", "me"}, "craton info takes no argument \"me\""},
  WrongLine{{"info", "--man"}, "craton info: --markdown and --man need --options"},
  WrongLine{{"info", "--options", "--man", "--json"}, "craton info takes one of --json, --markdown and --man"},
  WrongLine{{"top", "me"}, "craton top takes no argument \"me\""},
  WrongLine{{"top", "--onec"}, "unknown flag --onec; did you mean --once?"},
  WrongLine{{"top", "--interval", "1ms"}, "cannot use \"1ms\" of flag --interval: below the minimum of 100ms (it takes a time such as 20us, 1.5s or 5min, from 100ms to 1000s)"},
  WrongLine{{"doctor", "--jsno"}, "unknown flag --jsno; did you mean --json?"},
  WrongLine{{"version", "1"}, "craton version takes no argument \"1\""}));
// clang-format on

TEST(Run, AnEmptyValueIsNotTheNextWord) {
  std::string folder = testing::TempDir() + "craton-command-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string first = folder + "/first";
  std::ofstream(first) << "#!/bin/sh\necho \"$@\"\n";
  ASSERT_EQ(::chmod(first.c_str(), 0755), 0);
  const Outcome outcome =
      craton_command({"run", "-n", "2", "-n", "1", "--share=no", "--trace=", "--config=none",
                      "--config=", first, "--trace=", "second"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "--trace= second\n") << "what stands after the program is its own";
  EXPECT_EQ(outcome.error, "");
  std::filesystem::remove_all(folder);
}

TEST(Command, TellsItsVersion) {
  const std::string expected = std::string("craton ") + CRATON_VERSION + "\n";
  for (const char* how : {"version", "--version"}) {
    const Outcome outcome = craton_command({how});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.out, expected);
    EXPECT_EQ(outcome.error, "");
  }
}

TEST(Command, HelpListsCommandsAndEveryFlagOfTheTable) {
  const Outcome all = craton_command({"--help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const char* name : {"run", "top", "info", "doctor", "version"})
    EXPECT_NE(all.out.find(name), std::string::npos) << name;
  EXPECT_EQ(all.out.find("_node"), std::string::npos) << "the daemon of a host is not for users";
  const Outcome run = craton_command({"run", "--help"});
  EXPECT_EQ(run.exit_code, 0);
  for (const OptionSpec& spec : option_table) {
    EXPECT_NE(run.out.find("--" + std::string(spec.name)), std::string::npos) << spec.name;
  }
}

TEST(Info, ShowsValuesAndSourcesFromFileAndEnvironment) {
  std::string form = testing::TempDir() + "craton-command-XXXXXX";
  const int fd = ::mkstemp(form.data());
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::ofstream(form) << "spin = \"3us\"\nlink_delay = \"1ms\"\n";
  for (const bool by_flag : {true, false}) {
    std::vector<std::string> arguments = {"info", "--options", "--json"};
    std::vector<std::string> variables = {"CRATON_SPIN=4us"};
    if (by_flag) {
      arguments.insert(arguments.end(), {"--config", form});
      variables.emplace_back("CRATON_CONFIG=/the/flag/replaces/it");
    } else {
      variables.push_back("CRATON_CONFIG=" + form);
    }
    const Outcome outcome = craton_command(arguments, variables);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    const auto list = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(list.size(), option_count);
    for (const auto& option : list) {
      const std::string name = option["name"];
      const std::string source = name == "spin" ? "environment" : name == "link-delay" ? "file" : "default";
      EXPECT_EQ(option["source"], source) << name;
    }
    EXPECT_EQ(list[static_cast<std::size_t>(Option::spin)]["value"], "4us");
    EXPECT_EQ(list[static_cast<std::size_t>(Option::link_delay)]["where"], form + ":2, key link_delay");
  }
  ::unlink(form.c_str());
}

TEST(Info, ShowsVersionTransportsAndMachine) {
  const Outcome text = craton_command({"info"});
  EXPECT_EQ(text.exit_code, 0) << text.error;
  const Outcome outcome = craton_command({"info", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["version"], CRATON_VERSION);
  EXPECT_NE(text.out.find(std::string("Craton ") + CRATON_VERSION), std::string::npos);
  std::set<std::string> names;
  for (const auto& transport : report["transports"]) {
    names.insert(transport["name"]);
    EXPECT_NE(text.out.find(transport["detail"].get<std::string>()), std::string::npos) << transport;
    EXPECT_FALSE(transport["detail"].get<std::string>().empty());
  }
  EXPECT_EQ(names, (std::set<std::string>{"shm", "tcp", "ucx"}));
  EXPECT_TRUE(report["transports"][0]["usable"].get<bool>()) << "shm works wherever these tests do";
  EXPECT_FALSE(report["build"]["compiler"].get<std::string>().empty());
  EXPECT_TRUE(report["machine"]["allows"].contains("userfaultfd"));
}

TEST(Info, TellsOfVariablesThatAreNoOptions) {
  const Outcome outcome = craton_command({"info", "--options"}, {"CRATON_SPIM=1us"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.error,
            "craton: environment variable CRATON_SPIM is no option of Craton; did you mean CRATON_SPIN?\n");
}

TEST(Info, FailsOnABadVariable) {
  const Outcome outcome = craton_command({"info"}, {"CRATON_SPIN=1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(
      outcome.error.find("craton: cannot use \"1\" of environment variable CRATON_SPIN: without a unit"), 0U)
      << outcome.error;
}

TEST(Info, TheOptionsPageIsUpToDate) {
  const Outcome outcome = craton_command({"info", "--options", "--markdown"});
  ASSERT_EQ(outcome.exit_code, 0);
  std::ostringstream page;
  page << std::ifstream(CRATON_OPTIONS_PAGE).rdbuf();
  EXPECT_EQ(page.str(), outcome.out) << "renew it: craton info --options --markdown > docs/options.md";
}

TEST(Doctor, ExitCodeAndCountsFollowFromItsFindings) {
  const Outcome outcome = craton_command({"doctor", "--json"});
  const auto report = nlohmann::json::parse(outcome.out);
  std::size_t problems = 0;
  std::size_t warnings = 0;
  for (const auto& finding : report["findings"]) {
    const std::string severity = finding["severity"];
    problems += severity == "problem" ? 1U : 0U;
    warnings += severity == "warning" ? 1U : 0U;
    EXPECT_EQ(finding["remedy"].get<std::string>().empty(), severity == "ok") << finding;
  }
  EXPECT_EQ(report["problems"], problems);
  EXPECT_EQ(report["warnings"], warnings);
  EXPECT_EQ(outcome.exit_code, problems > 0 ? 1 : 0);
  EXPECT_EQ(report["findings"].size(), 12U);

  const Outcome text = craton_command({"doctor"});
  EXPECT_EQ(text.exit_code, outcome.exit_code);
  for (const auto& finding : report["findings"]) {
    EXPECT_NE(text.out.find(finding["name"].get<std::string>()), std::string::npos) << finding;
  }
}

TEST(Doctor, FindsALimitThatIsReallyLow) {
  // The shell lowers both limits, soft and hard, for craton alone.
  const std::string command = std::string("ulimit -n 128; exec \"") + CRATON_COMMAND + "\" doctor 2>&1";
  const test::Ran ran = test::run_in_shell(command);
  EXPECT_EQ(ran.code, 1) << ran.output;
  EXPECT_NE(ran.output.find("problem  open files     128 soft, 128 hard"), std::string::npos) << ran.output;
}

TEST(Command, FailsIfItsOutputIsLost) {
  const std::string command =
      std::string("\"") + CRATON_COMMAND + "\" info --options > /dev/full 2>/dev/null";
  const int status = ::system(command.c_str());  // NOLINT(cert-env33-c): a shell opens /dev/full
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << "status " << status;
}

}  // namespace
}  // namespace craton
