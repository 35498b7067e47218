/// \file
/// Programs that wait in a loop of their own do not keep a processor from those that they wait for.
#include <gtest/gtest.h>

#include <string>

#include "launched_job.hpp"

namespace craton {

namespace {

/// How often a thread has looked, of so many, that wait half a second.
long most_polls(const std::string& ranks, const std::string& threads) {
  job::LaunchedJob job({"--share=auto", "-n", ranks, "--threads", threads, "--", job::program("polls")});
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  return std::stol(job.output());
}

// A look is less than half a microsecond: they would be hundreds of thousands.
TEST(Polling, SleepsNowAndThen) {
  constexpr long polls_most = 20'000;  // of 50 us each they are 10,000, and some before
  for (const char* const threads : {"1", "8"}) {
    SCOPED_TRACE(threads);
    const long polls = most_polls("2", threads);
    EXPECT_GT(polls, 10);
    EXPECT_LT(polls, polls_most);
  }
}

}  // namespace

}  // namespace craton
