/// \file
/// Programs with data races on the real machine: litmus shapes on strong blocks, and three patterns of real
/// programs that release consistency alone gets wrong (a prototype's findings): a plain store that races with
/// a reduction, data and a flag without a fence between them, a spin on a plain variable.
///
///   CRATON_LITMUS_ROUNDS=1000000 ...    rounds of each shape (default 100)
#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <tuple>

#include "fabric/barrier.hpp"
#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

using coherence::Strength;
using fabric::Rank;

constexpr std::size_t block = 4096;
constexpr fabric::HandlerId meeting_handler = fabric::first_free_handler + SpaceOptions::handlers;

std::uint64_t litmus_rounds() {
  const char* const text = std::getenv("CRATON_LITMUS_ROUNDS");
  return text == nullptr ? 100 : std::strtoull(text, nullptr, 0);
}

/// Words, each in a block of its own.
class Words {
 public:
  Words(RankSpace& rank, std::size_t count, Strength strength)
      : first_(reinterpret_cast<std::uint64_t*>(rank.space
                                                    .create_segment({.name = "words",
                                                                     .bytes = count * block,
                                                                     .initial_homes = {},
                                                                     .dials = {.strength = strength}})
                                                    .data())) {}
  std::uint64_t* at(std::size_t index) const noexcept { return first_ + index * (block / sizeof *first_); }
  /// What the program's own instructions do. A plain load on x86, an exchange.
  std::uint64_t load(std::size_t index) const noexcept { return std::atomic_ref(*at(index)).load(); }
  void store(std::size_t index, std::uint64_t value) const noexcept {
    std::atomic_ref(*at(index)).store(value);
  }

 private:
  std::uint64_t* first_;
};

/// Calls `turn` of each rank once a round, at about the same time, then `judge` on all.
template <typename Turn, typename Judge>
void in_rounds(RankSpace& rank, const Turn& turn, const Judge& judge) {
  const std::uint64_t rounds = litmus_rounds();
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    rank.space.barrier().wait();
    turn(round);
    rank.space.barrier().wait();
    judge(round);
  }
}

// ---- Shapes. Each word is written with the number of the round; smaller ones are older.

void store_buffering(RankSpace& rank) {
  const Words words(rank, 2, Strength::strong);
  const Words seen(rank, 2, Strength::release);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        words.store(self, round);
        *seen.at(self) = words.load(1 - self);
      },
      [&](std::uint64_t round) {
        rank.check(*seen.at(0) == round || *seen.at(1) == round, "both missed the store of the other");
      });
}

// What strong blocks forbid, release consistency shows: each has a copy, and nobody tells it anything.
void store_buffering_weak(RankSpace& rank) {
  const Words words(rank, 2, Strength::release);
  const Words seen(rank, 2, Strength::release);
  std::uint64_t both_missed = 0;
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        *words.at(self) = round;
        *seen.at(self) = *words.at(1 - self);
      },
      [&](std::uint64_t round) { both_missed += *seen.at(0) != round && *seen.at(1) != round ? 1 : 0; });
  rank.check(both_missed > 0, "never did both miss the store of the other");
}

void load_buffering(RankSpace& rank) {
  const Words words(rank, 2, Strength::strong);
  const Words seen(rank, 2, Strength::release);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        *seen.at(self) = words.load(self);
        words.store(1 - self, round);
      },
      [&](std::uint64_t round) {
        rank.check(*seen.at(0) != round || *seen.at(1) != round, "both saw a store that came later");
      });
}

void message_passing(RankSpace& rank) {
  const Words words(rank, 2, Strength::strong);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        if (rank.rank() == 0) {
          words.store(0, round);
          words.store(1, round);
        } else if (words.load(1) == round) {
          rank.check(words.load(0) == round, "the flag was seen without the data");
        }
      },
      [](std::uint64_t) {});
}

// The data lies in blocks of release consistency.
void message_passing_of_weak_data(RankSpace& rank) {
  const Words data(rank, 4, Strength::release);
  const Words flags(rank, rank.size(), Strength::strong);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self == 0) {
          for (std::size_t i = 0; i < 4; ++i) *data.at(i) = round + i;
        } else {
          while (flags.load(self - 1) != round) ::usleep(10);
          for (std::size_t i = 0; i < 4; ++i)
            rank.check(*data.at(i) == round + i, "a flag was seen without the data before it");
        }
        flags.store(self, round);
      },
      [](std::uint64_t) {});
}

void independent_reads(RankSpace& rank) {
  const Words words(rank, 2, Strength::strong);
  const Words seen(rank, 2, Strength::release);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self < 2) return words.store(self, round);
        if (self > 3) return;
        const std::uint64_t one = words.load(self - 2);
        const std::uint64_t other = words.load(3 - self);
        *seen.at(self - 2) = one == round && other != round ? round : 0;
      },
      [&](std::uint64_t round) {
        rank.check(*seen.at(0) != round || *seen.at(1) != round, "two readers disagreed on two stores");
      });
}

void two_writes_each(RankSpace& rank) {
  const Words words(rank, 2, Strength::strong);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        words.store(self, 2 * round);
        words.store(1 - self, 2 * round + 1);
      },
      [&](std::uint64_t round) {
        rank.check(words.load(0) != 2 * round || words.load(1) != 2 * round, "both first stores came last");
      });
}

void reads_go_back(RankSpace& rank) {
  const Words words(rank, 1, Strength::strong);
  in_rounds(
      rank,
      [&](std::uint64_t round) {
        if (rank.rank() == 0) return words.store(0, round);
        const std::uint64_t first = words.load(0);
        rank.check(words.load(0) >= first, "a second load gave an older value");
      },
      [](std::uint64_t) {});
}

/// All ranks and threads add: to one word, to neighbours in a block, to words of different blocks.
template <bool one_word, bool one_block>
void lost_addition(RankSpace& rank) {
  constexpr unsigned threads = 2;
  constexpr std::uint64_t additions = 300;
  const std::size_t adders = rank.size() * threads;
  const Words words(rank, adders, Strength::automatic);
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
  const Words words(rank, 1, strength);
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
  const Words words(rank, 1, strength);
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

struct Case {
  const char* name;
  void (*body)(RankSpace&);
  Rank least_ranks = 2;
  TimeNs heartbeat_ns = 0;

  friend std::ostream& operator<<(std::ostream& out, const Case& tested) { return out << tested.name; }
};

constexpr TimeNs beat_ns = 2'000'000;
constexpr Case cases[] = {
    {"StoreBuffering", store_buffering},
    {"StoreBufferingWeak", store_buffering_weak},
    {"LoadBuffering", load_buffering},
    {"MessagePassing", message_passing},
    {"MessagePassingOfWeakData", message_passing_of_weak_data},
    {"IndependentReads", independent_reads, 4},
    {"TwoWritesEach", two_writes_each},
    {"ReadsGoBack", reads_go_back},
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
    {"SpinningWithHeartbeat", [](RankSpace& rank) { spinning(rank, Strength::automatic, true); }, 2, beat_ns},
};

using Parameter = std::tuple<Machine, Rank, Case>;

class Racing : public testing::TestWithParam<Parameter> {};

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
                         [](const testing::TestParamInfo<Parameter>& tested) {
                           return std::string(std::get<2>(tested.param).name) + "_" +
                                  std::get<0>(tested.param).name + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "ranks";
                         });

}  // namespace

}  // namespace craton::space::test
