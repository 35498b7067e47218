/// \file
/// Static arrays lie in blocks of their own size, where the file's symbols tell of them.
#include <gtest/gtest.h>

#include <string>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;
using job::occurrences;

/// \returns how many segments of large variables the job had
int run_arrays(const std::string& name) {
  LaunchedJob job({"--share=auto", "-n", "4", "--threads", "1", "--stats", "text", "--", job::program(name)});
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  EXPECT_EQ(job.output(), "4 11, 13499937 25199940 15, 1 3\n");
  return static_cast<int>(occurrences(job.error(), "  arrays of " + name + "\n"));
}

// One in .data, one in .bss.
TEST(StaticArrays, HaveSegmentsOfTheirOwn) {
  EXPECT_EQ(run_arrays("arrays"), 2);
}

TEST(StaticArrays, AreSharedLikeTheRestWithoutSymbols) {
  EXPECT_EQ(run_arrays("arrays_stripped"), 0);
}

}  // namespace

}  // namespace craton
