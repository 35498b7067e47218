#include "coherence/sites.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

namespace craton::coherence {
namespace {

TEST(Sites, TheFirst64HaveABitOfTheirOwn) {
  Sites sites;
  SiteBits all = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    const SiteBits bit = sites.bit_of(i * 0x1000U);
    EXPECT_TRUE(std::has_single_bit(bit));
    EXPECT_EQ(all & bit, 0U) << "place " << i;
    all |= bit;
  }
  EXPECT_EQ(all, ~SiteBits{0});
}

TEST(Sites, APlaceKeepsItsBit) {
  Sites sites;
  const SiteBits first = sites.bit_of(0);
  for (std::uint32_t i = 1; i < 200; ++i) {
    const SiteBits bit = sites.bit_of(i);
    EXPECT_TRUE(std::has_single_bit(bit));
    EXPECT_EQ(bit, sites.bit_of(i));
  }
  EXPECT_EQ(first, sites.bit_of(0));
}

}  // namespace
}  // namespace craton::coherence
