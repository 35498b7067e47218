/// \file
/// Programs with data races on the real machine: additions by all threads, and patterns of real programs that
/// release consistency alone gets wrong (a prototype's findings): a plain store that races with a reduction,
/// a spin on a plain variable. Data and a flag without a fence between them: litmus_test.cpp, and
/// strong_litmus_test.cpp, where both lie in strong blocks.
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <tuple>

#include "fabric/barrier.hpp"
#include "racing_words.hpp"
#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

using coherence::Strength;
using fabric::Rank;

/// All ranks and threads add: to one word, to neighbours in a block, to words of different blocks.
template <bool one_word, bool one_block>
void lost_addition(RankSpace& rank) {
  constexpr unsigned threads = 2;
  constexpr std::uint64_t additions = 300;
  const std::size_t adders = rank.size() * threads;
  const RacingWords words(rank, adders, Strength::automatic);
  const auto word_of = [&](std::size_t adder) {
    if (one_word) return words.at(0);
    return one_block ? words.at(0) + adder : words.at(adder);
  };
  rank.run_threads(threads, [&](unsigned thread) {
    std::uint64_t* const word = word_of(rank.rank() * threads + thread);
    for (std::uint64_t i = 0; i < additions; ++i)
      rank.space.update(word, 8, [](std::byte* value) { ++*reinterpret_cast<std::uint64_t*>(value); });
  });
  rank.space.barrier().wait();
  std::uint64_t sum = 0;
  for (std::size_t adder = 0; adder < (one_word ? 1 : adders); ++adder) sum += *word_of(adder);
  rank.check(sum == additions * adders,
             "additions: " + std::to_string(sum) + " of " + std::to_string(additions * adders));
  rank.space.barrier().wait();
}

// ---- Patterns

/// One rank sets a sum to zero by a plain store; then, in real time, all add to it atomically.
std::uint64_t sum_after_a_plain_store(RankSpace& rank, Strength strength) {
  constexpr std::uint64_t old_sum = 1000;
  fabric::Barrier meeting(rank.fabric, meeting_handler);  // of which the memory knows nothing
  const RacingWords words(rank, 1, strength);
  const auto add = [&] {
    rank.space.update(words.at(0), 8, [](std::byte* value) { ++*reinterpret_cast<std::uint64_t*>(value); });
  };
  if (rank.rank() == 1) *words.at(0) = old_sum;
  rank.space.barrier().wait();
  if (rank.rank() == 0) *words.at(0) = 0;
  static_cast<void>(meeting.wait());
  if (rank.rank() != 0) add();
  static_cast<void>(meeting.wait());
  if (rank.rank() == 0) add();
  rank.space.barrier().wait();
  return *words.at(0);
}

void plain_store_and_reduction(RankSpace& rank, Strength strength, bool right) {
  const std::uint64_t sum = sum_after_a_plain_store(rank, strength);
  rank.check((sum == rank.size()) == right, "the sum of " + std::to_string(rank.size()) + " is " +
                                                std::to_string(sum) + (right ? "" : ", as if ordered"));
  rank.space.barrier().wait();
}

/// \param naps of a tenth of a millisecond, after which it gives up
/// \returns whether a rank that spins on a plain variable comes to see the other's plain store
bool sees_a_plain_store(RankSpace& rank, Strength strength, int naps) {
  fabric::Barrier meeting(rank.fabric, meeting_handler);
  const RacingWords words(rank, 1, strength);
  rank.space.barrier().wait();
  bool seen = false;
  if (rank.rank() == 0) {
    std::uint64_t before = std::atomic_ref(*words.at(0)).load(std::memory_order_relaxed);  // a copy is here
    rank.check(before == 0, "the word is not zero at first");
  }
  static_cast<void>(meeting.wait());
  if (rank.rank() == 1) *static_cast<volatile std::uint64_t*>(words.at(0)) = 1;
  if (rank.rank() == 0) {
    for (int nap = 0; nap < naps && !seen; ++nap) {
      ::usleep(100);
      seen = *static_cast<volatile std::uint64_t*>(words.at(0)) == 1;
    }
  }
  static_cast<void>(meeting.wait());
  rank.space.barrier().wait();
  return seen;
}

void spinning(RankSpace& rank, Strength strength, bool right) {
  // What should be seen is waited for as long as a busy machine may take; what should not, for 20 heartbeats.
  const bool seen = sees_a_plain_store(rank, strength, right ? 100'000 : 1000);
  if (rank.rank() == 0) rank.check(seen == right, right ? "the store is not seen" : "the store is seen");
  rank.space.barrier().wait();
}

/// Data, then a flag, by plain stores and flushes, again and again: whoever sees the flag sees the data, and
/// a flush that brings it says so.
void flushing(RankSpace& rank) {
  constexpr std::uint64_t rounds = 100;
  const RacingWords words(rank, 2, Strength::release);
  std::uint64_t& data = *words.at(0);
  const std::atomic_ref flag(*words.at(1));
  rank.space.barrier().wait();
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    // The ranks take turns.
    if (rank.rank() == round % rank.size()) {
      data = round;
      rank.check(rank.space.flush(), "there was nothing to publish");
      flag.store(round, std::memory_order_relaxed);
      static_cast<void>(rank.space.flush());
    } else {
      bool found = false;
      while (flag.load(std::memory_order_relaxed) < round) found |= rank.space.flush();
      rank.check(found, "the flag changed without a flush that found anything");
      rank.check(data == round, "the data are of round " + std::to_string(data));
    }
    rank.space.barrier().wait();
  }
  // What a rank learns it shows in its turn, to those who know it already.
  for (Rank round = 0; round < 2 * rank.size(); ++round) {
    static_cast<void>(rank.space.flush());
    rank.space.barrier().wait();
  }
  rank.check(!rank.space.flush(), "a flush found what there was not");
  rank.space.barrier().wait();
}

struct RacingCase {
  const char* name;
  void (*body)(RankSpace&);
  Rank least_ranks = 2;
  TimeNs heartbeat_ns = 0;

  friend std::ostream& operator<<(std::ostream& out, const RacingCase& tested) { return out << tested.name; }
};

constexpr TimeNs beat_ns = 2'000'000;
constexpr RacingCase cases[] = {
    {"LostAdditionToOneWord", lost_addition<true, true>},
    {"LostAdditionToNeighbours", lost_addition<false, true>},
    {"LostAdditionToDifferentBlocks", lost_addition<false, false>},
    {"PlainStoreAndReductionWeak",
     [](RankSpace& rank) { plain_store_and_reduction(rank, Strength::release, false); }},
    {"PlainStoreAndReductionStrong",
     [](RankSpace& rank) { plain_store_and_reduction(rank, Strength::strong, true); }},
    {"PlainStoreAndReductionAutomatic",
     [](RankSpace& rank) { plain_store_and_reduction(rank, Strength::automatic, true); }},
    {"SpinningWeak", [](RankSpace& rank) { spinning(rank, Strength::release, false); }},
    {"SpinningStrong", [](RankSpace& rank) { spinning(rank, Strength::strong, true); }},
    {"Flushing", flushing},
    {"SpinningWithHeartbeat", [](RankSpace& rank) { spinning(rank, Strength::automatic, true); }, 2, beat_ns},
};

using RacingParameter = std::tuple<Machine, Rank, RacingCase>;

class Racing : public testing::TestWithParam<RacingParameter> {};

TEST_P(Racing, GivesWhatItsStrengthPromises) {
  const auto& [machine, ranks, tested] = GetParam();
  if (ranks < tested.least_ranks) return;  // the case needs more to say anything
  const std::string failure =
      run_space(machine, ranks, {.heartbeat_ns = tested.heartbeat_ns}, tested.body, 600);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Real, Racing,
                         testing::Combine(testing::ValuesIn(machines), testing::Values(Rank{2}, Rank{4}),
                                          testing::ValuesIn(cases)),
                         [](const testing::TestParamInfo<RacingParameter>& tested) {
                           return std::string(std::get<2>(tested.param).name) + "_" +
                                  std::get<0>(tested.param).name + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "ranks";
                         });

}  // namespace

}  // namespace craton::space::test
