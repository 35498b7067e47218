#include "base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

namespace craton {
namespace {

TEST(Error, SaysAskedHappenedLimitAndRemedyInOneLine) {
  const Error error(ErrorCode::out_of_resources, {.asked = "cannot map 64 GiB of shared memory",
                                                  .happened = "the limit of /dev/shm is 2 GiB",
                                                  .limit = "df /dev/shm",
                                                  .remedy = "run with --memory=file or raise it"});
  EXPECT_STREQ(error.what(),
               "cannot map 64 GiB of shared memory: the limit of /dev/shm is 2 GiB (df /dev/shm); run with "
               "--memory=file "
               "or raise it");
  EXPECT_EQ(error.code(), ErrorCode::out_of_resources);
  EXPECT_EQ(error.parts().limit, "df /dev/shm");
}

TEST(Error, LeavesOutWhatThereIsNot) {
  EXPECT_STREQ(
      Error(ErrorCode::system, {.asked = "cannot a", .happened = "b", .limit = "", .remedy = ""}).what(),
      "cannot a: b");
  EXPECT_STREQ(
      Error(ErrorCode::system, {.asked = "cannot a", .happened = "b", .limit = "c", .remedy = ""}).what(),
      "cannot a: b (c)");
  EXPECT_STREQ(
      Error(ErrorCode::system, {.asked = "cannot a", .happened = "b", .limit = "", .remedy = "d"}).what(),
      "cannot a: b; d");
}

TEST(Error, OfErrnoHasItsTextAndItsKind) {
  const Error error = Error::from_errno("cannot open x", ENOENT, "", "create it");
  EXPECT_STREQ(error.what(), "cannot open x: No such file or directory; create it");
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(Error::from_errno("x", EMFILE).code(), ErrorCode::out_of_resources);
  EXPECT_EQ(Error::from_errno("x", ENOMEM).code(), ErrorCode::out_of_resources);
  EXPECT_EQ(Error::from_errno("x", EPERM).code(), ErrorCode::permission);
  EXPECT_EQ(Error::from_errno("x", EACCES).code(), ErrorCode::permission);
  EXPECT_EQ(Error::from_errno("x", ETIMEDOUT).code(), ErrorCode::timed_out);
  EXPECT_EQ(Error::from_errno("x", ECONNRESET).code(), ErrorCode::peer_lost);
  EXPECT_EQ(Error::from_errno("x", EINVAL).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(Error::from_errno("x", ENOSYS).code(), ErrorCode::not_supported);
  EXPECT_EQ(Error::from_errno("x", EIO).code(), ErrorCode::system);
}

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  const int first = static_cast<int>(ErrorCode::invalid_argument);
  const int last = static_cast<int>(ErrorCode::not_initialised);
  for (int code = first; code <= last; ++code) names.emplace(name_of(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last - first + 1));
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(name_of(ErrorCode::peer_lost), "peer_lost");
}

}  // namespace
}  // namespace craton
