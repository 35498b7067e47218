/// \file
/// What threads of all ranks write: in whole lines, and written when the program ends, however it does.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::to_share;

TEST(Lines, OfAllRanksStayWhole) {
  LaunchedJob job(to_share({"-n", "3", "--threads", "1"}, {job::program("lines")}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  std::istringstream output(job.output());
  std::map<char, long> lines_of;
  std::map<char, std::size_t> bytes_of;
  std::string first;
  std::getline(output, first);
  for (std::string line; std::getline(output, line);) {
    if (line == "end") continue;
    ++lines_of[line[0]];
    bytes_of[line[0]] += line.size();
    ASSERT_EQ(line.find_first_not_of(line[0]), std::string::npos) << "a line in a line: " << line;
  }
  EXPECT_EQ(first, "begin");
  EXPECT_EQ(job.output().substr(job.output().size() - 4), "end\n");
  EXPECT_EQ(lines_of.size(), 3U);
  for (const auto& [letter, lines] : lines_of) {
    EXPECT_EQ(lines, 4000) << letter;
    EXPECT_EQ(bytes_of[letter], bytes_of['a']) << letter;
  }
}

// ---- What is left open

/// A folder, gone at the end with all that is in it.
class Folder {
 public:
  Folder() : path_(testing::TempDir() + "craton-left-open-" + std::to_string(::getpid())) {
    std::filesystem::create_directory(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void expect_lines_of(const Folder& folder, int threads) {
  for (int thread = 0; thread < threads; ++thread) {
    EXPECT_EQ(job::content_of(folder.path() + "/" + std::to_string(thread)),
              "a line of thread " + std::to_string(thread) + "\n");
  }
}

TEST(LeftOpen, StreamsOfAllRanksAreWrittenWhenMainReturns) {
  const Folder folder;
  LaunchedJob job(
      to_share({"-n", "3", "--threads", "2"}, {job::program("left_open"), folder.path(), "return"}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  expect_lines_of(folder, 6);
}

TEST(LeftOpen, StreamsOfARankThatExitsAreWritten) {
  const Folder folder;
  LaunchedJob job(
      to_share({"-n", "2", "--threads", "1"}, {job::program("left_open"), folder.path(), "exit"}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  expect_lines_of(folder, 2);
}

TEST(LeftOpen, FortranUnitsOfAllRanksAreWritten) {
  const std::string program = job::program("left_open_units");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "there was no gfortran";
  const Folder folder;
  LaunchedJob job(to_share({"-n", "3", "--threads", "1"}, {program, folder.path()}));
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  expect_lines_of(folder, 3);
}

TEST(LeftOpen, StreamsThatAThreadStillReadsHoldUpNoEnd) {
  LaunchedJob job(to_share({"-n", "2", "--threads", "1"}, {job::program("readers")}));
  EXPECT_EQ(job::finish_clean(job), 3) << job.error();
  EXPECT_EQ(job.output(), "main returns");
}

}  // namespace

}  // namespace craton
