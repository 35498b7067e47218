/// \file
/// Litmus tests of the coherent space on the real machine: each over every way to join ranks and to catch
/// faults, with 2, 4 and 8 ranks. Named after what they forbid.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

using fabric::Rank;

constexpr std::size_t block = 4096;

/// Words of a segment, each in a block of its own unless told otherwise.
struct Words {
  std::uint64_t* first;
  std::size_t apart = block / sizeof(std::uint64_t);
  std::uint64_t& operator[](std::size_t index) const noexcept { return first[index * apart]; }
};

Words make_words(RankSpace& rank, std::size_t count) {
  Segment& segment =
      rank.space.create_segment({.name = "words", .bytes = count * block, .initial_homes = {}, .dials = {}});
  return {.first = reinterpret_cast<std::uint64_t*>(segment.data())};
}

/// A critical section.
template <typename Body>
void in_mutex(RankSpace& rank, MutexId mutex, const Body& body) {
  rank.space.mutexes().lock(mutex);
  body();
  rank.space.mutexes().unlock(mutex);
}

// Data is written, then a flag is set in a mutex; who sees the flag must see the data, which no mutex guards.
void stale_data_after_flag(RankSpace& rank) {
  const Words words = make_words(rank, 2);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    if (rank.rank() == 0) {
      words[0] = round * 10;
      in_mutex(rank, 1, [&] { words[1] = round; });
    } else {
      std::uint64_t flag = 0;
      while (flag < round) in_mutex(rank, 1, [&] { flag = words[1]; });
      rank.check(words[0] >= round * 10, said("data after its flag", words[0], round * 10));
    }
    rank.space.barrier().wait();
  }
}

// Each writes its own word and reads the other's, in a mutex: not both may miss the other.
void both_miss_the_other(RankSpace& rank) {
  const Words words = make_words(rank, 4);
  for (std::uint64_t round = 1; round <= 50; ++round) {
    const Rank self = rank.rank();
    if (self < 2) {
      in_mutex(rank, 0, [&] { words[self] = round; });
      in_mutex(rank, 0, [&] { words[2 + self] = words[1 - self]; });
    }
    rank.space.barrier().wait();
    rank.check(words[2] == round || words[3] == round, "both missed the write of the other");
    rank.space.barrier().wait();
  }
}

// The first writes, the next sees it and says so to the one after it, and so on: the last must see it as
// well.
void effect_before_its_cause(RankSpace& rank) {
  const Words words = make_words(rank, rank.size() + 1);
  for (std::uint64_t round = 1; round <= 30; ++round) {
    const Rank self = rank.rank();
    if (self == 0) {
      words[rank.size()] = round;
    } else {
      std::uint64_t flag = 0;
      while (flag < round) in_mutex(rank, self - 1, [&] { flag = words[self - 1]; });
      rank.check(words[rank.size()] == round, said("the cause", words[rank.size()], round));
    }
    in_mutex(rank, self, [&] { words[self] = round; });
    rank.space.barrier().wait();
  }
}

// Two write, two read in opposite orders: they must not disagree on which write came first.
void readers_disagree_on_order(RankSpace& rank) {
  const Words words = make_words(rank, 6);
  for (std::uint64_t round = 1; round <= 30; ++round) {
    const Rank self = rank.rank() % 4;
    if (rank.rank() < 4) {
      if (self < 2) {
        in_mutex(rank, self, [&] { words[self] = round; });
      } else {
        std::uint64_t one = 0;
        std::uint64_t other = 0;
        in_mutex(rank, self - 2, [&] { one = words[self - 2]; });
        in_mutex(rank, 3 - self, [&] { other = words[3 - self]; });
        words[self + 2] = one == round && other != round ? round : 0;  // saw the one and not the other
      }
    }
    rank.space.barrier().wait();
    rank.check(words[4] != round || words[5] != round, "two readers saw two writes in opposite orders");
    rank.space.barrier().wait();
  }
}

// All write bytes of their own in one block, between barriers: none may be lost, and all be seen by all.
void lost_write_in_a_shared_block(RankSpace& rank) {
  Segment& segment =
      rank.space.create_segment({.name = "bytes", .bytes = block, .initial_homes = {}, .dials = {}});
  auto* const bytes = reinterpret_cast<std::uint8_t*>(segment.data());
  for (unsigned round = 1; round <= 30; ++round) {
    for (std::size_t i = rank.rank(); i < block; i += rank.size()) {
      if ((i + round) % 3 == 0) bytes[i] = static_cast<std::uint8_t>(i + round);
    }
    rank.space.barrier().wait();
    for (std::size_t i = 0; i < block; ++i) {
      // The last round, up to this one, in which it was written.
      unsigned last = round;
      while (last > 0 && (i + last) % 3 != 0) --last;
      const auto expected = last == 0 ? 0U : static_cast<unsigned>(static_cast<std::uint8_t>(i + last));
      rank.check(bytes[i] == expected, said("a byte of a shared block", bytes[i], expected));
    }
    rank.space.barrier().wait();
  }
}

// All add to one word in a mutex, on two threads each: the mutex goes round, and no addition is lost.
void lost_addition_in_a_mutex(RankSpace& rank) {
  const Words words = make_words(rank, 2);
  constexpr std::uint64_t additions = 100;
  constexpr unsigned threads = 2;
  rank.run_threads(threads, [&](unsigned) {
    for (std::uint64_t i = 0; i < additions; ++i) {
      in_mutex(rank, 3, [&] {
        words[0] = words[0] + 1;
        words[1] = words[0];
      });
    }
  });
  rank.space.barrier().wait();
  rank.check(words[0] == additions * threads * rank.size(),
             said("a counter", words[0], additions * threads * rank.size()));
  rank.check(words[1] == words[0], said("its copy", words[1], words[0]));
}

// The same without a mutex, by atomic updates.
void lost_atomic_addition(RankSpace& rank) {
  const Words words = make_words(rank, 1);
  constexpr std::uint64_t additions = 100;
  constexpr unsigned threads = 2;
  rank.run_threads(threads, [&](unsigned) {
    for (std::uint64_t i = 0; i < additions; ++i) {
      rank.space.update(&words[0], 8, [](std::byte* word) { ++*reinterpret_cast<std::uint64_t*>(word); });
    }
  });
  rank.space.barrier().wait();
  rank.check(words[0] == additions * threads * rank.size(),
             said("a counter", words[0], additions * threads * rank.size()));
}

// One writes, all others read, in turn, barrier after barrier.
void stale_read_after_a_barrier(RankSpace& rank) {
  const Words words = make_words(rank, 8);
  for (std::uint64_t round = 1; round <= 100; ++round) {
    if (round % rank.size() == rank.rank()) {
      for (std::size_t i = 0; i < 8; ++i) words[i] = round + i;
    }
    rank.space.barrier().wait(static_cast<std::uint32_t>(round % 3));
    for (std::size_t i = 0; i < 8; ++i)
      rank.check(words[i] == round + i, said("a word after a barrier", words[i], round + i));
    rank.space.barrier().wait();
  }
}

// Threads of a rank write the same block that others write: none is lost while it is merged and moved.
void lost_write_of_a_thread(RankSpace& rank) {
  Segment& segment =
      rank.space.create_segment({.name = "words", .bytes = block, .initial_homes = {}, .dials = {}});
  auto* const words = reinterpret_cast<std::uint64_t*>(segment.data());
  constexpr unsigned threads = 2;
  constexpr std::uint64_t rounds = 200;
  const std::size_t stride = rank.size() * threads;
  rank.run_threads(threads, [&](unsigned thread) {
    const std::size_t first = rank.rank() * threads + thread;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      for (std::size_t i = first; i < block / 8; i += stride) words[i] = round;
      if (round % 8 == thread * 4) in_mutex(rank, 5, [&] {});
      for (std::size_t i = first; i < block / 8; i += stride)
        rank.check(words[i] == round, said("a thread's own word", words[i], round));
    }
  });
  rank.space.barrier().wait();
  for (std::size_t i = 0; i < block / 8; ++i)
    rank.check(words[i] == rounds, said("a thread's word", words[i], rounds));
}

// Data, then a flag, by plain stores, without anything that publishes or acquires but the heartbeat: in
// causal segments who sees the flag must see the data.
void stale_data_after_a_plain_flag(RankSpace& rank) {
  coherence::Dials dials;
  dials.causal = true;
  Segment& segment = rank.space.create_segment(
      {.name = "words", .bytes = (rank.size() + 1) * block, .initial_homes = {}, .dials = dials});
  const Words words{.first = reinterpret_cast<std::uint64_t*>(segment.data())};
  // As a compiler leaves them that keeps them in order: the processor does.
  const auto load = [&](std::size_t word) {
    return std::atomic_ref(words[word]).load(std::memory_order_acquire);
  };
  const auto store = [&](std::size_t word, std::uint64_t value) {
    std::atomic_ref(words[word]).store(value, std::memory_order_release);
  };
  const Rank self = rank.rank();
  const std::size_t data = rank.size();
  constexpr std::uint64_t last = 200;
  // The flag lies among words of the readers, so that it comes to them by merges as well.
  const auto own_word = [&] { return std::atomic_ref((&words[0])[self]); };
  if (self == 0) {
    for (std::uint64_t count = 1; count <= last; ++count) {
      store(data, count);
      store(0, count);
      for (const auto begin = std::chrono::steady_clock::now();
           std::chrono::steady_clock::now() - begin < std::chrono::microseconds(100);) {
      }
    }
  } else {
    for (std::uint64_t flag = 0; flag < last;) {
      flag = load(0);
      const std::uint64_t found = load(data);
      rank.check(found >= flag, said("data after its flag", found, flag));
      own_word().store(flag, std::memory_order_release);
    }
  }
  rank.space.barrier().wait();
}

struct Litmus {
  const char* name;
  void (*body)(RankSpace&);
  Rank least_ranks = 2;
  TimeNs heartbeat_ns = 0;

  friend std::ostream& operator<<(std::ostream& out, const Litmus& litmus) { return out << litmus.name; }
};

constexpr Litmus litmus_tests[] = {
    {"StaleDataAfterFlag", stale_data_after_flag},
    {"BothMissTheOther", both_miss_the_other},
    {"EffectBeforeItsCause", effect_before_its_cause},
    {"ReadersDisagreeOnOrder", readers_disagree_on_order, 4},
    {"LostWriteInASharedBlock", lost_write_in_a_shared_block},
    {"LostAdditionInAMutex", lost_addition_in_a_mutex},
    {"LostAtomicAddition", lost_atomic_addition},
    {"StaleReadAfterABarrier", stale_read_after_a_barrier},
    {"LostWriteOfAThread", lost_write_of_a_thread},
    {"StaleDataAfterAPlainFlag", stale_data_after_a_plain_flag, 2, 1'000'000},
};

using LitmusParameter = std::tuple<Machine, Rank, Litmus>;

class Forbidden : public testing::TestWithParam<LitmusParameter> {};

TEST_P(Forbidden, NeverHappens) {
  const auto& [machine, ranks, litmus] = GetParam();
  if (ranks < litmus.least_ranks) return;  // the case needs more to say anything
  SpaceOptions options;
  options.heartbeat_ns = litmus.heartbeat_ns;
  const std::string failure = run_space(machine, ranks, options, litmus.body);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Rank rank_counts[] = {2, 4};
#else
constexpr Rank rank_counts[] = {2, 4, 8};
#endif

INSTANTIATE_TEST_SUITE_P(Real, Forbidden,
                         testing::Combine(testing::ValuesIn(machines), testing::ValuesIn(rank_counts),
                                          testing::ValuesIn(litmus_tests)),
                         [](const testing::TestParamInfo<LitmusParameter>& tested) {
                           return std::string(std::get<2>(tested.param).name) + "_" +
                                  std::get<0>(tested.param).name + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "ranks";
                         });

}  // namespace

}  // namespace craton::space::test
