/// \file
/// What `craton run` says of the files that a job needs, before it starts it, and what is enough.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "launched_job.hpp"

namespace craton {

namespace {

using job::LaunchedJob;

/// The soft limit of this process and of those that it starts, until the end.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t value) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{.rlim_cur = value, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Open descriptors beyond the three of each program that stay open where this process starts others.
unsigned inherited() {
  unsigned count = 0;
  for (int number = 3; number < 1024; ++number) {
    const int flags = ::fcntl(number, F_GETFD);
    count += flags >= 0 && (flags & FD_CLOEXEC) == 0 ? 1 : 0;
  }
  return count;
}

/// So that no job begins that comes to an end for want of them.
TEST(OpenFiles, AreCountedAsTheyAreNeeded) {
  const std::vector<std::vector<std::string>> ways{{"-n", "1"},
                                                   {"-n", "2"},
                                                   {"-n", "4"},
                                                   {"-n", "2", "--vm-mechanism=mprotect"},
                                                   {"-n", "4", "--isolate-nodes", "--transport=tcp"}};
  for (const std::vector<std::string>& way : ways) {
    std::vector<std::string> words{"--share=yes"};
    words.insert(words.end(), way.begin(), way.end());
    words.insert(words.end(), {"--", job::program("statics")});
    rlim_t needed = 0;
    {
      const DescriptorLimit few(20);
      LaunchedJob job(words);
      EXPECT_EQ(job::finish_clean(job), 1) << job.error();
      const std::string before = "each needs at least ";
      const std::size_t at = job.error().find(before);
      ASSERT_NE(at, std::string::npos) << job.error();
      needed = std::stoul(job.error().substr(at + before.size()));
    }
    {
      const DescriptorLimit fewer(needed - 1);
      LaunchedJob job(words);
      EXPECT_EQ(job::finish_clean(job), 1) << job.error();
      EXPECT_EQ(job::occurrences(job.error(), "\n"), 1) << "one line: " << job.error();
    }
    // What the test leaves open is in the ranks as well, and what neighbours hand each other is in two at a
    // time.
    const DescriptorLimit enough(needed + inherited() + 4);
    LaunchedJob job(words);
    EXPECT_EQ(job::finish_clean(job), 0) << needed << ": " << job.error();
  }
}

}  // namespace

}  // namespace craton
