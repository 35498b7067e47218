#include "base/events.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

namespace craton::events {
namespace {

/// Runs on a thread of its own, since the first one does other things.
template <typename Action>
void on_attached_thread(const Action& action) {
  std::thread([&] {
    attach();
    action();
    detach();
  }).join();
}

constexpr std::size_t threads_most = 1024;

/// Of all threads of this process together.
struct Kept {
  std::size_t threads = 0;
  std::uint64_t compute_ns = 0;
  std::uint64_t faults = 0;
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
};
Kept all_kept() {
  Kept kept;
  for_threads([&](const ThreadRecord& thread) {
    ++kept.threads;
    kept.events += thread.event_count;
    kept.lost += thread.lost;
    for (std::size_t i = 0; i < thread.total_count; ++i) {
      kept.compute_ns += thread.totals[i].ns[static_cast<std::size_t>(Kind::compute)];
      kept.faults += thread.totals[i].count[static_cast<std::size_t>(Kind::read_fault)];
    }
  });
  return kept;
}

/// So many at the same time.
void on_threads(std::size_t count, const FunctionRef<void()>& action) {
  std::latch all_there(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      attach();
      action();
      all_there.arrive_and_wait();
      detach();
    });
  }
  for (std::thread& each : threads) each.join();
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

TEST(Look, SeesNoThreadThatHasEnded) {
  const auto threads = [] {
    const Look now = look();
    return now.computing + now.waiting + now.in_faults + now.in_fences;
  };
  const auto before = threads();
  for (std::size_t i = 0; i < threads_most + 10; ++i)
    on_attached_thread([&] { EXPECT_EQ(threads(), before + 1); });
  EXPECT_EQ(threads(), before);
}

TEST(Kept, AreTheSpansOfThreadsThatFollowEachOther) {
  start(totals | list, 10'000);
  const Kept before = all_kept();
  constexpr std::uint64_t many = threads_most + 100;
  for (std::uint64_t i = 0; i < many; ++i) on_attached_thread([] { const Span fault(Kind::read_fault); });
  const Kept after = all_kept();
  EXPECT_EQ(after.faults - before.faults, many);
  EXPECT_EQ(after.events - before.events, 2 * many) << "a fault and the thread itself";
  EXPECT_EQ(after.lost, before.lost);
  EXPECT_LT(after.threads - before.threads, many / 2);
}

TEST(Kept, EndWithTheirThread) {
  start(totals | list, 10'000);
  on_attached_thread([] {
    begin(Kind::compute);  // and no end
    begin(Kind::barrier);
  });
  const Kept before = all_kept();
  const std::uint64_t deadline_ns = now_ns() + 1'000'000;
  while (now_ns() < deadline_ns) {
  }
  EXPECT_EQ(all_kept().compute_ns, before.compute_ns);
}

TEST(Kept, AreCountedAsLostWhereThereAreTooManyThreads) {
  start(totals | list, 10'000);
  const Kept before = all_kept();
  constexpr std::uint64_t many = threads_most + 20;
  on_threads(many, [] { const Span fault(Kind::read_fault); });
  const Kept after = all_kept();
  const std::uint64_t lost = after.lost - before.lost;
  EXPECT_GE(lost, 2 * (many - threads_most));
  EXPECT_EQ(after.events - before.events + lost, 2 * many);
}

TEST(Kept, AreBytesUpToTheMost) {
  start(totals | list | sharing, 10'000);
  constexpr std::size_t gibi = std::size_t{1} << 30U;
  on_attached_thread([] {
    note(Kind::allocation, nullptr, 6 * gibi);
    const Span fault(Kind::write_fault);
    for (int i = 0; i < 6; ++i) count_message(gibi);
  });
  bool has_allocation = false;
  bool has_fault = false;
  for_threads([&](const ThreadRecord& thread) {
    for (std::size_t i = 0; i < thread.event_count; ++i) {
      const Event& event = thread.events[i];
      has_allocation |= event.kind == Kind::allocation && event.duration_ns == 6 * gibi;
      has_fault |= event.kind == Kind::write_fault && event.bytes == 0xffffffffU;
    }
  });
  EXPECT_TRUE(has_allocation);
  EXPECT_TRUE(has_fault);
}

}  // namespace
}  // namespace craton::events
