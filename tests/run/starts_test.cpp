/// \file
/// What `craton run` finds out about a program before it starts it, without starting it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace

}  // namespace craton
