/// Who is told to send what a batch has held back, and when.
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "fabric/batch.hpp"

namespace craton::fabric {
namespace {

struct Counting final : HoldsBack {
  void send_held() noexcept override { ++sent; }
  int sent = 0;
};

TEST(Batch, NothingIsHeldBackOutsideOfOne) {
  Counting holder;
  EXPECT_FALSE(Batch::holds(holder));
  { const Batch together; }
  EXPECT_FALSE(Batch::holds(holder));
  EXPECT_EQ(holder.sent, 0);
}

TEST(Batch, TheOutermostSendsOnceWhatWasHeldBack) {
  Counting holder;
  Counting other;
  {
    const Batch together;
    EXPECT_TRUE(Batch::holds(holder));
    {
      const Batch inner;
      EXPECT_TRUE(Batch::holds(holder));
    }
    EXPECT_EQ(holder.sent, 0);
  }
  EXPECT_EQ(holder.sent, 1);
  EXPECT_EQ(other.sent, 0);
}

TEST(Batch, AWaitSendsAndTheBatchGoesOn) {
  Counting holder;
  const Batch together;
  EXPECT_TRUE(Batch::holds(holder));
  Batch::send_held();
  EXPECT_EQ(holder.sent, 1);
  Batch::send_held();
  EXPECT_EQ(holder.sent, 1);
  EXPECT_TRUE(Batch::holds(holder));
  Batch::send_held();
  EXPECT_EQ(holder.sent, 2);
}

TEST(Batch, MoreHoldersThanItRemembersAreSentAtOnce) {
  std::array<Counting, 40> holders;
  int held = 0;
  {
    const Batch together;
    for (Counting& each : holders) held += Batch::holds(each) ? 1 : 0;
    EXPECT_TRUE(Batch::holds(holders[0]));
  }
  EXPECT_GT(held, 1);
  EXPECT_LT(held, 40);
  int sent = 0;
  for (const Counting& each : holders) sent += each.sent;
  EXPECT_EQ(sent, held);
}

TEST(Batch, WhoServesIsInNone) {
  Counting holder;
  {
    const Batch together;
    {
      const Batch::Pause pause;
      EXPECT_FALSE(Batch::holds(holder));
      {
        const Batch of_the_handler;
        EXPECT_TRUE(Batch::holds(holder));
      }
      EXPECT_EQ(holder.sent, 1);
    }
    EXPECT_TRUE(Batch::holds(holder));
    EXPECT_EQ(holder.sent, 1);
  }
  EXPECT_EQ(holder.sent, 2);
}

TEST(Batch, BelongsToItsThread) {
  Counting holder;
  const Batch together;
  bool held = true;
  std::thread other([&] { held = Batch::holds(holder); });
  other.join();
  EXPECT_FALSE(held);
}

}  // namespace
}  // namespace craton::fabric
