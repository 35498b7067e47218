#include "coherence/exclusive_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using Kind = ExclusiveMessage::Kind;
using Order = ExclusiveDirectory::Order;

TEST(ForwardStack, ServesFromTheTopAndMovesItToTheBottom) {
  ForwardStack stack;
  stack.push(1);
  stack.push(2);
  stack.push(3);
  EXPECT_EQ(stack.access(), 3U);
  EXPECT_EQ(stack.access(), 2U);
  EXPECT_EQ(stack.access(), 1U);
  EXPECT_EQ(stack.access(), 3U) << "the first has come round";
}

TEST(ForwardStack, PutsTheNewestOnTop) {
  ForwardStack stack;
  stack.push(1);
  stack.push(2);
  EXPECT_EQ(stack.access(), 2U);
  stack.push(7);
  EXPECT_EQ(stack.access(), 7U);
  EXPECT_EQ(stack.access(), 1U);
}

TEST(ForwardStack, ForgetsWhoIsRemoved) {
  ForwardStack stack;
  for (const Rank rank : {4U, 5U, 6U}) stack.push(rank);
  stack.remove(5);
  stack.remove(9);
  EXPECT_FALSE(stack.contains(5));
  EXPECT_EQ(stack.size(), 2U);
  EXPECT_EQ(stack.access(), 6U);
  EXPECT_EQ(stack.access(), 4U);
  stack.clear();
  EXPECT_TRUE(stack.empty());
}

/// A directory at rank 0 of four, whose blocks are strong from the start, and the messages it wants sent.
class Directory : public testing::Test {
 protected:
  Directory() { directory_.add_segment({.strong = true, .fall_after_ns = 1000}); }

  void tell(Rank from, ExclusiveMessage message) {
    orders_.clear();
    directory_.arrived(from, message, now_ns_, orders_);
  }
  void want(Rank rank, bool write, TimeNs hold_ns = 0) {
    tell(rank, {.kind = Kind::want, .write = write, .number = rank + 10, .hold_ns = hold_ns});
  }
  void tick(TimeNs now_ns) {
    now_ns_ = now_ns;
    orders_.clear();
    directory_.tick(now_ns, orders_);
  }
  /// Whom the last message made the directory send messages of a kind.
  std::vector<Rank> told(Kind kind) const {
    std::vector<Rank> ranks;
    for (const Order& order : orders_) {
      if (order.message.kind == kind) ranks.push_back(order.to);
    }
    return ranks;
  }
  const ExclusiveMessage& only() const {
    EXPECT_EQ(orders_.size(), 1U);
    return orders_.front().message;
  }
  /// A whole transfer. \returns the grant
  ExclusiveMessage transfer(Rank rank, bool write, bool source_wrote = false) {
    want(rank, write);
    std::vector<Order> asked = orders_;
    for (const Order& order : asked) {
      if (order.message.kind == Kind::serve)
        tell(order.to, {.kind = Kind::ready, .write = source_wrote, .shown = 5});
      if (order.message.kind == Kind::invalidate) tell(order.to, {.kind = Kind::gone});
    }
    EXPECT_EQ(told(Kind::grant), std::vector<Rank>{rank});
    const ExclusiveMessage grant = only();
    tell(rank, {.kind = Kind::done});
    return grant;
  }
  CopyState state() { return directory_.state(0, 0); }

  Counters counters_;
  ExclusiveDirectory directory_{0, 4, counters_};
  ExclusiveDirectory::Orders orders_;
  TimeNs now_ns_ = 100;
};

using Ranks = std::vector<Rank>;

TEST_F(Directory, GivesTheFirstReaderAnExclusiveCopyFromNobody) {
  const ExclusiveMessage grant = transfer(2, false);
  EXPECT_EQ(grant.state, CopyState::exclusive);
  EXPECT_EQ(grant.source, nobody);
  EXPECT_EQ(grant.number, 12U);
  EXPECT_EQ(state(), CopyState::exclusive);
}

TEST_F(Directory, LetsTheOnlyHolderServeAndTellsDirtyFromClean) {
  transfer(2, false);
  const ExclusiveMessage clean = transfer(1, false, false);
  EXPECT_EQ(clean.source, 2U);
  EXPECT_EQ(clean.teacher, 2U);
  EXPECT_EQ(clean.shown, 5U);
  EXPECT_EQ(clean.state, CopyState::shared);
  EXPECT_EQ(state(), CopyState::shared);

  transfer(3, true);
  EXPECT_EQ(state(), CopyState::modified);
  transfer(1, false, true);
  EXPECT_EQ(state(), CopyState::owned);
}

TEST_F(Directory, LearnsOfASilentWriteToAnExclusiveCopy) {
  transfer(2, false);
  transfer(1, false, true);
  EXPECT_EQ(state(), CopyState::owned) << "E became M without a message";
}

TEST_F(Directory, LetsTheForwardRanksTakeTurns) {
  transfer(1, true);
  EXPECT_EQ(transfer(2, false, true).source, 1U);
  EXPECT_EQ(transfer(3, false).source, 2U) << "the newest copy is on top";
  EXPECT_EQ(transfer(0, false).source, 3U);
}

TEST_F(Directory, InvalidatesAllOthersAndWaitsForTheirAnswers) {
  transfer(1, true);
  transfer(2, false, true);
  transfer(3, false);
  want(0, true);
  EXPECT_EQ(told(Kind::serve), Ranks{1}) << "the owner has the dirty bytes";
  Ranks invalidated = told(Kind::invalidate);
  std::sort(invalidated.begin(), invalidated.end());
  EXPECT_EQ(invalidated, (Ranks{2, 3}));
  tell(2, {.kind = Kind::gone});
  EXPECT_TRUE(orders_.empty());
  tell(1, {.kind = Kind::ready, .write = true, .shown = 9});
  EXPECT_TRUE(orders_.empty()) << "rank 3 has not answered";
  tell(3, {.kind = Kind::gone});
  EXPECT_EQ(told(Kind::grant), Ranks{0});
  EXPECT_EQ(only().source, 1U);
  EXPECT_EQ(only().state, CopyState::modified);
  tell(0, {.kind = Kind::done});
  EXPECT_EQ(state(), CopyState::modified);
}

TEST_F(Directory, SendsNoBytesToAReaderThatBecomesTheWriter) {
  transfer(1, true);
  transfer(2, false, true);
  const ExclusiveMessage grant = transfer(2, true);
  EXPECT_EQ(grant.source, nobody);
  EXPECT_EQ(grant.teacher, nobody);
  EXPECT_EQ(counters_.upgrades.load(), 1U);
  EXPECT_EQ(transfer(1, true, true).source, 2U) << "rank 1 has lost its copy";
}

TEST_F(Directory, ServesInTheOrderOfArrival) {
  transfer(1, true);
  want(2, true);
  EXPECT_EQ(told(Kind::serve), Ranks{1});
  want(3, true);
  want(0, false);
  EXPECT_TRUE(orders_.empty()) << "one transaction at a time";
  tell(1, {.kind = Kind::ready, .write = true});
  EXPECT_EQ(told(Kind::grant), Ranks{2});
  tell(2, {.kind = Kind::done});
  EXPECT_EQ(told(Kind::serve), Ranks{2}) << "for rank 3";
  tell(2, {.kind = Kind::ready, .write = true});
  EXPECT_EQ(told(Kind::grant), Ranks{3});
  tell(3, {.kind = Kind::done});
  EXPECT_EQ(told(Kind::serve), Ranks{3}) << "for rank 0";
}

TEST_F(Directory, LeavesACopyAsLongAsWasAskedFor) {
  want(1, true, 50);
  tell(1, {.kind = Kind::done});
  want(2, true);
  EXPECT_TRUE(orders_.empty());
  EXPECT_EQ(directory_.due_ns(), 150);
  tick(149);
  EXPECT_TRUE(orders_.empty());
  tick(150);
  EXPECT_EQ(told(Kind::serve), Ranks{1});
}

/// Blocks that are weak at first.
class StrengthChange : public Directory {
 protected:
  StrengthChange() { directory_.add_segment({.strong = false, .fall_after_ns = 1000}); }

  ExclusiveMessage in(ExclusiveMessage message) const {
    message.segment = 1;
    return message;
  }
  void change(Rank rank, Strength strength, bool kept = false) {
    tell(rank, in({.kind = Kind::change, .kept = kept, .strength = strength, .number = 3}));
  }
  void all_prepared(Rank home, ExclusiveMessage::Answer last = ExclusiveMessage::Answer::closed) {
    for (Rank rank = 0; rank < 4; ++rank) {
      tell(rank, in({.kind = Kind::prepared,
                     .home = rank == home,
                     .answer = rank == 3 ? last : ExclusiveMessage::Answer::closed,
                     .write_ts = rank}));
    }
  }
  void rise(bool kept = false) {
    change(1, Strength::strong, kept);
    all_prepared(2);
    tell(2, in({.kind = Kind::taken_over}));
    all_concluded();
  }
  void all_concluded() {
    for (Rank rank = 0; rank < 4; ++rank) tell(rank, in({.kind = Kind::concluded}));
  }
};

TEST_F(StrengthChange, RisesWhenAllHaveClosedAndTheHomeOwnsIt) {
  change(1, Strength::strong);
  EXPECT_EQ(told(Kind::prepare), (Ranks{0, 1, 2, 3}));
  all_prepared(2);
  EXPECT_EQ(told(Kind::take_over), Ranks{2});
  EXPECT_FALSE(directory_.strong(1, 0));
  tell(2, in({.kind = Kind::taken_over}));
  EXPECT_EQ(told(Kind::conclude), (Ranks{0, 1, 2, 3}));
  all_concluded();
  EXPECT_EQ(told(Kind::changed), Ranks{1});
  EXPECT_TRUE(directory_.strong(1, 0));
  EXPECT_EQ(directory_.state(1, 0), CopyState::modified);
}

TEST_F(StrengthChange, TakesTheNewestOfTheHomesThatRanksTellOf) {
  change(1, Strength::strong);
  tell(0, in({.kind = Kind::prepared, .home = true, .write_ts = 7}));
  tell(3, in({.kind = Kind::prepared, .home = true, .write_ts = 9}));  // took it after rank 0 had answered
  tell(1, in({.kind = Kind::prepared, .home = true, .write_ts = 8}));
  tell(2, in({.kind = Kind::prepared}));
  EXPECT_EQ(told(Kind::take_over), Ranks{3});
}

TEST_F(StrengthChange, DoesNotRiseWhileARankHasPinnedIt) {
  change(1, Strength::strong);
  all_prepared(2, ExclusiveMessage::Answer::pinned);
  EXPECT_EQ(told(Kind::conclude), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(orders_.front().message.strength, Strength::release);
  all_concluded();
  EXPECT_EQ(told(Kind::changed), Ranks{1});
  EXPECT_FALSE(only().agreed);
  EXPECT_FALSE(directory_.strong(1, 0));
}

TEST_F(StrengthChange, FallsToItsOwnerAndIsWeakWhenAllKnow) {
  rise(true);
  want(0, false);  // of segment 0: nothing to do with it
  change(3, Strength::release);
  EXPECT_EQ(told(Kind::prepare), (Ranks{0, 1, 2, 3}));
  all_prepared(nobody);
  EXPECT_EQ(told(Kind::take_over), Ranks{2});
  tell(2, in({.kind = Kind::taken_over, .write_ts = 44, .read_ts = 60}));
  EXPECT_EQ(told(Kind::conclude), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(orders_.front().message.source, 2U);
  EXPECT_EQ(orders_.front().message.write_ts, 44U);
  EXPECT_TRUE(directory_.strong(1, 0)) << "before all have said that they know";
  all_concluded();
  EXPECT_EQ(told(Kind::changed), Ranks{3});
  EXPECT_FALSE(directory_.strong(1, 0));
}

TEST_F(StrengthChange, FallsByItselfUnlessItIsKept) {
  rise();
  tick(now_ns_ + 999);
  EXPECT_TRUE(orders_.empty());
  tick(now_ns_ + 1);
  EXPECT_EQ(told(Kind::prepare), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(orders_.front().message.hold_ns, 1000) << "only if there was no atomic operation for so long";
}

TEST_F(StrengthChange, StaysStrongWhenItIsKept) {
  rise(true);
  EXPECT_EQ(directory_.due_ns(), no_deadline);
}

TEST_F(StrengthChange, CallsAFallOffForAnAtomicOperationAndTriesAgain) {
  rise(true);
  change(3, Strength::release);
  all_prepared(nobody, ExclusiveMessage::Answer::busy);
  EXPECT_EQ(told(Kind::conclude), (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(orders_.front().message.strength, Strength::strong);
  EXPECT_TRUE(directory_.strong(1, 0));
  tick(now_ns_ + ExclusiveDirectory::retry_ns);
  EXPECT_TRUE(orders_.empty()) << "before all have heard that it stays strong";
  all_concluded();
  tick(now_ns_ + ExclusiveDirectory::retry_ns);
  EXPECT_EQ(told(Kind::prepare), (Ranks{0, 1, 2, 3}));
}

TEST_F(StrengthChange, ForgetsWantsOfBeforeAFall) {
  rise();
  change(3, Strength::release);
  tell(0, in({.kind = Kind::want, .number = 1}));  // before rank 0 has closed it
  all_prepared(nobody);
  tell(2, in({.kind = Kind::taken_over, .write_ts = 44, .read_ts = 60}));
  all_concluded();
  EXPECT_TRUE(told(Kind::grant).empty());
  rise();
  tell(0, in({.kind = Kind::want, .number = 1}));  // sent long ago
  EXPECT_TRUE(orders_.empty());
  tell(0, in({.kind = Kind::want, .number = 2, .generation = 1}));
  EXPECT_EQ(told(Kind::serve), Ranks{2});
}

/// With a store behind it.
class Stored : public Directory {};

TEST_F(Stored, IsReadWhileNobodyHasTheBlockAndNotAfterwards) {
  directory_.set_store(0, Transfer::cooperative);
  want(2, false);
  EXPECT_EQ(told(Kind::fill), Ranks{0});
  EXPECT_EQ(only().source, nobody);
  tell(0, {.kind = Kind::filled});
  EXPECT_EQ(told(Kind::grant), Ranks{2});
  EXPECT_EQ(only().source, 0U) << "the manager's memory";
  tell(2, {.kind = Kind::done});
  EXPECT_EQ(transfer(1, true, true).source, 2U) << "cache to cache";
  EXPECT_EQ(transfer(3, true, true).source, 1U) << "dirty bytes as well";
}

TEST_F(Stored, IsOnTheWayOfDirtyBytesInWriteBackMode) {
  directory_.set_store(0, Transfer::write_back);
  want(2, true);
  tell(0, {.kind = Kind::filled});
  tell(2, {.kind = Kind::done});
  want(1, false);
  tell(2, {.kind = Kind::ready, .write = true, .shown = 6});
  EXPECT_EQ(told(Kind::fill), Ranks{0});
  EXPECT_EQ(only().source, 2U);
  tell(0, {.kind = Kind::filled});
  EXPECT_EQ(only().source, 0U);
  EXPECT_EQ(only().teacher, 2U);
}

}  // namespace

}  // namespace craton::coherence::test
