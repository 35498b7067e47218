/// \file
/// Unmodified OpenMP programs, one for each family of constructs, under `craton run`: they say what they say
/// with libgomp, or built by clang with libomp, in one process, and threads of every rank took part in each
/// of their regions.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "fabric/ucx/ucx.hpp"
#include "launched_job.hpp"
#include "shell.hpp"

namespace craton {

namespace {

using job::LaunchedJob;

struct Way {
  int ranks;
  int threads;  ///< of each rank
  bool is_isolated;
  const char* transport = "tcp";  ///< between nodes

  bool is_over_ucx() const { return std::string_view(transport) == "ucx"; }
  int all_threads() const { return ranks * threads; }
  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name(); }
  std::string name() const {
    return std::to_string(ranks) + "x" + std::to_string(threads) + (is_isolated ? "_isolated" : "") +
           (is_over_ucx() ? "_ucx" : "");
  }
  std::vector<std::string> arguments() const {
    std::vector<std::string> words{"--share=auto", "-n", std::to_string(ranks), "--threads",
                                   std::to_string(threads)};
    if (is_isolated) words.insert(words.end(), {"--isolate-nodes", "--transport", transport});
    return words;
  }
};
const std::vector<Way> ways{{1, 1, false}, {1, 2, false}, {2, 1, false}, {2, 2, false},
                            {4, 1, false}, {4, 2, false}, {2, 1, true},  {4, 1, true}};

struct Program {
  std::string name;
  std::string variant;
  std::vector<std::string> variables;  ///< NAME=VALUE, where # stands for the number of all threads

  bool is_clangs() const { return name.starts_with("clang_"); }

  friend std::ostream& operator<<(std::ostream& out, const Program& program) {
    return out << program.name << program.variant;
  }
};

std::vector<Program> programs() {
  std::vector<Program> all;
  std::istringstream names(CRATON_RUN_NAMES);
  for (std::string name; names >> name;) {
    all.push_back({name, "", {}});
    // What schedule(runtime) is without a word of the user's is each runtime's own; and libomp gives `teams`
    // no more threads than there are processors.
    if (all.back().is_clangs()) all.back().variables = {"OMP_SCHEDULE=guided,5", "KMP_TEAMS_THREAD_LIMIT=64"};
  }
  all.push_back({"ends", "_overwritten", {"MALLOC_PERTURB_=85"}});  // what is freed
  all.push_back({"cancellation", "_allowed", {"OMP_CANCELLATION=true"}});
  all.push_back({"places", "_bound", {"OMP_PROC_BIND=spread,close", "OMP_PLACES=threads"}});
  all.push_back({"places", "_given", {"OMP_PLACES={0},{1}", "OMP_MAX_ACTIVE_LEVELS=2"}});
  all.push_back({"environment",
                 "_levels",
                 {"OMP_NUM_THREADS=#,2,3", "OMP_MAX_ACTIVE_LEVELS=3", "OMP_SCHEDULE=dynamic,5"}});
  all.push_back({"environment",
                 "_limits",
                 {"OMP_NUM_THREADS=#,2", "OMP_THREAD_LIMIT=100", "OMP_SCHEDULE=nonmonotonic:guided,3",
                  "OMP_DYNAMIC=false", "OMP_NESTED=true", "OMP_MAX_TASK_PRIORITY=4", "OMP_STACKSIZE=2M"}});
  return all;
}

/// Variables of the environment, gone at the end.
class Variables {
 public:
  Variables(const std::vector<std::string>& variables, int threads) {
    for (const std::string& variable : variables) {
      const std::size_t equals = variable.find('=');
      std::string value = variable.substr(equals + 1);
      const std::size_t mark = value.find('#');
      if (mark != std::string::npos) value.replace(mark, 1, std::to_string(threads));
      names_.push_back(variable.substr(0, equals));
      ::setenv(names_.back().c_str(), value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::vector<std::string> names_;
};

struct Outcome {
  int code;
  std::string output;
  std::string error;
};

/// In one process, with the compiler's own runtime.
Outcome run_natively(const std::string& name) {
  const std::string errors = testing::TempDir() + "craton-run-" + std::to_string(::getpid());
  // Threads that wait must not take the processor from the others: there may be more of them than processors.
  // LLVM's yield while they wait for its own locks, in turns, and on a busy machine a turn comes every few
  // milliseconds: tasks took minutes.
  // Nor does it wake all its threads for tasks: nobody waits for them here, where one process is enough.
  const std::string command = "CHECK_NO_MEETING=1 OMP_WAIT_POLICY=passive KMP_USE_YIELD=0 timeout 100 '" +
                              job::program(name) + "' 2>'" + errors + "'";
  test::Ran ran = test::run_in_shell(command);
  Outcome outcome{ran.code, std::move(ran.output), job::content_of(errors)};
  std::filesystem::remove(errors);
  return outcome;
}

using Tested = std::tuple<Program, Way>;

class OpenMpPrograms : public testing::TestWithParam<Tested> {};

TEST_P(OpenMpPrograms, SayTheSameOverRanks) {
  const auto& [program, way] = GetParam();
  if (const auto ucx = fabric::ucx::ucx_availability(); way.is_over_ucx() && !ucx.available())
    GTEST_SKIP() << ucx.reason_why_not;
  Outcome native;
  {
    const Variables number({"OMP_NUM_THREADS=#"}, way.all_threads());
    const Variables variables(program.variables, way.all_threads());
    native = run_natively(program.name);
  }
  ASSERT_EQ(native.code, 0) << native.error;
  const std::string in_one = "processes: 1,";
  ASSERT_EQ(native.error.substr(0, in_one.size()), in_one);

  ::unsetenv("OMP_NUM_THREADS");
  const Variables variables(program.variables, way.all_threads());
  std::vector<std::string> arguments = way.arguments();
  arguments.insert(arguments.end(), {"--", job::program(program.name)});
  LaunchedJob job(arguments);
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), native.output);
  // The fewest processes that any region ran in, and the name of its check: the first if all are equal.
  EXPECT_EQ(job.error(),
            "processes: " + std::to_string(way.ranks) + "," + native.error.substr(in_one.size()));
}

std::string name_of(const testing::TestParamInfo<Tested>& tested) {
  const auto& [program, way] = tested.param;
  return program.name + program.variant + "_" + way.name();
}

/// Programs that clang has built, which differ in how they call the runtime alone, fewer ways.
std::vector<Tested> tested() {
  std::vector<Tested> all;
  for (const Program& program : programs()) {
    for (const Way& way : ways) {
      if (program.is_clangs() &&
          (way.all_threads() == 1 || way.all_threads() == 8 || (way.is_isolated && way.ranks == 4)))
        continue;
      all.emplace_back(program, way);
    }
  }
  all.emplace_back(Program{"threadprivate", "", {}}, Way{1, 4, false});
  // What UCX loads, each rank elsewhere, is none of the program's.
  for (const char* const name : {"containers", "environment", "locks", "mappings", "tasks"}) {
    for (const int ranks : {2, 4}) all.emplace_back(Program{name, "", {}}, Way{ranks, 1, true, "ucx"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Run, OpenMpPrograms, testing::ValuesIn(tested()), name_of);

/// exit() ends the libraries of a program before the job has ended, for which UCX is needed. Whether they
/// meet is a matter of time: of one run in twelve.
TEST(OverUcx, TheJobEndsAfterTheProgram) {
  if (const auto ucx = fabric::ucx::ucx_availability(); !ucx.available()) GTEST_SKIP() << ucx.reason_why_not;
  for (int run = 0; run < 30; ++run) {
    LaunchedJob job(
        {"--share=yes", "-n", "2", "--isolate-nodes", "--transport", "ucx", "--", job::program("statics")});
    ASSERT_EQ(job::finish_clean(job), 0) << "run " << run << ": " << job.error();
  }
}

}  // namespace

}  // namespace craton
