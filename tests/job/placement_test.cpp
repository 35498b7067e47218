// Which host runs which ranks.
#include "job/placement.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace craton::job {
namespace {

using Placements = std::vector<Placement>;

TEST(Placement, ThisHostTakesAll) {
  EXPECT_EQ(place_ranks(5, {}, 0), (Placements{{"localhost", 0, 5}}));
}

TEST(Placement, EvenBlocksWithTheRestAtTheFront) {
  EXPECT_EQ(place_ranks(4, {"a", "b"}, 0), (Placements{{"a", 0, 2}, {"b", 2, 2}}));
  EXPECT_EQ(place_ranks(5, {"a", "b", "c"}, 0), (Placements{{"a", 0, 2}, {"b", 2, 2}, {"c", 4, 1}}));
}

TEST(Placement, HostsWithoutRanksAreLeftOut) {
  EXPECT_EQ(place_ranks(2, {"a", "b", "c"}, 0), (Placements{{"a", 0, 1}, {"b", 1, 1}}));
  EXPECT_EQ(place_ranks(3, {"a", "b", "c"}, 2), (Placements{{"a", 0, 2}, {"b", 2, 1}}));
}

TEST(Placement, RanksPerNodeFillsHostsInOrder) {
  EXPECT_EQ(place_ranks(5, {"a", "b", "c"}, 2), (Placements{{"a", 0, 2}, {"b", 2, 2}, {"c", 4, 1}}));
  EXPECT_EQ(place_ranks(4, {"a", "a"}, 2), (Placements{{"a", 0, 2}, {"a", 2, 2}}));
}

TEST(Placement, TooFewHostsIsSaidWithNumbers) {
  try {
    place_ranks(9, {"a", "b"}, 4);
    FAIL() << "9 ranks were placed where 8 fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "cannot place 9 ranks: 2 hosts hold 8 (--ranks-per-node 4); add hosts with --host, raise "
                 "--ranks-per-node, or ask for fewer ranks");
  }
  EXPECT_THROW(place_ranks(2, {}, 1), Error);
}

TEST(Placement, EveryRankHasOnePlaceForAllSmallJobs) {
  for (fabric::Rank ranks = 1; ranks <= 20; ++ranks) {
    for (std::size_t hosts = 1; hosts <= 7; ++hosts) {
      for (fabric::Rank limit = 0; limit <= 20; ++limit) {
        if (limit != 0 && limit * hosts < ranks) continue;
        fabric::Rank next = 0;
        for (const Placement& place : place_ranks(ranks, std::vector<std::string>(hosts, "h"), limit)) {
          EXPECT_EQ(place.first_rank, next);
          EXPECT_GT(place.rank_count, 0U);
          EXPECT_LE(place.rank_count, limit != 0 ? limit : ranks);
          next += place.rank_count;
        }
        EXPECT_EQ(next, ranks) << hosts << " hosts, limit " << limit;
      }
    }
  }
}

TEST(Hosts, AreSplitAndChecked) {
  EXPECT_EQ(split_hosts(""), (std::vector<std::string>{}));
  EXPECT_EQ(split_hosts("a"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(split_hosts("a,user@b.example,10.0.0.1"),
            (std::vector<std::string>{"a", "user@b.example", "10.0.0.1"}));
  for (const char* bad : {",", "a,", ",a", "a,,b", "-oProxyCommand=x", "a b", "a;b", "$(x)"}) {
    EXPECT_THROW(split_hosts(bad), Error) << bad;
  }
}

TEST(Hosts, KnowsItself) {
  EXPECT_TRUE(is_this_host("localhost"));
  EXPECT_TRUE(is_this_host(this_host_name()));
  EXPECT_FALSE(is_this_host("no-such-host.example"));
}

}  // namespace
}  // namespace craton::job
