/// \file
/// What every page table holds, whatever the mechanism.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "base/futex.hpp"
#include "segment_rig.hpp"
#include "vm/thread_scope.hpp"

namespace craton::vm {
namespace {

constexpr std::array accesses = {Access::none, Access::read, Access::write};
const char* text_of(Access access) {
  return access == Access::none ? "none" : access == Access::read ? "read" : "write";
}

class PageTables : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string why_not = missing(GetParam()); !why_not.empty()) GTEST_SKIP() << why_not;
  }
  bool is_kernel() const { return GetParam() != Backend::sim; }
};

std::vector<Run> single_block() {
  return {{.first = 3, .count = 1}};
}
std::vector<Run> one_run() {
  return {{.first = 2, .count = 9}};
}
std::vector<Run> all_blocks() {
  return {{.first = 0, .count = 16}};
}
std::vector<Run> alternating() {
  std::vector<vm::Run> runs;
  for (BlockIndex block = 1; block < 16; block += 2) runs.push_back({.first = block, .count = 1});
  return runs;
}

bool holds(const std::vector<Run>& runs, BlockIndex block) {
  return std::any_of(runs.begin(), runs.end(),
                     [block](const Run& run) { return run.first <= block && block < run.first + run.count; });
}

/// Touches the block and tells whether it faulted. Leaves it as it was.
bool faults(SegmentRig& rig, BlockIndex block, bool write) {
  const std::size_t offset = block * rig.table().block_bytes();
  const Access before = rig.table().access(block);
  const int reads = rig.handler().reads;
  const int writes = rig.handler().writes;
  if (write) {
    rig.store(offset, rig.word(offset));
  } else {
    EXPECT_EQ(rig.load(offset), rig.word(offset));
  }
  const bool faulted = (write ? rig.handler().writes - writes : rig.handler().reads - reads) != 0;
  EXPECT_EQ(rig.faults() - reads - writes, faulted ? 1 : 0)
      << "block " << block << ": of the other kind, or twice";
  rig.table().set_access(block, before);
  return faulted;
}

TEST_P(PageTables, EachTransitionAllowsExactlyWhatItSays) {
  for (const std::size_t block_bytes : {page_bytes, 4 * page_bytes}) {
    SegmentRig rig(GetParam(), 16, block_bytes);
    for (const auto& runs : {single_block(), one_run(), all_blocks(), alternating()}) {
      for (const Access outside : accesses) {
        for (const Access from : accesses) {
          for (const Access to : accesses) {
            const vm::Run all{.first = 0, .count = 16};
            rig.table().set_access({&all, 1}, outside);
            rig.table().set_access(runs, from);
            rig.table().set_access(runs, to);
            for (BlockIndex block = 0; block < 16; ++block) {
              const Access expected = holds(runs, block) ? to : outside;
              ASSERT_EQ(rig.table().access(block), expected);
              rig.word(block * block_bytes) += 1;
              ASSERT_EQ(faults(rig, block, false), expected == Access::none)
                  << "read of block " << block << ", " << text_of(from) << " to " << text_of(to);
              ASSERT_EQ(faults(rig, block, true), expected != Access::write)
                  << "write to block " << block << ", " << text_of(from) << " to " << text_of(to);
            }
          }
        }
      }
    }
  }
}

TEST_P(PageTables, EveryPageOfABlockFollows) {
  SegmentRig rig(GetParam(), 4, 8 * page_bytes);
  for (const Access to : {Access::read, Access::write, Access::read, Access::none}) {
    rig.table().set_access(2, to);
    for (std::size_t page = 0; page < 8; ++page) {
      const std::size_t offset = (2 * 8 + page) * page_bytes + 8;
      const int before = rig.faults();
      static_cast<void>(rig.load(offset));
      EXPECT_EQ(rig.faults() - before, to == Access::none ? 1 : 0) << "page " << page;
      rig.table().set_access(2, to);
      const int writes = rig.handler().writes;
      rig.store(offset, page);
      EXPECT_EQ(rig.handler().writes - writes, to == Access::write ? 0 : 1) << "page " << page;
      EXPECT_EQ(rig.word(offset), page);
      rig.table().set_access(2, to);
    }
  }
}

TEST_P(PageTables, HolesAreNotFilledBeforeSomebodyIsTold) {
  SegmentRig rig(GetParam(), 8);
  for (BlockIndex block = 0; block < 8; ++block) EXPECT_TRUE(faults(rig, block, block % 2 == 0)) << block;
  // Half of a run is there, half was never touched.
  const vm::Run half{.first = 0, .count = 8};
  rig.word(3 * page_bytes) = 33;
  rig.table().set_access({&half, 1}, Access::read);
  EXPECT_EQ(rig.load(3 * page_bytes), 33U);
  EXPECT_EQ(rig.load(7 * page_bytes), 0U);
}

TEST_P(PageTables, HolesBetweenWhatIsThereOpenForWriting) {
  constexpr std::size_t pages_a_block = 4;
  SegmentRig rig(GetParam(), 4, pages_a_block * page_bytes);
  const std::array<std::size_t, 4> there{2, 3, 9, 15};  // pages of all blocks
  for (const std::size_t page : there) rig.word(page * page_bytes) = page;
  const vm::Run all{.first = 0, .count = 4};
  rig.table().set_access({&all, 1}, Access::write);
  for (std::size_t page = 0; page < 4 * pages_a_block; ++page) {
    const bool is_there = std::find(there.begin(), there.end(), page) != there.end();
    EXPECT_EQ(rig.load(page * page_bytes), is_there ? page : 0U);
    rig.store(page * page_bytes + 8, page + 1);
    EXPECT_EQ(rig.word(page * page_bytes + 8), page + 1) << "the views are of different pages: " << page;
  }
  EXPECT_EQ(rig.faults(), 0);
}

TEST_P(PageTables, RandomSequencesFollowAModel) {
  constexpr std::uint64_t blocks = 64;
  SegmentRig rig(GetParam(), blocks);
  std::vector<Access> access(blocks, Access::none);
  std::vector<std::uint64_t> bytes(blocks, 0);
  const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
  std::mt19937 random(seed == 0 ? 12345 : seed);
  const auto below = [&random](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  const int steps = is_kernel() ? 3000 : 20000;
  for (int step = 0; step < steps; ++step) {
    const BlockIndex block = below(blocks);
    const std::size_t offset = block * page_bytes + 16;
    const int reads = rig.handler().reads;
    const int writes = rig.handler().writes;
    switch (below(4)) {
      case 0: {
        std::vector<vm::Run> runs;
        for (BlockIndex at = below(8); at < blocks; at += 2 + below(12)) {
          const std::uint64_t count = std::min<std::uint64_t>(1 + below(6), blocks - at);
          runs.push_back({.first = at, .count = count});
          at += count;
        }
        const Access to = accesses[below(3)];
        rig.table().set_access(runs, to);
        for (const vm::Run& run : runs)
          std::fill_n(access.begin() + static_cast<long>(run.first), run.count, to);
        break;
      }
      case 1:  // the runtime fills a block
        bytes[block] = rig.word(offset) = random();
        break;
      case 2:
        ASSERT_EQ(rig.load(offset), bytes[block]) << "step " << step;
        ASSERT_EQ(rig.handler().reads - reads, access[block] == Access::none ? 1 : 0) << "step " << step;
        ASSERT_EQ(rig.handler().writes, writes) << "step " << step;
        access[block] = std::max(access[block], Access::read);
        break;
      default:
        bytes[block] = random();
        rig.store(offset, bytes[block]);
        ASSERT_EQ(rig.handler().writes - writes, access[block] == Access::write ? 0 : 1) << "step " << step;
        ASSERT_EQ(rig.handler().reads, reads) << "step " << step;
        access[block] = Access::write;
        ASSERT_EQ(rig.word(offset), bytes[block]) << "step " << step;
    }
    for (BlockIndex each = 0; each < blocks; ++each) ASSERT_EQ(rig.table().access(each), access[each]);
  }
}

INSTANTIATE_TEST_SUITE_P(Holds, PageTables,
                         testing::Values(Backend::userfaultfd, Backend::userfaultfd_old, Backend::mprotect,
                                         Backend::sim),
                         [](const auto& backend) { return name_of(backend.param); });

// ---- Those of the kernel, with threads

class ViewPageTables : public PageTables {};

TEST_P(ViewPageTables, ThreadsFaultOnTheSameAndOnDifferentBlocks) {
  constexpr std::uint64_t blocks = 64;
  constexpr int threads = 4;
  constexpr int rounds = 10;
  SegmentRig rig(GetParam(), blocks);
  for (int round = 0; round < rounds; ++round) {
    const vm::Run all{.first = 0, .count = blocks};
    rig.table().set_access({&all, 1}, Access::none);
    std::vector<std::thread> running;
    for (std::size_t thread = 0; thread < threads; ++thread) {
      running.emplace_back([&rig, thread] {
        const ThreadScope scope;
        for (std::size_t i = 0; i < blocks; ++i) {
          const std::size_t shared = i * page_bytes;
          static_cast<void>(rig.load(shared));
          rig.store(shared + 8 * (thread + 1), i);
          const std::size_t own = (i * threads + thread) % blocks * page_bytes;
          rig.store(own + 64 + 8 * thread, i);
        }
      });
    }
    for (auto& each : running) each.join();
    for (std::size_t thread = 0; thread < threads; ++thread)
      for (std::size_t i = 0; i < blocks; ++i) ASSERT_EQ(rig.word(i * page_bytes + 8 * (thread + 1)), i);
    for (BlockIndex block = 0; block < blocks; ++block) ASSERT_EQ(rig.table().access(block), Access::write);
  }
}

/// Lets nobody through while it is closed.
class Gate final : public FaultHandler {
 public:
  void fault(BlockIndex /*block*/, bool /*write*/) override {
    ++waiting;
    while (closed.load(std::memory_order_acquire)) std::this_thread::yield();
    --waiting;
  }
  std::atomic<bool> closed{false};
  std::atomic<int> waiting{0};
};

TEST_P(ViewPageTables, NoStoreArrivesOnceWritingIsTakenAway) {
  Gate gate;
  SegmentRig rig(GetParam(), 4, page_bytes, &gate);
  constexpr BlockIndex block = 1;
  constexpr std::size_t words = 16;
  rig.table().set_access(block, Access::write);
  std::atomic<bool> stop{false};
  std::thread writer([&rig, &stop] {
    const ThreadScope scope;
    for (std::uint64_t i = 1; !stop.load(std::memory_order_relaxed); ++i)
      for (std::size_t word = 0; word < words; ++word) rig.store(block * page_bytes + 8 * word, i);
  });
  const auto look = [&rig] {
    std::array<std::uint64_t, words> seen{};
    for (std::size_t word = 0; word < words; ++word)
      seen[word] = *const_cast<volatile std::uint64_t*>(&rig.word(block * page_bytes + 8 * word));
    return seen;
  };
#if defined(CRATON_FIBER_SANITIZED)
  constexpr int rounds = 300;
#else
  constexpr int rounds = 3000;
#endif
  // On busy cores each round takes as long as the writer waits for its turn.
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  for (int round = 0; round < rounds && (round < 64 || std::chrono::steady_clock::now() < until); ++round) {
    const Access to = round % 2 == 0 ? Access::none : Access::read;
    gate.closed.store(true);
    rig.table().set_access(block, to);
    const auto seen = look();
    // While a page is opened for reading, there must be no moment in which it can be written.
    if (to == Access::none && round % 4 == 0) rig.table().set_access(block, Access::read);
    for (int i = 0; i < 50; ++i) spin_pause();
    if (round % 16 == 0) std::this_thread::yield();
    EXPECT_EQ(look(), seen) << "round " << round;
    rig.table().set_access(block, Access::write);
    gate.closed.store(false);
    // Else the next round would show nothing.
    while (look() == seen) std::this_thread::yield();
  }
  stop.store(true);
  writer.join();
}

/// Lets the thread try again at once, and opens nothing.
class Insisting final : public FaultHandler {
 public:
  void fault(BlockIndex /*block*/, bool /*write*/) override { ++tries; }
  std::atomic<int> tries{0};
};

/// userfaultfd maps blocks of many pages anew to open them for writing.
TEST_P(ViewPageTables, WhoReadsABlockGoesOnReadingWhileItIsOpenedForWriting) {
  Insisting handler;
  constexpr std::size_t pages = 16;
  SegmentRig rig(GetParam(), 2, pages * page_bytes, &handler);
  for (std::size_t page = 0; page < pages; ++page) rig.word(page * page_bytes) = 7;
  rig.table().set_access(0, Access::read);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<std::uint64_t> reads{0};
  std::thread reader([&] {
    const ThreadScope scope;
    for (std::size_t page = 0; !stop.load(std::memory_order_relaxed); page = (page + 1) % pages) {
      if (rig.load(page * page_bytes) != 7) ++wrong;
      ++reads;
    }
  });
  while (reads.load() < pages) std::this_thread::yield();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (int round = 0; round < 4000 && (round < 64 || std::chrono::steady_clock::now() < until); ++round) {
    rig.table().set_access(0, Access::write);
    rig.store(8, static_cast<std::uint64_t>(round));  // it is open
    rig.table().set_access(0, Access::read);
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(rig.word(0), 7U);
}

TEST_P(ViewPageTables, NoStoreSlipsInWhileABlockIsOpenedForReading) {
  Insisting handler;
  SegmentRig rig(GetParam(), 2, page_bytes, &handler);
  std::atomic<bool> stop{false};
  std::thread writer([&rig, &stop] {
    const ThreadScope scope;
    rig.store(0, 1);  // comes through when it is over
    stop.store(true);
  });
  while (handler.tries.load() == 0) std::this_thread::yield();
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (int round = 0; round < 4000 && (round < 64 || std::chrono::steady_clock::now() < until); ++round) {
    rig.table().set_access(0, Access::none);
    for (int i = 0; i < round % 64; ++i) spin_pause();
    rig.table().set_access(0, Access::read);
    if (stop.load()) break;
  }
  EXPECT_FALSE(stop.load()) << "a store came through";
  EXPECT_EQ(rig.word(0), 0U);
  rig.table().set_access(0, Access::write);
  writer.join();
  EXPECT_EQ(rig.word(0), 1U);
}

/// Reclaim, as far as one can do it by hand: the entries go, the states stay.
TEST_P(ViewPageTables, WhatTheKernelDroppedIsReinstated) {
  SegmentRig rig(GetParam(), 4);
  rig.word(0) = 5;
  rig.table().set_access(0, Access::read);
  rig.table().set_access(1, Access::write);
  ASSERT_EQ(madvise(rig.application_view(), 4 * page_bytes, MADV_DONTNEED), 0);
  EXPECT_EQ(rig.load(0), 5U);
  rig.store(page_bytes, 6);
  EXPECT_EQ(rig.word(page_bytes), 6U);
  EXPECT_EQ(rig.faults(), 0) << "the handler is called for what is not allowed only";
  EXPECT_TRUE(faults(rig, 0, true)) << "what was for reading only is so again";
}

TEST_P(ViewPageTables, OnePageOfABlockIsReinstatedBetweenOthers) {
  SegmentRig rig(GetParam(), 2, 4 * page_bytes);
  for (const Access access : {Access::read, Access::write}) {
    rig.table().set_access(0, access);
    rig.word(2 * page_bytes) = 8;
    ASSERT_EQ(madvise(rig.application_view() + 2 * page_bytes, page_bytes, MADV_DONTNEED), 0);
    EXPECT_EQ(rig.load(2 * page_bytes), 8U);
    EXPECT_EQ(rig.faults(), 0);
  }
}

TEST_P(ViewPageTables, BlocksMayLieInSeveralMappings) {
  // As they do once a program has asked the kernel for something for pages in the middle of them.
  constexpr std::size_t pages = 32;
  SegmentRig rig(GetParam(), 4, 8 * page_bytes);
  const std::size_t maps_before = count_maps();
  for (const std::size_t page : {3U, 13U, 14U, 31U})
    ASSERT_EQ(::madvise(rig.application_view() + page * page_bytes, page_bytes, MADV_RANDOM), 0);
  ASSERT_GT(count_maps(), maps_before + 3) << "nothing was split";
  const vm::Run all{.first = 0, .count = 4};
  for (const std::size_t page : {2U, 12U, 13U, 30U}) rig.word(page * page_bytes) = page;  // others are holes
  for (const Access to : {Access::read, Access::write, Access::read, Access::none, Access::write}) {
    rig.table().set_access({&all, 1}, to);
    const int before = rig.faults();
    for (std::size_t page = 0; page < pages; ++page) {
      if (to == Access::none) break;
      static_cast<void>(rig.load(page * page_bytes));
      if (to == Access::write) rig.store(page * page_bytes + 8, page);
    }
    EXPECT_EQ(rig.faults(), before) << text_of(to);
    for (std::size_t page = 0; page < pages && to != Access::write; ++page) {
      const int writes = rig.handler().writes;
      rig.store(page * page_bytes + 16, page + 1);
      EXPECT_EQ(rig.handler().writes, writes + 1) << "page " << page << ", " << text_of(to);
      EXPECT_EQ(rig.word(page * page_bytes + 16), page + 1);
      rig.table().set_access(page / 8, to);
    }
  }
  for (const std::size_t page : {2U, 12U, 13U, 30U}) EXPECT_EQ(rig.load(page * page_bytes), page);
}

INSTANTIATE_TEST_SUITE_P(Holds, ViewPageTables,
                         testing::Values(Backend::userfaultfd, Backend::userfaultfd_old, Backend::mprotect),
                         [](const auto& backend) { return name_of(backend.param); });

// ---- sim alone

TEST(SimPageTable, LosesItsTurnBetweenWordsOnly) {
  AllowingHandler handler;
  std::vector<std::uint64_t> memory(64);
  SimPageTable table(reinterpret_cast<std::byte*>(memory.data()), 64, 8);
  handler.table = &table;
  table.set_fault_handler(handler);
  int turns = 0;
  // Before each word somebody takes the block away.
  table.set_preemption_hook([&] {
    ++turns;
    table.set_access(0, Access::none);
    table.set_access(1, Access::none);
  });
  std::array<std::byte, 40> bytes{};
  bytes.fill(std::byte{7});
  table.store(44, bytes);  // 4 bytes, 4 words, 4 bytes; a border between blocks inside
  EXPECT_EQ(turns, 6);
  EXPECT_EQ(table.faults(), 6U);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(memory.data())[44], 7);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(memory.data())[83], 7);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(memory.data())[84], 0);
  EXPECT_EQ(table.update<std::uint64_t>(8, [](std::uint64_t value) { return value + 3; }), 0U);
  EXPECT_EQ(memory[1], 3U);
}

/// Opens at the second call.
class Hesitating final : public FaultHandler {
 public:
  explicit Hesitating(PageTable& table) : table_(table) {}
  void fault(BlockIndex block, bool /*write*/) override {
    if (++calls % 2 == 0) table_.set_access(block, Access::write);
  }
  int calls = 0;

 private:
  PageTable& table_;
};

TEST(SimPageTable, TriesAgainUntilTheAccessIsAllowed) {
  std::vector<std::uint64_t> memory(64);
  SimPageTable table(reinterpret_cast<std::byte*>(memory.data()), 64, 8);
  Hesitating handler(table);
  table.set_fault_handler(handler);
  table.store<std::uint64_t>(0, 7);
  EXPECT_EQ(handler.calls, 2);
  EXPECT_EQ(table.access(0), Access::write);
  EXPECT_EQ(memory[0], 7U);
}

TEST(SimPageTable, WithoutAHookABlockIsCopiedAtOnce) {
  AllowingHandler handler;
  std::vector<std::uint64_t> memory(64);
  SimPageTable table(reinterpret_cast<std::byte*>(memory.data()), 64, 8);
  handler.table = &table;
  table.set_fault_handler(handler);
  std::array<std::byte, 200> bytes{};
  table.load(60, bytes);  // blocks 0 to 4
  EXPECT_EQ(table.faults(), 5U);
  table.load(60, bytes);
  EXPECT_EQ(table.faults(), 5U);
}

}  // namespace
}  // namespace craton::vm
