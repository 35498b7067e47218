#include "base/fingerprint.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

namespace craton {
namespace {

TEST(Fingerprint, IsFnv1a) {
  EXPECT_EQ(Fingerprint().value(), 0xcbf29ce484222325U);
  EXPECT_EQ(Fingerprint().add("a", 1).value(), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(Fingerprint().add("foobar", 6).value(), 0x85944171f73967e8U);
}

TEST(Fingerprint, TellsWhereTextsEndAndInWhichOrderNumbersCame) {
  const auto of = [](std::string_view first, std::string_view second) {
    return Fingerprint().add(first).add(second).value();
  };
  EXPECT_NE(of("a", "bc"), of("ab", "c"));
  EXPECT_NE(Fingerprint().add(std::uint64_t{1}).add(std::uint64_t{2}).value(),
            Fingerprint().add(std::uint64_t{2}).add(std::uint64_t{1}).value());
}

}  // namespace
}  // namespace craton
