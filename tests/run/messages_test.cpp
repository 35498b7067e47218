/// \file
/// What `craton run` says about programs that it cannot run, or that go wrong in ways that only sharing has:
/// one line, with what to do.
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <vector>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::occurrences;
using job::to_share;

/// Refused before anything is started.
void expect_refused(const std::vector<std::string>& words, const std::vector<std::string>& said) {
  LaunchedJob job(words);
  EXPECT_EQ(job::finish_clean(job), 1) << job.error();
  EXPECT_EQ(job.output(), "");
  EXPECT_EQ(occurrences(job.error(), "\n"), 1) << "one line: " << job.error();
  for (const std::string& each : said)
    EXPECT_EQ(occurrences(job.error(), each), 1) << each << ": " << job.error();
}

/// An executable file, gone at the end.
class Executable {
 public:
  explicit Executable(const std::string& content)
      : path_(testing::TempDir() + "craton-messages-" + std::to_string(::getpid())) {
    std::ofstream(path_, std::ios::binary) << content;
    EXPECT_EQ(::chmod(path_.c_str(), 0755), 0);
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A soft limit of this process and of those that it starts, until the end.
class Limit {
 public:
  Limit(__rlimit_resource_t resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource, &before_), 0);
    const rlimit now{.rlim_cur = value, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(resource, &now), 0);
  }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
  ~Limit() { ::setrlimit(resource_, &before_); }

 private:
  __rlimit_resource_t resource_;
  rlimit before_{};
};

/// A variable of the environment, gone at the end.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// ---- Programs that cannot be shared

TEST(Programs, ScriptsAreRefused) {
  const Executable script("#!/bin/sh\necho run\n");
  expect_refused(
      to_share({"-n", "2"}, {script.path()}),
      {"craton: cannot share the memory of " + script.path() + ": it is no executable but a script; ",
       "name the program that it starts", "--share=no"});
}

TEST(Programs, ThoseOf32BitsAreRefused) {
  Elf32_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = EM_386;
  const Executable program(std::string(reinterpret_cast<const char*>(&header), sizeof header));
  expect_refused(to_share({"-n", "2"}, {program.path()}),
                 {"it is not a 64-bit x86 program; build it with gcc -m64; --share=no"});
}

TEST(Programs, StaticOnesAreRefused) {
  if (::access(job::program("static").c_str(), X_OK) != 0)
    GTEST_SKIP() << "the compiler cannot link statically here";
  expect_refused(to_share({"-n", "2"}, {job::program("static")}),
                 {"static: it is linked statically; link it without -static"});
}

TEST(Programs, ThoseWithoutOpenMpRunOnceAndSaySo) {
  LaunchedJob job(to_share({"-n", "3"}, {job::program("plain")}));
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), "hello\n");
  EXPECT_EQ(job.error(),
            "craton run: " + job::program("plain") +
                " needs no OpenMP library: it runs once, on rank 0; --share=no starts it on every rank, "
                "--spread-threads runs the threads that it starts over all\n");
}

TEST(Programs, ReductionsThatNoGroupHasAreNamed) {
  LaunchedJob job(to_share({"-n", "2"}, {job::program("stray_reduction")}));
  EXPECT_EQ(job::finish_clean(job), 1);
  EXPECT_EQ(job.output(), "");
  EXPECT_EQ(occurrences(job.error(), ": cannot run a task with in_reduction: no taskgroup around it has a "),
            1)
      << job.error();
  EXPECT_EQ(occurrences(job.error(), "craton: "), 1) << "one cause, one message\n" << job.error();
}

TEST(Programs, ThoseWithOpenAccAreRefused) {
  expect_refused(
      to_share({"-n", "2"}, {job::program("openacc")}),
      {"openacc: it uses OpenACC, which Craton does not have; build it without -fopenacc; --share=no"});
}

TEST(Programs, ThoseOfSanitizersAreRefused) {
  expect_refused(to_share({"-n", "2"}, {job::program("sanitized")}),
                 {"sanitized: it is built for a sanitizer, whose runtime wants to be what Craton is to a "
                  "program; build it without -fsanitize=address; --share=no"});
}

TEST(Programs, WithAMallocOfTheirOwnGetOneOfAllRanks) {
  for (const char* const nodes : {"--share=auto", "--isolate-nodes"}) {
    LaunchedJob job(to_share({"-n", "3", "--threads", "1", nodes}, {job::program("allocator")}));
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "0 wrong, 0 calls\n");
  }
}

TEST(Programs, ThatCallAnAllocatorByNamesOfItsOwnAreRefused) {
  expect_refused(
      to_share({"-n", "2"}, {job::program("extended_malloc")}),
      {"extended_malloc: it calls mallocx, whose memory ranks would not share; let it call malloc, "
       "which every allocator has; --share=no"});
}

TEST(Programs, WithAMallocThatCannotBeReplacedAreRefused) {
  LaunchedJob job(to_share({"-n", "2"}, {job::program("short_free")}));
  EXPECT_EQ(job.finish(), 1);
  EXPECT_NE(
      job.error().find("craton: cannot replace free of the program by one whose memory ranks share: it is "
                       "shorter than the 5 bytes of a jump; build the program without it, or compile it "
                       "with -falign-functions=16\n"),
      std::string::npos)
      << job.error();
}

/// Open MPI would fork a daemon for a program that mpirun has not started.
TEST(Programs, OfMpiAreTheOnlyProcess) {
  LaunchedJob job(to_share({"-n", "1", "--share=yes"}, {"printenv", "OMPI_MCA_ess_singleton_isolated"}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "1\n");
}

// ---- More than there is

TEST(Limits, MoreRanksThanANodeHoldsAreRefused) {
  expect_refused(to_share({"-n", "4096"}, {job::program("stray_reduction")}),
                 {"craton: cannot run 4096 ranks on one host: at most 1024 ranks share the memory of a host; "
                  "start fewer, or name more hosts with --host\n"});
}

TEST(Limits, MoreRanksThanAProcessHasAddressesForAreRefused) {
  expect_refused(
      to_share({"-n", "200"}, {job::program("stray_reduction")}),
      {"craton: cannot share the memory of a program among 200 ranks of one host: each would need ",
       "of addresses, and may have 120 TiB", "--program-heap 256 GiB", "start fewer ranks on a host"});
}

TEST(Limits, AHeapThatIsTooLargeIsRefusedWithOneThatFits) {
  const Variable stacks("OMP_STACKSIZE", "1M");
  expect_refused(to_share({"-n", "110", "--program-heap=512Gi"}, {job::program("stray_reduction")}),
                 {"of addresses, and may have 120 TiB", "; --program-heap=262144Mi would fit; "});
}

TEST(Limits, OfTheProcessAreNamed) {
  constexpr rlim_t gibi = rlim_t{1} << 30U;
  const std::vector<std::string> two = to_share({"-n", "2"}, {job::program("stray_reduction")});
  {
    const Limit addresses(RLIMIT_AS, 64 * gibi);
    expect_refused(two, {"and may have 64 GiB (ulimit -v); ulimit -v unlimited"});
  }
  {
    const Limit files(RLIMIT_FSIZE, gibi);
    expect_refused(two, {"each needs a file in memory of 256 GiB, and may have 1 GiB (ulimit -f); "});
  }
  const Limit descriptors(RLIMIT_NOFILE, 64);
  expect_refused(
      to_share({"-n", "30", "--vm-mechanism=mprotect"}, {job::program("stray_reduction")}),
      {"craton: cannot run 30 ranks on one host: each needs at least 96 open files, and may have 64 "
       "(ulimit -n); start fewer, or name more hosts with --host\n"});
}

// ---- Stacks

TEST(Programs, AffinityIsShownByAllThreadsOnce) {
  const Variable shown("OMP_DISPLAY_AFFINITY", "true");
  LaunchedJob job(to_share({"-n", "2", "--threads", "2"}, {job::program("affinity")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "8\n");
  for (const char number : {'0', '1', '2', '3'})
    EXPECT_EQ(occurrences(job.error(), std::string("thread ") + number + " of 4\n"), 1) << job.error();
}

TEST(Programs, RunOnSmallStacks) {
  const Limit first(RLIMIT_STACK, rlim_t{64} << 10U);  // of the launcher, too
  for (const char* const nodes : {"--isolate-nodes=no", "--isolate-nodes"}) {
    LaunchedJob job(to_share({"-n", "3", "--threads", "2", nodes}, {job::program("affinity")}));
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "12\n");
  }
}

struct Overflow {
  const char* name;
  std::vector<std::string> arguments;
  const char* said;
};
void PrintTo(const Overflow& overflow, std::ostream* out) {
  *out << overflow.name;
}

TEST(Programs, MoreLocksThanThereAreEndThem) {
  LaunchedJob job(to_share({"-n", "2"}, {job::program("locks_at_once")}));
  EXPECT_EQ(job::finish_clean(job), 1) << job.error();
  EXPECT_EQ(job.output(), "");
  // Not those with which the runtime guards what is no lock of the program's.
  const std::string said =
      "cannot make another OpenMP lock: all are in use (1048576 locks); "
      "destroy those that are no longer used, or craton run --omp-locks";
  EXPECT_EQ(occurrences(job.error(), said), 1) << job.error();
  LaunchedJob more(to_share({"-n", "2", "--omp-locks", "2000000"}, {job::program("locks_at_once")}));
  EXPECT_EQ(job::finish_clean(more), 0) << more.error();
  EXPECT_EQ(more.output(), "there are more\n");
}

TEST(Programs, EventsOfCancelledTasksMayBeFulfilled) {
  if (!std::filesystem::exists(job::program("cancelled_events"))) GTEST_SKIP() << "no clang with libomp";
  const Variable cancellation("OMP_CANCELLATION", "true");
  const Variable overwritten("MALLOC_PERTURB_", "85");  // what is freed
  LaunchedJob job(to_share({"-n", "2"}, {job::program("cancelled_events")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "0 run, 40 destroyed\n");
}

class StackOverflow : public testing::TestWithParam<Overflow> {};

TEST_P(StackOverflow, SaysWhoseStackHowLargeAndWhatToDo) {
  const Variable stacks("OMP_STACKSIZE", "512K");
  const Limit first(RLIMIT_STACK, rlim_t{4} << 20U);
  std::vector<std::string> program{job::program("overflow")};
  program.insert(program.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  LaunchedJob job(to_share({"-n", "2", "--threads", "2"}, program));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(job.output(), "");
  EXPECT_EQ(occurrences(job.error(), GetParam().said), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "; by " + job::program("overflow") + "+0x"), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(), "\n"), 2) << "the cause, and which rank died of it\n" << job.error();
}

INSTANTIATE_TEST_SUITE_P(
    Run, StackOverflow,
    testing::Values(Overflow{"First",
                             {"first"},
                             ": the stack of the program's first thread is full: it has 4096 KiB; "
                             "raise ulimit -s; "},
                    Overflow{"Master",
                             {"team", "0"},
                             ": the stack of OpenMP thread 0 is full: it has 4096 KiB; "
                             "raise ulimit -s; "},
                    Overflow{"OtherRank",
                             {"team", "3"},
                             ": the stack of OpenMP thread 3 is full: it has 512 KiB; "
                             "raise OMP_STACKSIZE; "},
                    Overflow{"Started",
                             {"started"},
                             ": the stack of a thread that the program has started is full: "
                             "it has 512 KiB; raise OMP_STACKSIZE; "},
                    Overflow{"BeyondItsGuard",
                             {"jump"},
                             ": the stack of a thread that the program has started is full: "
                             "it has 512 KiB; raise OMP_STACKSIZE; "},
                    Overflow{"LargeFrames", {"large"}, " is full: it has 512 KiB; raise OMP_STACKSIZE; "}),
    [](const auto& tested) { return std::string(tested.param.name); });

// ---- Atomic instructions

class Libraries : public testing::TestWithParam<int> {};

TEST_P(Libraries, OfTheProgramAreShared) {
  const std::string number = std::to_string(GetParam());
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("libraries_" + number)}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), number + " libraries, " + number + " counted right\n");
  EXPECT_EQ(job.error(), "");
}

TEST(SystemLibraries, ThatUseOpenMpAreShared) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("system_libraries")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "right\n");
  EXPECT_EQ(job.error(), "");
}

TEST(Constructors, OfLibrariesRunOnceWithMemoryOfAllRanks) {
  for (const std::vector<std::string>& nodes :
       {std::vector<std::string>{}, std::vector<std::string>{"--isolate-nodes"}}) {
    std::vector<std::string> flags{"-n", "3", "--threads", "1"};
    flags.insert(flags.end(), nodes.begin(), nodes.end());
    LaunchedJob job(to_share(flags, {job::program("constructors")}));
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "the library is ready\nthe program is ready\nkept 5003, wrong 0, names 3\n");
    EXPECT_EQ(job.error(), "");
  }
}

TEST(SystemLibraries, WhoseThreadsWatchEachOtherStayOnOneRank) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("plain_watchers")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "wrong 0, processes 1\n");
  EXPECT_EQ(job.error(), "");
}

TEST(LateLibraries, HaveTheirRegionsOnOneRankAndSaySo) {
  const std::string library = job::program("libregions.so");
  LaunchedJob job(to_share({"-n", "3", "--threads", "1"}, {job::program("late_regions"), library}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "150 calls, sum 3\n");
  EXPECT_EQ(job.error(), "craton: parallel regions of " + library +
                             " run on rank 0 alone, since the program has loaded it itself; name it in "
                             "LD_PRELOAD to spread them\n");
}

TEST(LateLibraries, ThatArePreloadedHaveThemOnAllRanks) {
  const std::string library = job::program("libregions.so");
  const Variable preload("LD_PRELOAD", library.c_str());
  LaunchedJob job(to_share({"-n", "3", "--threads", "1"}, {job::program("late_regions"), library}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "150 calls, sum 3\n");
  EXPECT_EQ(job.error(), "");
}

INSTANTIATE_TEST_SUITE_P(Run, Libraries, testing::Values(6, 20), testing::PrintToStringParamName());

TEST(Atomics, OnWordsInTwoBlocksAreExact) {
  for (const std::vector<std::string>& nodes :
       {std::vector<std::string>{}, std::vector<std::string>{"--isolate-nodes", "--transport", "tcp"}}) {
    std::vector<std::string> flags{"-n", "4", "--threads", "1"};
    flags.insert(flags.end(), nodes.begin(), nodes.end());
    LaunchedJob job(to_share(flags, {job::program("split_words")}));
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "alone: right\nbeside others: right\n");
    EXPECT_EQ(job.error(), "");
  }
}

TEST(Atomics, WithALockMayBeInterruptedByAHandlerThatPosts) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("posts")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "right\n");
  EXPECT_EQ(job.error(), "");
}

TEST(Atomics, InCodeThatNoTableTellsOfAreNamed) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("bare")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "counted\n");
  EXPECT_EQ(occurrences(job.error(), "craton: warning: 1 atomic instruction of "), 1) << job.error();
  EXPECT_EQ(occurrences(job.error(),
                        "bare stays as it is: no unwind table tells of code there; it may be data (at 0x"),
            1)
      << job.error();
  EXPECT_EQ(occurrences(job.error(), "\n"), 1) << job.error();
}

// ---- Memory of one rank

TEST(ForeignMemory, OfALibraryThatIsLoadedLateIsNamed) {
  const std::string library = job::program("libnumbers.so");
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("foreign"), library}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(occurrences(job.error(), "craton: rank 1: used memory that only rank 0 has: " + library +
                                         "; a library that the program loads while it runs belongs to one "
                                         "rank: link the program with it, or name it in LD_PRELOAD\n"),
            1)
      << job.error();
}

TEST(ForeignMemory, OfAnotherNodeIsSaidToBeThat) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1", "--isolate-nodes"},
                           {job::program("foreign"), job::program("libnumbers.so")}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(occurrences(job.error(),
                        "craton: rank 1: used memory that a rank of another node has for itself; name "
                        "libraries that the program loads while it runs in LD_PRELOAD; "),
            1)
      << job.error();
}

TEST(ForeignMemory, OfALibraryThatIsPreloadedIsShared) {
  const std::string library = job::program("libnumbers.so");
  const Variable preload("LD_PRELOAD", library.c_str());
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("foreign"), library}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "sum 499500\n");
}

TEST(ForeignMemory, OfBrkIsNamed) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("foreign"), "brk"}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(occurrences(job.error(),
                        ": used memory that only rank 0 has: [heap]; use malloc or mmap instead of sbrk\n"),
            1)
      << job.error();
}

TEST(ForeignMemory, ForCodeIsNamed) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("foreign"), "code"}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(
      occurrences(job.error(),
                  ": used memory that only rank 0 has: mapped without a file; code that the program "
                  "has made itself: let each rank make its own, or run it outside of parallel regions\n"),
      1)
      << job.error();
}

TEST(ForeignMemory, OfSystemVIsSaidNotToReachOtherNodes) {
  LaunchedJob job(
      to_share({"-n", "2", "--threads", "1", "--isolate-nodes"}, {job::program("foreign"), "segment"}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGSEGV) << job.error();
  EXPECT_EQ(job.output(), "by itself 7\n");
  EXPECT_EQ(occurrences(job.error(), "craton: only rank 0 has the memory that it got by shmat(): "), 1)
      << job.error();
}

// ---- Signals that craton run is sent

struct Interruption {
  const char* name;
  int signal;
  bool in_region;
};

class Interrupted : public testing::TestWithParam<Interruption> {};

TEST_P(Interrupted, ProgramsThatHandleItEndInOrder) {
  const auto& [name, signal, in_region] = GetParam();
  std::vector<std::string> program{job::program("interrupted")};
  if (in_region) program.emplace_back("region");
  LaunchedJob job(to_share({"-n", "3", "--threads", "1"}, program));
  ASSERT_TRUE(job.wait_for_output("working\n")) << job.error();
  job.send_signal(signal);
  EXPECT_EQ(job::finish_clean(job), 5) << job.error();
  EXPECT_EQ(job.output(), "working\nended in order by " + std::string(::strsignal(signal)) + ", 3 threads\n");
}

INSTANTIATE_TEST_SUITE_P(Run, Interrupted,
                         testing::Values(Interruption{"ByInt", SIGINT, false},
                                         Interruption{"ByTerm", SIGTERM, false},
                                         Interruption{"ByIntInARegion", SIGINT, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// ---- Files of one rank on others of its node

TEST(Files, OfTheFirstThreadServeAllRanksOfItsNode) {
  for (const char* const ranks : {"2", "4"}) {
    LaunchedJob job(to_share({"-n", ranks, "--threads", "1"}, {job::program("files")}));
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "0 failures\n") << ranks << " ranks\n" << job.error();
  }
}

// ---- Exceptions of arithmetic

TEST(Arithmetic, ThatTrapsDoesSoOnAllRanks) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("divides")}));
  EXPECT_EQ(job::finish_clean(job), 128 + SIGFPE) << job.error();
  EXPECT_EQ(job.output(), "");
  EXPECT_EQ(occurrences(job.error(), "craton: rank 1 "), 1) << job.error();
}

// ---- Local statics

class LocalStatics : public testing::TestWithParam<const char*> {};

/// Without a heartbeat, which would order by chance what the object's guard has to.
TEST_P(LocalStatics, AreFoundWithAllThatTheirConstructorWrote) {
  LaunchedJob job(
      to_share({"-n", "3", "--threads", "1", "--heartbeat=0"}, {job::program("statics"), GetParam()}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "3 right\n");
}

INSTANTIATE_TEST_SUITE_P(Run, LocalStatics, testing::Values("0", "1", "2"),
                         [](const auto& tested) { return "MadeByRank" + std::string(tested.param); });

// ---- Zeros

TEST(Calloc, GivesZerosWithoutTouchingWhatIsFresh) {
  LaunchedJob job(to_share({"-n", "2"}, {job::program("zeros")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "fresh is zero: 1\nsmall is zero: 1\n");
}

}  // namespace

}  // namespace craton
