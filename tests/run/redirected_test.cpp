/// \file
/// Programs that put another file under standard output: what threads of all ranks of the node print goes
/// there.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::occurrences;

std::string lines(const std::string& where) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += where + " " + std::to_string(i) + "\n";
  return text;
}

std::string content_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// A file that is gone at the end.
class Target {
 public:
  explicit Target(const std::string& name) : path_(testing::TempDir() + "craton-redirected-" + name) {}
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;
  ~Target() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using RedirectedParameter = std::tuple<const char*, const char*>;
class Redirected : public testing::TestWithParam<RedirectedParameter> {};

TEST_P(Redirected, OutputOfAllRanksOfTheNodeGoesThere) {
  const auto& [ranks, way] = GetParam();
  const Target target(std::string(ranks) + way);
  LaunchedJob job(
      {"--share=auto", "-n", ranks, "--threads", "1", "--", job::program("redirected"), way, target.path()});
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), lines("before") + lines("after"));
  EXPECT_EQ(content_of(target.path()), lines("file"));
  EXPECT_EQ(job.error(), "");
}

INSTANTIATE_TEST_SUITE_P(Run, Redirected,
                         testing::Combine(testing::Values("1", "2", "4"),
                                          testing::Values("dup2", "freopen", "close")),
                         [](const testing::TestParamInfo<RedirectedParameter>& tested) {
                           return std::string(std::get<1>(tested.param)) + std::get<0>(tested.param);
                         });

TEST(RedirectedElsewhere, NothingIsSaidOfWhatIsOnlyClosed) {
  LaunchedJob job({"--share=auto", "-n", "2", "--threads", "1", "--isolate-nodes", "--",
                   job::program("redirected"), "end", ""});
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(job.output(), lines("before"));
  EXPECT_EQ(job.error(), "");
}

TEST(RedirectedElsewhere, ALineSaysWhatStaysWhereItWas) {
  const Target target("isolated");
  LaunchedJob job({"--share=auto", "-n", "2", "--threads", "1", "--isolate-nodes", "--",
                   job::program("redirected"), "dup2", target.path()});
  EXPECT_EQ(job::finish_clean(job), 0);
  EXPECT_EQ(occurrences(job.error(), "what threads on other nodes print goes where it went before"), 1)
      << job.error();
  EXPECT_EQ(occurrences(content_of(target.path()), "\n"), 4) << "those of rank 0";
  EXPECT_EQ(occurrences(job.output(), "file"), 4);
}

}  // namespace

}  // namespace craton
