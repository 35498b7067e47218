#include "base/events.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace craton::events {
namespace {

/// Runs on a thread of its own, since a thread attaches once and for ever.
template <typename Action>
void on_attached_thread(const Action& action) {
  std::thread([&] {
    attach();
    action();
  }).join();
}

TEST(Look, TellsTheInnermostSpanOfEachThread) {
  const Look before = look();
  on_attached_thread([&] {
    EXPECT_EQ(look().computing, before.computing + 1);
    begin(Kind::compute);
    begin(Kind::barrier);
    EXPECT_EQ(look().computing, before.computing);
    EXPECT_EQ(look().waiting, before.waiting + 1);
    begin(Kind::release);
    EXPECT_EQ(look().in_fences, before.in_fences + 1);
    end();
    EXPECT_EQ(look().waiting, before.waiting + 1);
    end();
    begin(Kind::write_fault);
    begin(Kind::transfer);
    EXPECT_EQ(look().in_faults, before.in_faults + 1);
    end();
    end();
    end();
    EXPECT_EQ(look().computing, before.computing + 1);
  });
}

TEST(Look, ForgetsOuterSpansOfManyAndComesBackToNone) {
  const Look before = look();
  on_attached_thread([&] {
    for (int i = 0; i < 40; ++i) begin(Kind::idle);
    EXPECT_EQ(look().waiting, before.waiting + 1);
    for (int i = 0; i < 40; ++i) end();
    EXPECT_EQ(look().waiting, before.waiting);
    EXPECT_EQ(look().computing, before.computing + 1);
  });
}

TEST(Look, CountsOnlyWhileWatched) {
  const auto act = [] {
    { const Span fault(Kind::read_fault); }
    count_message(100, true);
    count_message(7);
  };
  const Look before = look();
  act();
  EXPECT_EQ(look().faults, before.faults);
  EXPECT_EQ(look().messages, before.messages);
  watch(true);
  act();
  watch(false);
  act();
  const Look after = look();
  EXPECT_EQ(after.faults, before.faults + 1);
  EXPECT_EQ(after.messages, before.messages + 2);
  EXPECT_EQ(after.bytes_in, before.bytes_in + 100);
  EXPECT_EQ(after.bytes_out, before.bytes_out + 7);
}

}  // namespace
}  // namespace craton::events
