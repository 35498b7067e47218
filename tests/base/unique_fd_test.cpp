#include "base/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace craton {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}
int open_null() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(UniqueFd, ClosesWhatItOwnsOnce) {
  int fd = -1;
  {
    const UniqueFd owner(open_null());
    fd = owner.get();
    ASSERT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(UniqueFd, MovesOwnership) {
  UniqueFd first(open_null());
  const int fd = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the state after a move is what is tested
  EXPECT_TRUE(is_open(fd));

  UniqueFd third(open_null());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced)) << "assignment closes what was held before";
  EXPECT_EQ(third.get(), fd);
  UniqueFd& same = third;
  third = std::move(same);
  EXPECT_TRUE(is_open(fd)) << "assignment to itself keeps it";
}

TEST(UniqueFd, ReleaseGivesItAway) {
  UniqueFd owner(open_null());
  const int fd = owner.release();
  EXPECT_FALSE(owner);
  owner.reset();
  ASSERT_TRUE(is_open(fd));
  ::close(fd);
}

}  // namespace
}  // namespace craton
