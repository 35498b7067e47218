/// \file
/// The shared heap on random schedules: threads of simulated ranks allocate, hand each other what they have,
/// and free it. No byte is allocated twice, and who gets memory knows what was written there before. What
/// ranks know of each other's writes is counted (craton::test::Known), not carried by a space.
///
///   CRATON_SIM_SEEDS=5000 ...   schedules
///   CRATON_SIM_SEED=17 ...      this one only, in part 0
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/sim/sim_fabric.hpp"
#include "fabric/sim/world.hpp"
#include "schedules.hpp"
#include "sim_threads.hpp"
#include "space/heap.hpp"

namespace craton::space::test {

namespace {

using fabric::sim::Random;
using fabric::sim::SimFabric;
using fabric::sim::World;
using Writes = craton::test::Known;

constexpr ChunkIndex chunks_most = 120;
constexpr std::array<const char*, 8> heap_counts = {
    "small", "of a quarter of a chunk", "large", "zero", "freed inside", "found", "refused", "all of it"};

/// Of which nothing is ever touched.
std::byte* addresses() {
  static void* const reserved =
      ::mmap(nullptr, chunks_most * heap_chunk_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::byte*>(reserved);
}

class HeapRun {
 public:
  explicit HeapRun(std::uint64_t seed)
      : seed_(seed),
        random_(Random::mix(seed ^ 0x68656170ULL)),
        size_(static_cast<fabric::Rank>(random_.between(2, 4))),
        chunks_(random_.pick(std::array<ChunkIndex, 4>{3, 8, 30, chunks_most})),
        all_are_large_(random_.one_in(4)),
        // Many at a time, so that ranks have chunks to spare.
        in_bursts_(chunks_ == chunks_most && random_.one_in(3)),
        kills_(random_.one_in(8)),
        threads_(random_.between(1, in_bursts_ ? 2 : 3)),
        world_({.size = size_,
                .seed = seed,
                .ranks_per_node = random_.one_in(3) ? fabric::Rank{2} : fabric::Rank{1},
                .agents_serve = agents_serve(seed),
                .stack_bytes = 128 * 1024,
                .kill_one_in = kills_ ? 2000U : 0U}),
        ranks_(size_) {}

  std::string go() {
    for (fabric::Rank rank = 0; rank < size_; ++rank) {
      RankState& here = ranks_[rank];
      here.known = here.published = Writes(size_);
      here.running = threads_;
      here.learning = std::make_unique<RankLearning>(*this, rank);
      here.heap = std::make_unique<Heap>(world_.fabric(rank), *here.learning,
                                         std::span(addresses(), chunks_ * heap_chunk_bytes),
                                         fabric::first_free_handler);
      for (std::uint64_t thread = 0; thread < threads_; ++thread) {
        world_.spawn(rank, [this, rank](SimFabric&) {
          run_thread(rank);
          --ranks_[rank].running;
          notify_all();
        });
      }
      world_.spawn(rank, [this, rank](SimFabric& fabric) {
        const auto is_done = [&](fabric::Rank other) {
          return ranks_[other].running == 0 || !fabric.alive(other);
        };
        static_cast<void>(fabric.wait_until([&] { return all_ranks(is_done); }, no_deadline));
        if (rank == 0) take_all();
        static_cast<void>(fabric.wait_until([&] { return is_over_ || kills_; }, no_deadline));
      });
    }
    const std::string failure = world_.run().failure;
    return failure.empty() ? failure : "seed " + std::to_string(seed_) + ", " + failure;
  }

  Seen seen;

 private:
  class RankLearning final : public Learning {
   public:
    RankLearning(HeapRun& run, fabric::Rank rank) : run_(run), rank_(rank) {}
    void publish() override {
      const Writes known = run_.ranks_[rank_].known;
      run_.world_.preempt();
      run_.ranks_[rank_].published.merge(known);
    }
    void learn(std::vector<fabric::Rank> ranks) override {
      Writes told(run_.size_);
      for (const fabric::Rank rank : ranks) told.merge(run_.ranks_[rank].published);
      for (std::uint64_t i = run_.random_.below(3); i > 0; --i) run_.world_.preempt();
      run_.ranks_[rank_].known.merge(told);
    }
    void learn_from_all() override {
      std::vector<fabric::Rank> all;
      for (fabric::Rank rank = 0; rank < run_.size_; ++rank) all.push_back(rank);
      learn(std::move(all));
    }

   private:
    HeapRun& run_;
    const fabric::Rank rank_;
  };
  struct RankState {
    Writes known, published;
    std::unique_ptr<RankLearning> learning;
    std::unique_ptr<Heap> heap;
    std::uint64_t running = 0;  ///< threads
  };
  struct Allocation {
    std::byte* end;
    Writes writes;         ///< of all who have used it, and what they knew
    bool is_held = false;  ///< by a thread that is about to free it
  };
  struct Freed {
    std::byte* end;
    Writes writes;
  };

  template <typename Holds>
  bool all_ranks(const Holds& holds) const {
    for (fabric::Rank rank = 0; rank < size_; ++rank)
      if (!holds(rank)) return false;
    return true;
  }
  void notify_all() {
    for (fabric::Rank rank = 0; rank < size_; ++rank) world_.fabric(rank).notify();
  }
  void require(bool holds, const char* what) {
    if (!holds) world_.fail(what);
  }

  void run_thread(fabric::Rank rank) {
    const std::uint64_t steps = random_.between(1, in_bursts_ ? 3 : 16);
    try {
      for (std::uint64_t step = 0; step < steps; ++step) {
        world_.preempt();
        // In bursts one rank takes, and others free it.
        const bool takes = in_bursts_ ? (rank == 0) != random_.one_in(6) : random_.one_in(2);
        const std::uint64_t count = in_bursts_ ? random_.between(20, 90) : 1;
        if (in_bursts_ && !takes) world_.compute(random_.below(100'000));
        for (std::uint64_t i = 0; i < count; ++i) {
          if (takes)
            take(rank);
          else
            give(rank);
        }
      }
      while (give(rank)) {
      }
    } catch (const Error& error) {
      require(kills_ && error.code() == ErrorCode::peer_lost, error.what());
    }
  }

  std::size_t some_bytes() {
    if (all_are_large_ || random_.one_in(8)) {
      ++seen["large"];
      const std::size_t chunks = random_.between(1, random_.one_in(4) ? 8 : 2);
      return (chunks - 1) * heap_chunk_bytes + random_.between(heap_chunk_bytes / 4 + 1, heap_chunk_bytes);
    }
    if (in_bursts_ || random_.one_in(2)) {
      ++seen["of a quarter of a chunk"];
      return heap_chunk_bytes / 4 - random_.below(100);
    }
    ++seen["small"];
    return random_.below(300);
  }

  void take(fabric::Rank rank) {
    RankState& here = ranks_[rank];
    const std::size_t bytes = some_bytes();
    Heap::Fresh fresh{};
    try {
      fresh = here.heap->allocate_fresh(bytes);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_resources) throw;
      ++seen["refused"];
      return;
    }
    auto* const begin = static_cast<std::byte*>(fresh.begin);
    std::byte* const end = begin + std::max<std::size_t>(bytes, 1);
    require(begin >= addresses() && end <= addresses() + chunks_ * heap_chunk_bytes, "it is not of the heap");
    require((begin - addresses()) % (bytes >= 64 ? 64 : 16) == 0, "memory is not aligned");
    const auto after = live_.lower_bound(begin);
    const bool is_free = (after == live_.end() || end <= after->first) &&
                         (after == live_.begin() || std::prev(after)->second.end <= begin);
    require(is_free, "memory is allocated twice");
    if (fresh.is_zero) ++seen["zero"];
    require(!fresh.is_zero || !was_used(begin, end), "memory that was used is said to be zero");
    know_former_writes(here.known, begin, end);
    here.known.add(rank);
    live_.insert_or_assign(begin, Allocation{.end = end, .writes = here.known});
  }

  bool was_used(const std::byte* begin, const std::byte* end) const {
    const auto overlaps = [&](const auto& other) { return other.first < end && begin < other.second.end; };
    return std::any_of(freed_.begin(), freed_.end(), overlaps);
  }
  void know_former_writes(const Writes& known, std::byte* begin, std::byte* end) {
    for (auto former = freed_.begin(); former != freed_.end();) {
      if (former->first >= end || former->second.end <= begin) {
        ++former;
        continue;
      }
      require(known.includes(former->second.writes), "a former write is not known");
      if (former->second.end > end) freed_.insert_or_assign(end, former->second);
      if (former->first < begin) {
        former->second.end = begin;
        ++former;
      } else {
        former = freed_.erase(former);
      }
    }
    // That it was used is remembered, though nothing of it need be known any more.
    freed_.insert_or_assign(begin, Freed{.end = end, .writes = Writes(size_)});
  }

  /// Uses and frees some allocation of any rank's. \returns false if there is none that nobody else frees
  bool give(fabric::Rank rank) {
    std::vector<std::byte*> free_ones;
    for (const auto& [begin, allocation] : live_)
      if (!allocation.is_held) free_ones.push_back(begin);
    if (free_ones.empty()) return false;
    std::byte* const begin = free_ones[random_.below(free_ones.size())];
    Allocation& allocation = live_.at(begin);
    allocation.is_held = true;
    RankState& here = ranks_[rank];
    here.known.merge(allocation.writes);
    here.known.add(rank);
    const auto bytes = static_cast<std::size_t>(allocation.end - begin);
    if (random_.one_in(8)) find(here, begin, bytes);
    if (random_.one_in(16) && bytes > 1) free_wrongly(here, begin + random_.between(1, bytes - 1));
    freed_.insert_or_assign(begin, Freed{.end = allocation.end, .writes = here.known});
    live_.erase(begin);
    here.heap->free(begin);
    return true;
  }

  void find(RankState& here, std::byte* begin, std::size_t bytes) {
    ++seen["found"];
    const auto found = here.heap->find(begin + random_.below(bytes));
    require(found.has_value() && found->begin == begin && found->bytes >= bytes,
            "an allocation is not found");
  }

  void free_wrongly(RankState& here, std::byte* inside) {
    ++seen["freed inside"];
    try {
      here.heap->free(inside);
      world_.fail("what lies inside an allocation is freed");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
  }

  /// When all have given all back: where nobody keeps chunks to spare, all of the heap is one run again.
  void take_all() {
    if (all_are_large_ && !kills_) {
      ++seen["all of it"];
      try {
        ranks_[0].heap->free(ranks_[0].heap->allocate(chunks_ * heap_chunk_bytes));
      } catch (const Error& error) {
        world_.fail(error.what());
      }
    }
    is_over_ = true;
    notify_all();
  }

  const std::uint64_t seed_;
  Random random_;
  const fabric::Rank size_;
  const ChunkIndex chunks_;
  const bool all_are_large_, in_bursts_, kills_;
  const std::uint64_t threads_;  ///< of each rank
  World world_;
  std::vector<RankState> ranks_;
  std::map<std::byte*, Allocation> live_;
  std::map<std::byte*, Freed> freed_;  ///< none overlaps another
  bool is_over_ = false;
};

class HeapPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(HeapPrograms, HaveMemoryOfTheirOwn) {
  const Schedules all = run_schedules<HeapRun>(GetParam(), schedules_wanted(40'000, 500));
  expect_names_seen(all, heap_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, HeapPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::space::test
