#include "base/host.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

namespace craton {
namespace {

TEST(BootId, IsThatOfTheKernelEachTime) {
  const std::string id = boot_id();
  ASSERT_EQ(id.size(), 36U) << id;
  EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](char each) {
    return each == '-' || std::isxdigit(static_cast<unsigned char>(each)) != 0;
  })) << id;
  EXPECT_EQ(boot_id(), id);
}

}  // namespace
}  // namespace craton
