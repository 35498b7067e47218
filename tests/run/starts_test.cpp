/// \file
/// What `craton run` finds out about a program before it starts it, without starting it.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "job/placement.hpp"
#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;

/// A folder for the files of a test, gone at the end.
class StartsFolder {
 public:
  StartsFolder() : path_(testing::TempDir() + "craton-starts-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
  }
  StartsFolder(const StartsFolder&) = delete;
  StartsFolder& operator=(const StartsFolder&) = delete;
  ~StartsFolder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Refused before anything is started, by one line. \param words flags and the program
void expect_refused_start(std::vector<std::string> words, const std::string& said) {
  words.insert(words.begin(), {"-n", "2"});
  LaunchedJob job(words);
  EXPECT_EQ(job::finish_clean(job), 1);
  EXPECT_EQ(job.output(), "");
  EXPECT_EQ(job.error(), "craton: cannot share the memory of " + words.back() + ": " + said +
                             "; --share=no starts it on every rank as it is\n");
}

TEST(Starts, OfAProgramWithAnotherLoaderAreOne) {
  const StartsFolder folder;
  const std::string file = folder / "starts";
  ::setenv("STARTS", file.c_str(), 1);
  const std::string program = job::program("other_loaded");
  {
    LaunchedJob job({"-n", "2", "--share=auto", "--", program});
    EXPECT_EQ(job::finish_clean(job), 0) << job.error();
    EXPECT_EQ(job.output(), "started\n");
  }
  for (const char* const flag : {"--share=yes", "--spread-threads"}) {
    expect_refused_start({"--share=auto", flag, program}, "its loader is " + job::program("other_loader") +
                                                              ", not glibc's; build it for glibc");
  }
  EXPECT_EQ(job::content_of(file), "started\n") << "it was run to be asked what it needs";
  ::unsetenv("STARTS");
}

TEST(Starts, OfProgramsWithPrivilegesAreRefusedWhereTheyWouldBeShared) {
  const StartsFolder folder;
  struct statvfs mount {};
  ASSERT_EQ(::statvfs(testing::TempDir().c_str(), &mount), 0);
  if ((mount.f_flag & ST_NOSUID) != 0 || ::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    GTEST_SKIP() << "files give no privileges here";
  const std::string program = folder / "program";
  for (const auto& [mode, name] : {std::pair(04755, "set-user-ID"), std::pair(02755, "set-group-ID")}) {
    std::filesystem::copy_file(job::program("zeros"), program,
                               std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(::chmod(program.c_str(), static_cast<mode_t>(mode)), 0);
    expect_refused_start({"--share=auto", program},
                         "it is " + std::string(name) +
                             ", so that the kernel gives each rank other addresses and its loader no library "
                             "of ours; take a copy that is not (cp makes one)");
  }
  std::filesystem::copy_file(job::program("plain"), program,
                             std::filesystem::copy_options::overwrite_existing);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  LaunchedJob job({"-n", "1", "--share=auto", "--", program});
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "hello\n");
}

TEST(Starts, OfFilesThatAreNoneWholeAreRefused) {
  const StartsFolder folder;
  const std::string program = folder / "program";
  const std::string elf = job::content_of(job::program("plain"));
  for (const std::size_t bytes : {0, 4, 5, 63}) {
    std::ofstream(program, std::ios::binary) << elf.substr(0, bytes);
    ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
    expect_refused_start({"--share=auto", program}, bytes == 0
                                                        ? "it is empty; build it anew"
                                                        : "it ends within its ELF header; build it anew");
  }
}

TEST(Starts, OfNoNameAreOfNoFile) {
  for (const char* const share : {"--share=auto", "--share=no"}) {
    LaunchedJob job({"-n", "2", share, "--", ""});
    EXPECT_EQ(job::finish_clean(job), 127);
    EXPECT_EQ(job.error(),
              "craton: cannot run \"\" on host " + job::this_host_name() + ": No such file or directory\n");
  }
}

}  // namespace

}  // namespace craton
