/// \file
/// Programs that wait in a loop of their own do not keep a processor from those that they wait for.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "launched_job.hpp"

namespace craton {

namespace {

struct Polls {
  long looks = 0;
  double waited_ms = 0;
};

/// Of the thread that has looked most often, of so many, that wait half a second.
Polls most_polls(const std::string& ranks, const std::string& threads) {
  job::LaunchedJob job({"--share=auto", "-n", ranks, "--threads", threads, "--", job::program("polls")});
  EXPECT_EQ(job::finish_clean(job), 0) << job.error();
  Polls polls;
  std::istringstream(job.output()) >> polls.looks >> polls.waited_ms;
  return polls;
}

// A look is less than a microsecond: without sleep they would be a thousand a millisecond.
TEST(Polling, SleepsNowAndThen) {
  constexpr double polls_a_ms = 40;  // of 50 us each they are 20, and some before
  for (const char* const threads : {"1", "8"}) {
    SCOPED_TRACE(threads);
    const Polls polls = most_polls("2", threads);
    EXPECT_GT(polls.looks, 10);
    EXPECT_LT(static_cast<double>(polls.looks), polls_a_ms * polls.waited_ms);
  }
}

}  // namespace

}  // namespace craton
