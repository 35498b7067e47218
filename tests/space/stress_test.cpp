/// \file
/// Everything at once on the real machine: 4 ranks of 2 threads each that lock, update atomically, share
/// blocks falsely and meet at barriers, and check all that they read.
///
///   CRATON_STRESS_S=60 ...       seconds of each (default 1)
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "fabric/sim/random.hpp"
#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using Clock = std::chrono::steady_clock;

constexpr Rank ranks = 4;
constexpr unsigned threads = 2;
constexpr unsigned members = ranks * threads;

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

/// The layout of the segment, in words. Parts begin in the middle of blocks.
constexpr std::size_t accounts = 64;  ///< guarded by mutexes, 16 each: their sum never changes
constexpr std::size_t account_mutexes = 4;
constexpr std::size_t tickets_at = accounts + 37;  ///< taken atomically
constexpr std::size_t flags_at =
    tickets_at + 8;                            ///< 0: go on, 1: stop; written by rank 0 between two barriers
constexpr std::size_t own_at = flags_at + 61;  ///< word i belongs to thread i modulo `members`
constexpr std::size_t own_words = 8192;
constexpr std::size_t words_in_all = own_at + own_words;
constexpr std::uint64_t money = 1'000'000;

class Stress {
 public:
  Stress(RankSpace& rank, Clock::time_point until)
      : rank_(rank),
        until_(until),
        words_(reinterpret_cast<std::uint64_t*>(
            rank.space
                .create_segment(
                    {.name = "stress", .bytes = words_in_all * 8, .initial_homes = {}, .dials = {}})
                .data())) {}

  void run() {
    if (rank_.rank() == 0) {
      for (std::size_t i = 0; i < accounts; i += accounts / account_mutexes) words_[i] = money;
    }
    rank_.run_threads(threads, [this](unsigned thread) { run_thread(rank_.rank() * threads + thread); });
    // Each rank adds what it has taken; rank 0 checks that no ticket was given twice or lost.
    std::uint64_t* const sum = words_ + tickets_at + 1;
    rank_.space.update(
        sum, 8, [this](std::byte* word) { *reinterpret_cast<std::uint64_t*>(word) += tickets_.load(); });
    rank_.run_threads(threads, [this](unsigned) { rank_.space.barrier().wait(); });
    rank_.check(words_[tickets_at] == *sum, std::to_string(*sum) + " tickets were taken, the counter says " +
                                                std::to_string(words_[tickets_at]));
  }

 private:
  void run_thread(unsigned self) {
    Random random(self * 7919 + 17);
    std::uint64_t last_ticket = 0;
    std::uint64_t round = 0;
    rank_.space.barrier().wait();
    for (;;) {
      ++round;
      for (unsigned step = 0; step < 20; ++step) {
        switch (random.below(4)) {
          case 0:
            transfer(random);
            break;
          case 1:
            take_ticket(last_ticket);
            break;
          default:
            write_own(self, round, random);
        }
      }
      for (std::size_t i = self; i < own_words; i += members) words_[own_at + i] = round + i;
      if (self == 0 && Clock::now() >= until_) words_[flags_at] = 1;
      rank_.space.barrier().wait(1);
      check_all(round, random);
      const bool stops = words_[flags_at] != 0;
      rank_.space.barrier().wait(2);
      if (stops) return;
    }
  }

  void transfer(Random& random) {
    const auto mutex = static_cast<MutexId>(random.below(account_mutexes));
    constexpr std::size_t each = accounts / account_mutexes;
    std::uint64_t* const account = words_ + mutex * each;
    rank_.space.mutexes().lock(mutex);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < each; ++i) sum += account[i];
    const std::size_t from = random.below(each);
    const std::uint64_t amount = random.below(account[from] + 1);
    account[from] -= amount;
    account[random.below(each)] += amount;
    rank_.space.mutexes().unlock(mutex);
    rank_.check(sum == money, "the accounts of a mutex hold " + std::to_string(sum));
  }

  void take_ticket(std::uint64_t& last) {
    std::uint64_t mine = 0;
    rank_.space.update(words_ + tickets_at, 8,
                       [&mine](std::byte* word) { mine = ++*reinterpret_cast<std::uint64_t*>(word); });
    tickets_.fetch_add(1);
    rank_.check(mine > last, "ticket " + std::to_string(mine) + " after " + std::to_string(last));
    last = mine;
  }

  void write_own(unsigned self, std::uint64_t round, Random& random) {
    const std::size_t i = random.below(own_words / members) * members + self;
    words_[own_at + i] = ~round;
    rank_.check(words_[own_at + i] == ~round, "a thread's own write is not there");
  }

  void check_all(std::uint64_t round, Random& random) {
    for (unsigned looks = 0; looks < 200; ++looks) {
      const std::size_t i = random.below(own_words);
      rank_.check(words_[own_at + i] == round + i, "word " + std::to_string(i) + " is " +
                                                       std::to_string(words_[own_at + i]) + " in round " +
                                                       std::to_string(round));
    }
  }

  RankSpace& rank_;
  const Clock::time_point until_;
  std::uint64_t* const words_;
  std::atomic<std::uint64_t> tickets_{0};
};

class Stressed : public testing::TestWithParam<Machine> {};

TEST_P(Stressed, ReadsWhatWasWritten) {
  const unsigned seconds = from_environment("CRATON_STRESS_S", 1);
  const std::string failure = run_space(
      GetParam(), ranks, {.threads = threads},
      [seconds](RankSpace& rank) { Stress(rank, Clock::now() + std::chrono::seconds(seconds)).run(); },
      static_cast<int>(seconds) + 60);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Real, Stressed, testing::ValuesIn(machines),
                         [](const testing::TestParamInfo<Machine>& tested) {
                           return std::string(tested.param.name);
                         });

}  // namespace

}  // namespace craton::space::test
