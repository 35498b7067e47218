/// \file
/// Litmus shapes on strong blocks, on the real machine: outcomes that sequential consistency forbids must not
/// come. The same shapes on release blocks, where they do come.
///
///   CRATON_LITMUS_ITERATIONS=1000000 test_space --gtest_filter='*StrongLitmus*'
///
/// makes so many of each shape (default 800) and prints how often each outcome came.
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
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

/// Between two barriers all ranks run through so many iterations, each on items of its own: they race as fast
/// as blocks change hands.
constexpr std::size_t items = 16;
static_assert(items <= RacingWords::items);

/// The number that the environment asks for, 0: none.
std::uint64_t asked_iterations() {
  const char* const text = std::getenv("CRATON_LITMUS_ITERATIONS");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 0);
}

/// How often each outcome of a shape came.
class Outcomes {
 public:
  explicit Outcomes(std::array<const char*, 3> names) : names_(names) {}
  void add(std::size_t outcome) noexcept { ++counts_[outcome]; }
  std::uint64_t of(std::size_t outcome) const noexcept { return counts_[outcome]; }
  void print(const RankSpace& rank) const {
    if (asked_iterations() == 0 || rank.rank() != 0) return;
    std::string line;
    for (std::size_t i = 0; i < names_.size(); ++i)
      line += "  " + std::string(names_[i]) + ": " + std::to_string(counts_[i]);
    std::fprintf(stderr, "%s\n", line.c_str());
  }

 private:
  std::array<const char*, 3> names_;
  std::array<std::uint64_t, 3> counts_{};
};

/// Calls `turn(item, round)` of each rank for all items, at about the same time, then `judge(item, round)` on
/// all: it tells the outcome. Words are written with the number of the round; smaller ones are older.
template <typename Turn, typename Judge>
void in_rounds_of(RankSpace& rank, Outcomes& outcomes, std::uint64_t rounds, std::size_t item_count,
                  const Turn& turn, const Judge& judge) {
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    rank.space.barrier().wait();
    for (std::size_t item = 0; item < item_count; ++item) turn(item, round);
    rank.space.barrier().wait();
    for (std::size_t item = 0; item < item_count; ++item) outcomes.add(judge(item, round));
  }
  outcomes.print(rank);
  rank.space.barrier().wait();
}

constexpr std::uint64_t usual_rounds = 50;

template <typename Turn, typename Judge>
void in_rounds(RankSpace& rank, Outcomes& outcomes, const Turn& turn, const Judge& judge) {
  const std::uint64_t asked = asked_iterations();
  in_rounds_of(rank, outcomes, asked == 0 ? usual_rounds : (asked + items - 1) / items, items, turn, judge);
}

// ---- Shapes

/// \returns how often each outcome came: both saw the other's store, one did, none did
Outcomes buffer_stores(RankSpace& rank, Strength strength, const char* name) {
  const RacingWords words(rank, 2, strength);
  const RacingWords seen(rank, 2, Strength::release);
  Outcomes outcomes({name, "one did", "none did"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        words.store(self, item, round);
        *seen.at(self, item) = words.load(1 - self, item);
      },
      [&](std::size_t item, std::uint64_t round) {
        return (*seen.at(0, item) == round ? 0U : 1U) + (*seen.at(1, item) == round ? 0U : 1U);
      });
  return outcomes;
}

void store_buffering(RankSpace& rank) {
  const Outcomes outcomes = buffer_stores(rank, Strength::strong, "SB: both saw the other's");
  rank.check(outcomes.of(2) == 0, "both missed the store of the other");
}

void load_buffering(RankSpace& rank) {
  const RacingWords words(rank, 2, Strength::strong);
  const RacingWords seen(rank, 2, Strength::release);
  Outcomes outcomes({"LB: none saw the other's", "one did", "both did"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        *seen.at(self, item) = words.load(self, item);
        words.store(1 - self, item, round);
      },
      [&](std::size_t item, std::uint64_t round) {
        return (*seen.at(0, item) == round ? 1U : 0U) + (*seen.at(1, item) == round ? 1U : 0U);
      });
  rank.check(outcomes.of(2) == 0, "both saw a store that came later");
}

void message_passing(RankSpace& rank) {
  const RacingWords words(rank, 2, Strength::strong);
  const RacingWords seen(rank, 2, Strength::release);
  Outcomes outcomes({"MP: flag and data", "no flag", "flag without data"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        if (rank.rank() == 0) {
          words.store(0, item, round);
          words.store(1, item, round);
        } else {
          const bool flag = words.load(1, item) == round;
          const bool data = words.load(0, item) == round;
          rank.check(!flag || data, "the flag was seen without the data");
          if (rank.rank() == 1) *seen.at(0, item) = flag ? round : 0;
        }
      },
      [&](std::size_t item, std::uint64_t round) { return *seen.at(0, item) == round ? 0U : 1U; });
}

// The data lies in blocks of release consistency; each rank waits for the flag of the one before it.
void message_passing_of_weak_data(RankSpace& rank) {
  constexpr std::size_t data_words = 4;
  const RacingWords data(rank, data_words, Strength::release);
  const RacingWords flags(rank, rank.size(), Strength::strong);
  Outcomes outcomes({"MP of weak data: flag and data", "no flag", "flag without data"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        const Rank self = rank.rank();
        if (self == 0) {
          for (std::size_t i = 0; i < data_words; ++i) *data.at(i, item) = round + i;
        } else {
          while (flags.load(self - 1, item) != round) ::usleep(10);
          for (std::size_t i = 0; i < data_words; ++i)
            rank.check(*data.at(i, item) == round + i, "a flag was seen without the data before it");
        }
        flags.store(self, item, round);
      },
      [](std::size_t, std::uint64_t) { return 0U; });
}

void independent_reads(RankSpace& rank) {
  const RacingWords words(rank, 2, Strength::strong);
  const RacingWords seen(rank, 2, Strength::release);
  Outcomes outcomes({"IRIW: no reader saw one of two stores", "one did", "both did, in opposite orders"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        const Rank self = rank.rank();
        if (self < 2) return words.store(self, item, round);
        if (self > 3) return;
        const bool one = words.load(self - 2, item) == round;
        const bool other = words.load(3 - self, item) == round;
        *seen.at(self - 2, item) = one && !other ? round : 0;
      },
      [&](std::size_t item, std::uint64_t round) {
        return (*seen.at(0, item) == round ? 1U : 0U) + (*seen.at(1, item) == round ? 1U : 0U);
      });
  rank.check(outcomes.of(2) == 0, "two readers disagreed on two stores");
}

void two_writes_each(RankSpace& rank) {
  const RacingWords words(rank, 2, Strength::strong);
  Outcomes outcomes({"2+2W: both second stores stayed", "one did", "both first stores did"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        const Rank self = rank.rank();
        if (self > 1) return;
        words.store(self, item, 2 * round);
        words.store(1 - self, item, 2 * round + 1);
      },
      [&](std::size_t item, std::uint64_t round) {
        return (words.load(0, item) == 2 * round ? 1U : 0U) + (words.load(1, item) == 2 * round ? 1U : 0U);
      });
  rank.check(outcomes.of(2) == 0, "both first stores came last");
}

void reads_go_back(RankSpace& rank) {
  const RacingWords words(rank, 1, Strength::strong);
  const RacingWords seen(rank, 1, Strength::release);
  Outcomes outcomes({"CoRR: both loads saw it", "not the first", "only the first"});
  in_rounds(
      rank, outcomes,
      [&](std::size_t item, std::uint64_t round) {
        if (rank.rank() == 0) return words.store(0, item, round);
        const std::uint64_t first = words.load(0, item);
        rank.check(words.load(0, item) >= first, "a second load gave an older value");
        if (rank.rank() == 1) *seen.at(0, item) = first;
      },
      [&](std::size_t item, std::uint64_t round) { return *seen.at(0, item) == round ? 0U : 1U; });
}

// ---- What release consistency allows. Copies are made before the stores, and nobody is told of these.
// (Loads do not wait for stores that come later, nor does a copy become older: LB and CoRR do not come there
// either. 2+2W may, where two ranks merge two blocks at their homes in different orders; that takes luck.)

void store_buffering_weak(RankSpace& rank) {
  const Outcomes outcomes = buffer_stores(rank, Strength::release, "weak SB: both saw the other's");
  rank.check(outcomes.of(2) > 0, "never did both miss the store of the other");
}

/// Copies that are made when they are first used, and closed when they are old.
constexpr coherence::Dials simple{.hot_blocks = false, .read_ahead = 0, .prefetch = false};

/// Some ranks copy a word before others store, and read a second one after it. No race: so some rounds will
/// do.
template <typename Before, typename Store, typename After, typename Judge>
void in_order(RankSpace& rank, Outcomes& outcomes, const Before& before, const Store& store,
              const After& after, const Judge& judge) {
  fabric::Barrier meeting(rank.fabric, meeting_handler);  // of which the memory knows nothing
  in_rounds_of(
      rank, outcomes, usual_rounds, 1,
      [&](std::size_t item, std::uint64_t round) {
        before(item);
        static_cast<void>(meeting.wait());
        store(item, round);
        static_cast<void>(meeting.wait());
        after(item, round);
        static_cast<void>(meeting.wait());
      },
      judge);
}

void message_passing_weak(RankSpace& rank) {
  const RacingWords words(rank, 2, simple);
  const RacingWords seen(rank, 1, Strength::release);
  Outcomes outcomes({"weak MP: flag and data", "no flag", "flag without data"});
  const bool reads = rank.rank() == 1;
  in_order(
      rank, outcomes,
      [&](std::size_t item) {
        if (reads) static_cast<void>(words.load(0, item));
      },
      [&](std::size_t item, std::uint64_t round) {
        if (rank.rank() != 0) return;
        words.store(0, item, round);
        words.store(1, item, round);
      },
      [&](std::size_t item, std::uint64_t round) {
        if (!reads) return;
        const bool flag = words.load(1, item) == round;
        const bool data = words.load(0, item) == round;
        *seen.at(0, item) = 3 * round + (flag ? (data ? 0 : 2) : 1);
      },
      [&](std::size_t item, std::uint64_t round) {
        return static_cast<std::size_t>(*seen.at(0, item) - 3 * round);
      });
  rank.check(outcomes.of(2) > 0, "never was the flag seen without the data");
}

void independent_reads_weak(RankSpace& rank) {
  const RacingWords words(rank, 2, simple);
  const RacingWords seen(rank, 2, Strength::release);
  Outcomes outcomes(
      {"weak IRIW: no reader saw one of two stores", "one did", "both did, in opposite orders"});
  const Rank self = rank.rank();
  const bool reads = self == 2 || self == 3;
  in_order(
      rank, outcomes,
      [&](std::size_t item) {
        if (reads) static_cast<void>(words.load(3 - self, item));
      },
      [&](std::size_t item, std::uint64_t round) {
        if (self < 2) words.store(self, item, round);
      },
      [&](std::size_t item, std::uint64_t round) {
        if (!reads) return;
        const bool one = words.load(self - 2, item) == round;
        const bool other = words.load(3 - self, item) == round;
        *seen.at(self - 2, item) = one && !other ? round : 0;
      },
      [&](std::size_t item, std::uint64_t round) {
        return (*seen.at(0, item) == round ? 1U : 0U) + (*seen.at(1, item) == round ? 1U : 0U);
      });
  rank.check(outcomes.of(2) > 0, "never did two readers disagree on two stores");
}

struct Shape {
  const char* name;
  void (*body)(RankSpace&);
  Rank least_ranks = 2;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }
};

constexpr Shape shapes[] = {
    {"StoreBuffering", store_buffering},
    {"LoadBuffering", load_buffering},
    {"MessagePassing", message_passing},
    {"MessagePassingOfWeakData", message_passing_of_weak_data},
    {"IndependentReads", independent_reads, 4},
    {"TwoWritesEach", two_writes_each},
    {"ReadsGoBack", reads_go_back},
    {"StoreBufferingWeak", store_buffering_weak},
    {"MessagePassingWeak", message_passing_weak},
    {"IndependentReadsWeak", independent_reads_weak, 4},
};

using StrongParameter = std::tuple<Machine, Rank, Shape>;

class StrongLitmus : public testing::TestWithParam<StrongParameter> {};

TEST_P(StrongLitmus, GivesWhatItsStrengthPromises) {
  const auto& [machine, ranks, shape] = GetParam();
  if (ranks < shape.least_ranks) return;  // the shape needs more to say anything
  constexpr int seconds = 600;
  constexpr std::uint64_t iterations_a_second = 500;  // on a slow machine
  const int limit_s = seconds + static_cast<int>(asked_iterations() / iterations_a_second);
  const std::string failure = run_space(machine, ranks, {}, shape.body, limit_s);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Real, StrongLitmus,
                         testing::Combine(testing::ValuesIn(machines), testing::Values(Rank{2}, Rank{4}),
                                          testing::ValuesIn(shapes)),
                         [](const testing::TestParamInfo<StrongParameter>& tested) {
                           return std::string(std::get<2>(tested.param).name) + "_" +
                                  std::get<0>(tested.param).name + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "ranks";
                         });

}  // namespace

}  // namespace craton::space::test
