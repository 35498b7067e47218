/// \file
/// Programs full of data races on strong blocks, which must be sequentially consistent all the same: random
/// ones and the litmus shapes, on random schedules. Judged twice: by a search for an order that explains what
/// was read (order_search.hpp), and by a memory beside them that is written and read at the very moments of
/// the accesses, which is more than sequential consistency asks for, and finds faults that it forgives.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/sim/random.hpp"
#include "order_search.hpp"
#include "schedules.hpp"
#include "sim_run.hpp"
#include "sim_space.hpp"

namespace craton::coherence::test {

namespace {

using fabric::Rank;
using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;

struct Step {
  enum class Kind : std::uint8_t { load, store, atomic, update };
  Kind kind;
  std::size_t word;
  std::uint64_t value = 0;  ///< to be written
};
using Program = std::vector<std::vector<Step>>;  ///< by thread

/// A program that two or more threads run, and what they must not find.
struct Litmus {
  const char* name;
  Program program;
  std::vector<std::vector<std::uint64_t>> forbidden;  ///< what each thread's loads return
  std::vector<std::uint64_t> forbidden_end{};         ///< and what is in memory afterwards; empty: anything
};

constexpr std::size_t x = 0;
constexpr std::size_t y = 1;
Step load(std::size_t word) {
  return {.kind = Step::Kind::load, .word = word};
}
Step store(std::size_t word, std::uint64_t value) {
  return {.kind = Step::Kind::store, .word = word, .value = value};
}

const std::vector<Litmus>& shapes() {
  static const std::vector<Litmus> all{
      {"SB", {{store(x, 1), load(y)}, {store(y, 1), load(x)}}, {{0}, {0}}},
      {"LB", {{load(x), store(y, 1)}, {load(y), store(x, 1)}}, {{1}, {1}}},
      {"MP", {{store(x, 1), store(y, 1)}, {load(y), load(x)}}, {{}, {1, 0}}},
      {"IRIW",
       {{store(x, 1)}, {store(y, 1)}, {load(x), load(y)}, {load(y), load(x)}},
       {{}, {}, {1, 0}, {1, 0}}},
      {"2+2W", {{store(x, 1), store(y, 2)}, {store(y, 1), store(x, 2)}}, {{}, {}}, {1, 1}},
      {"CoRR", {{store(x, 1)}, {load(x), load(x)}}, {{}, {1, 0}}},
      {"WRC", {{store(x, 1)}, {load(x), store(y, 1)}, {load(y), load(x)}}, {{}, {1}, {1, 0}}},
  };
  return all;
}

/// Keeps blocks where their manager finds them.
class MemoryStore final : public BlockStore {
 public:
  explicit MemoryStore(std::size_t block_bytes) : block_bytes_(block_bytes) {}
  void read(std::uint64_t block, std::byte* to) override {
    ++reads;
    std::memcpy(to, bytes(block), block_bytes_);
  }
  void write(std::uint64_t block, const std::byte* from) override {
    ++writes;
    std::memcpy(bytes(block), from, block_bytes_);
  }
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;

 private:
  std::byte* bytes(std::uint64_t block) {
    return blocks_.try_emplace(block, std::vector<std::byte>(block_bytes_)).first->second.data();
  }
  const std::size_t block_bytes_;
  std::map<std::uint64_t, std::vector<std::byte>> blocks_;
};

constexpr std::array<std::pair<const char*, Counters::Count Counters::*>, 6> strong_counts{{
    {"strong reads", &Counters::strong_reads},
    {"strong writes", &Counters::strong_writes},
    {"upgrades", &Counters::upgrades},
    {"forwards", &Counters::forwards},
    {"invalidations", &Counters::strong_invalidations},
    {"holds", &Counters::holds},
}};

class StrongRun : public SimRun {
 public:
  explicit StrongRun(std::uint64_t seed) : SimRun(seed, 0x7374726f6e67ULL) {}
  bool kills = false;  ///< a rank dies: the others' waits must end, and that is all

  std::string go() {
    const Rank ranks = static_cast<Rank>(random_.between(2, 4));
    make_program(ranks);
    shape_.block_bytes = 32;
    shape_.blocks = random_.between(1, 3);
    for (std::size_t word = 0; word < words_.size(); ++word)
      words_[word] = random_.below(shape_.blocks) * shape_.block_bytes + word * sizeof(std::uint64_t);
    shape_.initial_homes.kind = random_.one_in(2) ? InitialHomes::Kind::cyclic : InitialHomes::Kind::one;
    shape_.initial_homes.rank = static_cast<Rank>(random_.below(ranks));
    shape_.dials.strength = Strength::strong;
    shape_.dials.hold_ns = random_.pick(std::array<TimeNs, 3>{100, 2'000, 20'000});
    if (random_.one_in(4)) transfer_ = random_.one_in(2) ? Transfer::cooperative : Transfer::write_back;
    make_world(ranks);
    std::string failure = run_ranks([this](SimFabric& fabric) { main(fabric); });
    if (failure.empty() && !kills) failure = judge();
    return told(failure, kills ? "StrongBlocks.*" : "Part/StrongPrograms.*/0");
  }

 private:
  void make_program(Rank ranks) {
    if (random_.one_in(3) && !kills) {
      litmus_ = &shapes()[random_.below(shapes().size())];
      program_ = litmus_->program;
    } else {
      program_.resize(ranks * random_.between(1, 3));
      std::uint64_t value = 0;
      const std::size_t words = random_.between(1, words_.size());
      for (std::vector<Step>& thread : program_) {
        for (std::uint64_t steps = random_.between(2, 6); steps > 0; --steps) {
          const auto kind =
              random_.pick(std::array{Step::Kind::load, Step::Kind::load, Step::Kind::store,
                                      Step::Kind::store, Step::Kind::atomic, Step::Kind::update});
          thread.push_back({.kind = kind, .word = random_.below(words), .value = ++value});
        }
      }
    }
    for (std::size_t thread = 0; thread < program_.size(); ++thread)
      rank_of_.push_back(static_cast<Rank>(random_.below(ranks)));
    history_.resize(program_.size());
  }

  void main(SimFabric& fabric) {
    const Rank rank = fabric.rank();
    std::unique_ptr<MemoryStore> store;
    // No store belongs to a run in which the ranks could not even start.
    try {
      ranks_[rank] = std::make_unique<SimRank>(fabric, std::vector{shape_}, SpaceDials{}, 1, 1);
      SimRank& own = *ranks_[rank];
      if (transfer_) {
        store = std::make_unique<MemoryStore>(shape_.block_bytes);
        own.exclusive().set_store(0, *store, *transfer_);
      }
      own.barrier().wait();
      if (kills && rank == 0) world_->kill_later(static_cast<Rank>(random_.below(world_->size())), 5'000);
      if (random_.one_in(4)) {  // a copy that somebody will have to take away
        std::uint64_t ignored = 0;
        own.load(0, words_[random_.below(words_.size())], &ignored, sizeof ignored);
      }
      std::size_t left = 0;
      for (std::size_t thread = 0; thread < program_.size(); ++thread) {
        if (rank_of_[thread] != rank) continue;
        ++left;
        world_->spawn(rank, [this, thread, &left](SimFabric& same) {
          run_thread_unless_lost(same.rank(), thread);
          --left;
          same.notify();
        });
      }
      static_cast<void>(fabric.wait_until([&] { return left == 0; }, no_deadline));
      own.barrier().wait();
      if (rank == 0) {
        for (std::size_t word = 0; word < words_.size(); ++word) own.load(0, words_[word], &end_[word], 8);
      }
      own.barrier().wait();
    } catch (const Error& error) {
      if (!kills || error.code() != ErrorCode::peer_lost) throw;
      if (ranks_[rank] != nullptr) ranks_[rank]->stop_service();
      return;
    }
    if (fabric.lost_ranks() == 0 || !kills) {
      close(fabric);
    } else {
      ranks_[rank]->stop_service();
    }
    for (const auto& [name, count] : strong_counts) seen[name] += ranks_[rank]->protocol().count(count);
    if (store != nullptr) seen["store reads"] += store->reads;
    if (store != nullptr && *transfer_ == Transfer::write_back) seen["store writes"] += store->writes;
    if (store != nullptr && *transfer_ == Transfer::cooperative && store->writes != 0)
      world_->fail("bytes were written to the store where ranks have them");
  }

  void close(SimFabric& fabric) {
    try {
      ranks_[fabric.rank()]->close();
    } catch (const Error& error) {
      if (!kills || error.code() != ErrorCode::peer_lost) throw;
    }
  }

  void run_thread_unless_lost(Rank rank, std::size_t thread) {
    try {
      for (const Step& step : program_[thread]) {
        if (random_.one_in(2)) world_->preempt();
        run_step(rank, thread, step);
      }
    } catch (const Error& error) {
      if (!kills || error.code() != ErrorCode::peer_lost) throw;
    }
  }

  void run_step(Rank rank, std::size_t thread, const Step& step) {
    SimRank& own = *ranks_[rank];
    const std::uint64_t offset = words_[step.word];
    Access access{.word = step.word,
                  .reads = step.kind != Step::Kind::store,
                  .writes = step.kind != Step::Kind::load,
                  .written = step.value};
    const auto change = [&](std::byte* word) {
      std::memcpy(&access.found, word, sizeof access.found);
      std::memcpy(word, &step.value, sizeof step.value);
      happen(rank, access);
    };
    switch (step.kind) {
      case Step::Kind::load:
        own.load(0, offset, &access.found, sizeof access.found);
        happen(rank, access);
        break;
      case Step::Kind::store:
        own.store(0, offset, &step.value, sizeof step.value);
        happen(rank, access);
        break;
      case Step::Kind::atomic:
        own.atomic(0, offset, sizeof step.value, change);
        break;
      case Step::Kind::update:
        own.update(0, offset, sizeof step.value, change);
        break;
    }
    history_[thread].push_back(access);
  }

  /// At the moment of the access: nobody else has run since.
  void happen(Rank rank, Access& access) {
    access.moment = ++moment_;
    if (access.reads && access.found != memory_[access.word] && !kills) {
      world_->fail("rank " + std::to_string(rank) + " read " + std::to_string(access.found) + " where " +
                   std::to_string(memory_[access.word]) + " had been written: word " +
                   std::to_string(access.word) + " at " + std::to_string(words_[access.word]));
    }
    if (access.writes) memory_[access.word] = access.written;
  }

  std::string judge() {
    // The last reads are in no race: they say what the writes have come to.
    history_.emplace_back();
    for (std::size_t word = 0; word < words_.size(); ++word) {
      if (end_[word] != memory_[word])
        return "in the end " + std::to_string(end_[word]) + " was read where " +
               std::to_string(memory_[word]) + " had been written";
    }
    if (!OrderSearch(history_, words_.size()).legal_order_exists())
      return "no order of the accesses explains what was read";
    if (litmus_ == nullptr) return {};
    std::vector<std::vector<std::uint64_t>> found(program_.size());
    std::string outcome = litmus_->name;
    for (std::size_t thread = 0; thread < program_.size(); ++thread) {
      for (const Access& access : history_[thread]) {
        if (!access.reads) continue;
        found[thread].push_back(access.found);
        outcome += " " + std::to_string(access.found);
      }
    }
    const bool ends_so =
        litmus_->forbidden_end.empty() ||
        std::equal(litmus_->forbidden_end.begin(), litmus_->forbidden_end.end(), end_.begin());
    if (!litmus_->forbidden_end.empty())
      outcome += ", in the end " + std::to_string(end_[x]) + " " + std::to_string(end_[y]);
    ++seen[outcome];
    return found == litmus_->forbidden && ends_so ? "the forbidden outcome " + outcome : std::string();
  }

  SegmentShape shape_;
  std::optional<Transfer> transfer_;
  Program program_;
  const Litmus* litmus_ = nullptr;
  std::vector<Rank> rank_of_;
  std::array<std::uint64_t, 4> words_{};   ///< where they are
  std::array<std::uint64_t, 4> memory_{};  ///< what is in them
  std::array<std::uint64_t, 4> end_{};
  std::uint64_t moment_ = 0;
  History history_;
};

class StrongPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StrongPrograms, AreSequentiallyConsistent) {
  const Schedules all = run_schedules<StrongRun>(GetParam(), schedules_wanted(100'000, 500));
  expect_all_seen(all, strong_counts);
  expect_all_seen(all, std::map<std::string, int>{{"store reads", 0}, {"store writes", 0}});
  if (all.count < schedules_that_come_to_all) return;
  for (const Litmus& litmus : shapes()) {
    const auto outcomes = std::count_if(all.seen.begin(), all.seen.end(), [&](const auto& entry) {
      return entry.first.starts_with(std::string(litmus.name) + " ") ||
             entry.first.starts_with(std::string(litmus.name) + ",");
    });
    EXPECT_GE(outcomes, 3) << litmus.name << " shows little of what it may do";
  }
}

INSTANTIATE_TEST_SUITE_P(Part, StrongPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

TEST(StrongBlocks, EndAllWaitsWhenARankDies) {
  const std::optional<std::uint64_t> only = from_environment("CRATON_SIM_SEED");
  const std::uint64_t seeds = schedules_wanted(100'000, 500) / 20;
  for (std::uint64_t seed = only.value_or(1); seed <= only.value_or(seeds); ++seed) {
    StrongRun run(seed);
    run.kills = true;
    ASSERT_EQ(run.go(), "");
  }
}

TEST(OrderSearch, TellsLegalFromIllegal) {
  const auto reads = [](std::size_t word, std::uint64_t found) {
    return Access{.word = word, .reads = true, .writes = false, .found = found};
  };
  const auto writes = [](std::size_t word, std::uint64_t value) {
    return Access{.word = word, .reads = false, .writes = true, .written = value};
  };
  const auto swaps = [](std::size_t word, std::uint64_t found, std::uint64_t value) {
    return Access{.word = word, .reads = true, .writes = true, .found = found, .written = value};
  };
  const auto legal = [](const History& history) { return OrderSearch(history, 2).legal_order_exists(); };
  EXPECT_TRUE(legal({{writes(x, 1), reads(y, 0)}, {writes(y, 1), reads(x, 1)}}));
  EXPECT_FALSE(legal({{writes(x, 1), reads(y, 0)}, {writes(y, 1), reads(x, 0)}}));
  EXPECT_FALSE(
      legal({{writes(x, 1)}, {writes(y, 1)}, {reads(x, 1), reads(y, 0)}, {reads(y, 1), reads(x, 0)}}));
  EXPECT_TRUE(legal({{swaps(x, 2, 1)}, {swaps(x, 0, 2)}, {reads(x, 1)}}));
  EXPECT_FALSE(legal({{swaps(x, 0, 1)}, {swaps(x, 0, 2)}})) << "an update was lost";
  EXPECT_FALSE(
      legal({{writes(x, 1)}, {writes(x, 2)}, {reads(x, 1), reads(x, 2)}, {reads(x, 2), reads(x, 1)}}));
}

}  // namespace

}  // namespace craton::coherence::test
