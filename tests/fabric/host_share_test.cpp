/// Which ranks share processors.
#include <gtest/gtest.h>

#include <string>

#include "base/processors.hpp"
#include "fabric/host_share.hpp"

namespace craton::fabric {
namespace {

const std::string first("\x01", 1);
const std::string tenth("\x00\x02", 2);
const std::string both("\x01\x02", 2);

TEST(HostShare, RanksOnProcessorsOfTheirOwnAreNotCrowded) {
  HostShare share;
  share.add(first);
  share.add(tenth);
  EXPECT_EQ(share.ranks(), 2U);
  EXPECT_EQ(share.processors_a_rank(), 1U);
  EXPECT_FALSE(share.is_crowded());
  EXPECT_TRUE(share.is_full());
}

TEST(HostShare, TwoRanksOnOneProcessorAreCrowded) {
  HostShare share;
  share.add(tenth);
  share.add(tenth);
  EXPECT_EQ(share.processors_a_rank(), 0U);
  EXPECT_TRUE(share.is_crowded());
  EXPECT_TRUE(share.is_full());
}

TEST(HostShare, OneRankOfTwoProcessorsLeavesOneFree) {
  HostShare share;
  share.add(both);
  EXPECT_FALSE(share.is_full());
  EXPECT_EQ(share.processors_a_rank(), 2U);
  share.add(both);
  EXPECT_TRUE(share.is_full());
  EXPECT_FALSE(share.is_crowded());
  share.add(first);
  EXPECT_TRUE(share.is_crowded());
}

TEST(HostShare, ProcessorsThatAreLeftOverAreNobodys) {
  HostShare share;
  share.add(std::string("\x1f", 1));
  share.add(std::string("\x1f", 1));
  EXPECT_EQ(share.processors_a_rank(), 2U);
}

TEST(HostShare, ARankTellsOfAllProcessorsThatItMayUse) {
  HostShare share;
  for (std::size_t ranks = 1; ranks <= processors().size(); ++ranks) {
    share.add(HostShare::own_processors());
    EXPECT_EQ(share.is_full(), ranks == processors().size());
  }
  EXPECT_FALSE(share.is_crowded());
}

}  // namespace
}  // namespace craton::fabric
