/// \file
/// The shared heap: its accounts alone, and with ranks that free each other's memory.
#include "space/heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "space_ranks.hpp"

namespace craton::space::test {

namespace {

using fabric::Rank;

// ---- The runs that rank 0 keeps

TEST(HeapRuns, NoChunkBelongsToTwo) {
  constexpr ChunkIndex chunks = 200;
  HeapRuns runs(chunks);
  std::vector<Rank> owner_of(chunks, 0);  // plus 1
  std::vector<ChunkRun> taken;
  std::mt19937 random(1);
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0 || taken.empty()) {
      const auto count = static_cast<ChunkIndex>(1 + random() % 9);
      const auto owner = static_cast<Rank>(random() % 5);
      const auto first = runs.take(count, owner);
      if (!first.has_value()) continue;
      for (ChunkIndex chunk = *first; chunk < *first + count; ++chunk) {
        ASSERT_LT(chunk, chunks);
        ASSERT_EQ(owner_of[chunk], 0U) << "chunk " << chunk << " in step " << step;
        owner_of[chunk] = owner + 1;
        ASSERT_EQ(runs.owner(chunk), owner);
      }
      taken.push_back({.first = *first, .chunks = count});
    } else {
      const std::size_t which = random() % taken.size();
      const ChunkRun run = taken[which];
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
      runs.give(run, 7);
      for (ChunkIndex chunk = run.first; chunk < run.first + run.chunks; ++chunk) {
        owner_of[chunk] = 0;
        ASSERT_EQ(runs.owner(chunk), std::nullopt);
      }
      ASSERT_EQ(runs.givers(run), std::vector<Rank>{7});
    }
  }
  for (const ChunkRun& run : taken) runs.give(run, 7);
  EXPECT_EQ(runs.take(chunks, 0), ChunkIndex{0}) << "free runs that touch did not become one";
  EXPECT_EQ(runs.take(1, 0), std::nullopt);
}

TEST(HeapRuns, TellsEachGiverOnce) {
  HeapRuns runs(4);
  ASSERT_EQ(runs.take(4, 0), ChunkIndex{0});
  runs.give({.first = 0, .chunks = 1}, 3);
  runs.give({.first = 2, .chunks = 2}, 3);
  runs.give({.first = 1, .chunks = 1}, 5);
  EXPECT_EQ(runs.givers({.first = 0, .chunks = 4}), (std::vector<Rank>{3, 5}));
}

// ---- The chunks of one rank

TEST(HeapRuns, HaveOneBudget) {
  HeapBudget budget;
  HeapRuns small(8);
  HeapRuns large(8);
  small.set_budget(budget);
  large.set_budget(budget);
  EXPECT_EQ(small.take(2, 0), 0U);
  budget.limit(5 * heap_chunk_bytes);
  EXPECT_EQ(large.take(4, 1), std::nullopt);
  EXPECT_EQ(large.take(3, 1), 0U);
  EXPECT_EQ(small.take(1, 0), std::nullopt);
  budget.limit(heap_chunk_bytes);  // less than is taken
  large.give({.first = 1, .chunks = 2}, 1);
  EXPECT_EQ(large.take(1, 1), std::nullopt);
  budget.limit(4 * heap_chunk_bytes);
  EXPECT_EQ(small.take(1, 0), 2U);
  budget.limit(HeapBudget::unlimited_bytes);
  EXPECT_EQ(large.take(7, 1), 1U);
}

TEST(HeapChunks, NoByteIsAllocatedTwice) {
  constexpr ChunkIndex chunks = 64;
  HeapChunks heap(chunks, 0, 2);
  ChunkIndex next = 0;
  std::map<std::uint64_t, std::size_t> live;  // offset, bytes
  std::mt19937 random(2);
  for (int step = 0; step < 40000; ++step) {
    if (random() % 5 < 3 || live.empty()) {
      const std::size_t bytes =
          random() % 20 == 0 ? 1 + random() % HeapChunks::slot_bytes_most : 1 + random() % 300;
      auto slot = heap.take_slot(bytes);
      if (!slot.has_value()) {
        if (next == chunks) continue;
        heap.add_chunk(next++);
        slot = heap.take_slot(bytes);
        ASSERT_TRUE(slot.has_value());
      }
      ASSERT_EQ(slot->offset % (bytes >= 64 ? 64 : 16), 0U) << bytes << " bytes";
      ASSERT_EQ(slot->offset / heap_chunk_bytes, (slot->offset + bytes - 1) / heap_chunk_bytes);
      const auto after = live.lower_bound(slot->offset);
      if (after != live.end()) {
        ASSERT_LE(slot->offset + bytes, after->first) << "overlap in step " << step;
      }
      if (after != live.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, slot->offset) << "overlap in step " << step;
      }
      ASSERT_GE(heap.find(slot->offset).bytes, bytes);
      live.emplace(slot->offset, bytes);
    } else {
      auto victim = live.lower_bound(random() % (next * heap_chunk_bytes));
      if (victim == live.end()) victim = live.begin();
      const auto [offset, bytes] = *victim;
      live.erase(victim);
      if (bytes > 1) {
        ASSERT_EQ(heap.free(offset + 1, 0).finding, HeapFinding::inside);
      }
      ASSERT_EQ(heap.free(offset, static_cast<Rank>(random() % 2)).finding, HeapFinding::found);
      ASSERT_EQ(heap.free(offset, 0).finding, HeapFinding::no_longer);
    }
  }
  for (const auto& [offset, bytes] : live) ASSERT_EQ(heap.free(offset, 0).finding, HeapFinding::found);
}

TEST(HeapChunks, GivesBackAllButAFew) {
  constexpr ChunkIndex chunks = 40;
  HeapChunks heap(chunks, 0, 2);
  for (ChunkIndex chunk = 0; chunk < chunks; ++chunk) heap.add_chunk(chunk);
  std::vector<std::uint64_t> taken;
  while (const auto slot = heap.take_slot(HeapChunks::slot_bytes_most)) taken.push_back(slot->offset);
  EXPECT_EQ(taken.size(), 4 * chunks);
  EXPECT_TRUE(heap.take_spares(0).empty());
  for (const std::uint64_t offset : taken) ASSERT_EQ(heap.free(offset, 0).finding, HeapFinding::found);
  EXPECT_EQ(heap.take_spares(16).size(), chunks - 16 - 1);  // 16 for any size, and one of this size
  EXPECT_EQ(heap.take_spares(0).size(), 16U);
}

TEST(HeapChunks, WhatOthersHaveFreedNeedsNoOwnerToComeBack) {
  constexpr ChunkIndex chunks = 40;
  constexpr std::size_t slots = 4;
  HeapChunks heap(chunks, 0, 4);
  for (ChunkIndex chunk = 0; chunk < chunks; ++chunk) heap.add_chunk(chunk);
  std::vector<std::uint64_t> taken;
  while (const auto slot = heap.take_slot(HeapChunks::slot_bytes_most)) taken.push_back(slot->offset);
  std::vector<HeapChunks::Freed> given;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::size_t chunk = i / slots;
    // In the last few the owner has freed something, in every other one before them two ranks have.
    const std::size_t other = chunk % 2 == 0 ? 1 : 2 + i % 2;
    const auto by = static_cast<Rank>(chunk >= 35 && i % slots == 0 ? 0 : other);
    const HeapChunks::Freed freed = heap.free(taken[i], by);
    ASSERT_EQ(freed.finding, HeapFinding::found);
    if (freed.run.has_value()) given.push_back(freed);
  }
  EXPECT_EQ(given.size(), 35U - 16 - 1);
  for (const HeapChunks::Freed& freed : given) {
    EXPECT_EQ(freed.run->chunks, 1U);
    EXPECT_EQ(freed.giver, taken[0] / heap_chunk_bytes % 2 == freed.run->first % 2 ? 1 : every_rank);
  }
  EXPECT_EQ(heap.take_spares(16).size(), 5U) << "which only the owner can publish";
}

TEST(HeapChunks, LargeAllocationsGiveTheirRunBack) {
  HeapChunks heap(8, 0, 2);
  heap.add_large({.first = 2, .chunks = 3}, 150000);
  const std::uint64_t begin = 2 * heap_chunk_bytes;
  EXPECT_EQ(heap.find(begin).bytes, 150000U);
  EXPECT_EQ(heap.find(begin + 140000).finding, HeapFinding::inside);
  EXPECT_EQ(heap.find(begin + 140000).offset, begin);
  EXPECT_EQ(heap.free(begin + heap_chunk_bytes, 0).finding, HeapFinding::inside);
  EXPECT_EQ(heap.free(5 * heap_chunk_bytes, 0).finding, HeapFinding::elsewhere);
  const HeapChunks::Freed freed = heap.free(begin, 1);
  ASSERT_TRUE(freed.run.has_value());
  EXPECT_EQ(freed.run->first, 2U);
  EXPECT_EQ(freed.run->chunks, 3U);
  EXPECT_EQ(heap.free(begin, 0).finding, HeapFinding::elsewhere);
  const HeapChunks::Freers freers = heap.take_freers();
  EXPECT_EQ(freers.frees, 1U);
  EXPECT_EQ(freers.ranks, std::vector<Rank>{1});
  EXPECT_TRUE(heap.take_freers().ranks.empty());
}

// ---- Ranks

constexpr std::size_t heap_bytes = 128 * heap_chunk_bytes;

/// Never destroyed: messages of other ranks may come until the fabric ends.
Heap& make_heap(RankSpace& rank) {
  SegmentOptions options;
  options.name = "heap";
  options.bytes = heap_bytes;
  Segment& segment = rank.space.create_segment(options);
  static Heap* heap = nullptr;
  heap = new Heap(rank.fabric, rank.space, segment,
                  static_cast<fabric::HandlerId>(fabric::first_free_handler + SpaceOptions::handlers));
  rank.space.barrier().wait();
  return *heap;
}

/// \returns the code of the error, or 0 if there was none
template <typename Action>
int code_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return static_cast<int>(error.code());
  }
  return 0;
}
constexpr int invalid = static_cast<int>(ErrorCode::invalid_argument);

/// What a test knows of an allocation; may lie in shared memory.
struct Known {
  std::uint8_t* bytes;
  std::size_t count;
  std::uint32_t seed;
};

std::uint8_t pattern(std::uint32_t seed, std::size_t i) {
  return static_cast<std::uint8_t>((seed + i * 7) * 0x9e3779b1U >> 24U);
}

void fill(const Known& known) {
  for (std::size_t i = 0; i < known.count; ++i) known.bytes[i] = pattern(known.seed, i);
}

void check(RankSpace& rank, const Known& known) {
  for (std::size_t i = 0; i < known.count; ++i) {
    const unsigned found = known.bytes[i];
    if (found == pattern(known.seed, i)) continue;
    rank.check(false, "byte " + std::to_string(i) + " of " + std::to_string(known.count) + " is " +
                          std::to_string(found) + " instead of " + std::to_string(pattern(known.seed, i)));
  }
}

bool is_zero(const std::uint8_t* bytes, std::size_t count) {
  return std::all_of(bytes, bytes + count, [](std::uint8_t byte) { return byte == 0; });
}

/// Writes over it first: what a freer wrote last must not come back under the next owner's bytes.
void scribble_and_free(Heap& heap, const Known& known) {
  for (std::size_t i = 0; i < known.count; i += 5) known.bytes[i] = 0xee;
  heap.free(known.bytes);
}

// Threads of all ranks allocate, fill, hand each other what they have, check it and free it.
void memory_is_nobody_elses(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  constexpr std::size_t places = 6;
  constexpr unsigned threads = 2;
  constexpr unsigned steps = 150;
  Segment& segment =
      rank.space.create_segment({.name = "places", .bytes = places * 4096, .initial_homes = {}, .dials = {}});
  const auto place = [&](std::size_t i) -> Known& {
    return *reinterpret_cast<Known*>(segment.data() + i * 4096);
  };
  std::uint64_t allocated = 0;
  std::mutex allocated_lock;
  rank.run_threads(threads, [&](unsigned thread) {
    std::mt19937 random(1 + rank.rank() * threads + thread);
    std::vector<Known> own;
    std::uint64_t allocated_here = 0;
    for (unsigned step = 0; step < steps; ++step) {
      if (random() % 3 != 0 && own.size() < 12) {
        const unsigned kind = random() % 16;
        const std::size_t count = kind == 0   ? 1 + random() % 150000
                                  : kind <= 3 ? 1 + random() % 9000
                                              : 1 + random() % 250;
        Heap::Fresh memory{};
        if (code_of([&] { memory = heap.allocate_fresh(count); }) != 0) continue;  // full
        auto* const bytes = static_cast<std::uint8_t*>(memory.begin);
        if (memory.is_zero) rank.check(is_zero(bytes, count), "what nobody has had is not zero");
        own.push_back({.bytes = bytes, .count = count, .seed = static_cast<std::uint32_t>(random())});
        fill(own.back());
        allocated_here += count;
      } else if (!own.empty()) {
        const std::size_t which = random() % own.size();
        const Known mine = own[which];
        own.erase(own.begin() + static_cast<std::ptrdiff_t>(which));
        check(rank, mine);
        if (random() % 3 == 0) {
          scribble_and_free(heap, mine);
          continue;
        }
        const auto where = static_cast<MutexId>(random() % places);
        rank.space.mutexes().lock(where);
        const Known others = place(where);
        place(where) = mine;
        rank.space.mutexes().unlock(where);
        if (others.bytes == nullptr) continue;
        check(rank, others);
        scribble_and_free(heap, others);
      }
    }
    for (const Known& mine : own) {
      check(rank, mine);
      scribble_and_free(heap, mine);
    }
    const std::lock_guard lock(allocated_lock);
    allocated += allocated_here;
  });
  rank.space.barrier().wait();
  // What is still handed about is freed by the ranks in turn.
  for (std::size_t i = rank.rank(); i < places; i += rank.size()) {
    if (place(i).bytes == nullptr) continue;
    check(rank, place(i));
    const Known known = place(i);
    heap.free(known.bytes);
    rank.check(code_of([&] { heap.free(known.bytes); }) == invalid, "freed twice, without an error");
  }
  rank.space.barrier().wait();
  rank.check(allocated > 0, "nothing was allocated");
}

/// Of large ones a byte in every fourth block does.
std::size_t step(std::size_t count) {
  return count > 4096 ? 16381 : 1;
}

// One object after the other through the same addresses, freed by another rank than the one that writes it.
// The large ones are more together than the heap has.
void freed_bytes_do_not_come_back(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  Segment& segment =
      rank.space.create_segment({.name = "mail", .bytes = 4096, .initial_homes = {}, .dials = {}});
  auto& mail = *reinterpret_cast<Known*>(segment.data());
  std::vector<std::uint8_t*> addresses;
  std::size_t reused = 0;
  for (unsigned round = 0; round < 40; ++round) {
    if (rank.rank() == 0) {
      mail.count = round % 4 == 3 ? 1000000 : 128;
      mail.bytes = static_cast<std::uint8_t*>(heap.allocate(mail.count));
      mail.seed = round;
      if (std::find(addresses.begin(), addresses.end(), mail.bytes) != addresses.end()) ++reused;
      addresses.push_back(mail.bytes);
      for (std::size_t i = 0; i < mail.count; i += step(mail.count))
        mail.bytes[i] = 0;  // what a stale copy may hold as well
    }
    rank.space.barrier().wait();
    if (rank.rank() == 1 + round % (rank.size() - 1)) {
      for (std::size_t i = 0; i < mail.count; i += step(mail.count))
        rank.check(mail.bytes[i] == 0, "byte " + std::to_string(i) + " of round " + std::to_string(round) +
                                           " is " + std::to_string(mail.bytes[i]) + " instead of 0");
      for (std::size_t i = 0; i < mail.count; i += step(mail.count)) mail.bytes[i] = 0xee;
      heap.free(mail.bytes);
    }
    if (rank.rank() == 0) {
      // Until the slot is free again here, without any synchronisation of the space.
      while (heap.find(mail.bytes).has_value()) std::this_thread::yield();
      auto* const again = static_cast<std::uint8_t*>(heap.allocate(mail.count));
      if (again == mail.bytes) ++reused;
      for (std::size_t i = 0; i < mail.count; i += step(mail.count))
        again[i] = 0;  // as the stale copy has it
      mail.bytes = again;
    }
    rank.space.barrier().wait();
    for (std::size_t i = 0; i < mail.count; i += step(mail.count))
      rank.check(mail.bytes[i] == 0, "a freed byte came back as " + std::to_string(mail.bytes[i]));
    rank.space.barrier().wait();
    if (rank.rank() == 0) heap.free(mail.bytes);
  }
  if (rank.rank() == 0)
    rank.check(reused > 30, "only " + std::to_string(reused) + " addresses were used again");
}

void wrong_frees_are_errors(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  Segment& segment =
      rank.space.create_segment({.name = "mail", .bytes = 4096, .initial_homes = {}, .dials = {}});
  auto* const mail = reinterpret_cast<std::uint8_t**>(segment.data());
  if (rank.rank() == 0) {
    mail[0] = static_cast<std::uint8_t*>(heap.allocate(100));
    mail[1] = static_cast<std::uint8_t*>(heap.allocate(200000));
  }
  rank.space.barrier().wait();
  const auto refused = [&](void* pointer, const char* what) {
    rank.check(code_of([&] { heap.free(pointer); }) == invalid, what);
  };
  int local = 0;
  refused(&local, "freed a variable");
  refused(segment.data(), "freed a place of another segment");
  refused(mail[0] + 8, "freed the middle of a small allocation");
  refused(mail[1] + heap_chunk_bytes, "freed the middle of a large allocation");
  const std::byte* const first =
      reinterpret_cast<std::byte*>(mail[0]) - reinterpret_cast<std::uintptr_t>(mail[0]) % heap_chunk_bytes;
  refused(const_cast<std::byte*>(first) + 100 * heap_chunk_bytes, "freed a chunk that nobody has");
  for (unsigned i = 0; i < 2; ++i) {
    const auto found = heap.find(mail[i] + 77);
    rank.check(found.has_value() && found->begin == reinterpret_cast<std::byte*>(mail[i]),
               "find() does not find");
    rank.check(found->bytes >= (i == 0 ? 100 : 200000), "find() finds too few bytes");
  }
  rank.space.barrier().wait();
  if (rank.rank() == 1) {
    heap.free(mail[0]);
    heap.free(mail[1]);
  }
  rank.space.barrier().wait();
  refused(mail[0], "freed a small allocation twice");
  refused(mail[1], "freed a large allocation twice");
  rank.check(!heap.find(mail[0]).has_value(), "find() finds what is free");
  rank.space.barrier().wait();
}

void full_heap_is_an_error_and_empties(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  std::string text;
  try {
    heap.allocate(heap_bytes + 1);
  } catch (const Error& error) {
    text = error.what();
    rank.check(error.code() == ErrorCode::out_of_resources, "another code");
  }
  rank.check(text.find("--heap-bytes") != std::string::npos, "no remedy: " + text);
  rank.check(code_of([&] { heap.allocate(~std::size_t{0}); }) != 0, "allocated 2^64 bytes");
  rank.space.barrier().wait();
  for (Rank turn = 0; turn < rank.size(); ++turn) {
    if (rank.rank() == turn) {
      std::vector<void*> all;
      const auto fill_up = [&](std::size_t bytes) {
        while (code_of([&] { all.push_back(heap.allocate(bytes)); }) == 0) {
        }
        return all.size();
      };
      const auto empty = [&] {
        for (void* const one : all) heap.free(one);
        all.clear();
      };
      // Of small ones a rank keeps a few chunks for later: 16, and one of the size.
      const std::size_t chunks = heap_bytes / heap_chunk_bytes - turn * 17;
      for (unsigned round = 0; round < 2; ++round) {
        const std::size_t large = fill_up(heap_chunk_bytes);
        rank.check(large >= chunks - round * 17 && large <= chunks,
                   "the heap had room for " + std::to_string(large) + " chunks");
        empty();
        const std::size_t small = fill_up(HeapChunks::slot_bytes_most);
        rank.check(small == 4 * chunks, "the heap had room for " + std::to_string(small) + " small ones");
        empty();
      }
    }
    rank.space.barrier().wait();
  }
}

// Who wants zeros must clear what others have had, and need not touch the rest. Rank 0 allocates, since what
// is given back arrives there before its next question.
void fresh_memory_is_told_from_freed(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  constexpr std::size_t bytes = 5 * heap_chunk_bytes - 100;
  Segment& segment =
      rank.space.create_segment({.name = "place", .bytes = 4096, .initial_homes = {}, .dials = {}});
  auto& place = *reinterpret_cast<std::uint8_t**>(segment.data());
  for (Rank freer = 0; freer < rank.size(); ++freer) {
    if (rank.rank() == 0) {
      const Heap::Fresh memory = heap.allocate_fresh(bytes);
      place = static_cast<std::uint8_t*>(memory.begin);
      rank.check(memory.is_zero == (freer == 0), "memory is fresh: " + std::to_string(memory.is_zero) +
                                                     ", after frees: " + std::to_string(freer));
      if (memory.is_zero) rank.check(is_zero(place, bytes), "what nobody has had is not zero");
      std::fill_n(place, bytes, std::uint8_t{0xee});
    }
    rank.space.barrier().wait();
    if (rank.rank() == freer) heap.free(place);
    rank.space.barrier().wait();
  }
}

/// Small allocations until there is no more room.
std::size_t fill_with_small_ones(Heap& heap, std::span<std::uint8_t*> places) {
  std::size_t count = 0;
  const auto allocate = [&] {
    places[count] = static_cast<std::uint8_t*>(heap.allocate(HeapChunks::slot_bytes_most));
  };
  while (count < places.size() && code_of(allocate) == 0) places[count++][0] = 0xaa;
  return count;
}

// One rank allocates, all others free: there is room again for what is larger, on whatever rank, though the
// first one does nothing more, or has to do no more than to ask for it itself.
void what_others_free_makes_room(RankSpace& rank) {
  Heap& heap = make_heap(rank);
  constexpr std::size_t chunks = heap_bytes / heap_chunk_bytes;
  constexpr std::size_t room = chunks - 16 - 1;  // less the spares of a rank, and one of the size
  constexpr std::size_t bytes = room / 2 * heap_chunk_bytes;  // that one lies in the middle, at worst
  constexpr std::size_t places = 4 * chunks;
  Segment& segment =
      rank.space.create_segment({.name = "mail", .bytes = 2 * 4096, .initial_homes = {}, .dials = {}});
  static_assert(places * sizeof(std::uint8_t*) <= 4096);
  const std::span mail(reinterpret_cast<std::uint8_t**>(segment.data()), places);
  auto& large = *reinterpret_cast<std::uint8_t**>(segment.data() + 4096);
  for (const Rank taker : {Rank{1}, Rank{0}}) {
    if (rank.rank() == 0)
      rank.check(fill_with_small_ones(heap, mail) >= 4 * room, "the heap is not empty at first");
    rank.space.barrier().wait();
    for (std::size_t i = 0; i < mail.size(); ++i) {
      // Where all have come as far, the last chunk of the size that has something free is empty, and stays.
      if (i == mail.size() / 2) rank.space.barrier().wait();
      if (mail[i] == nullptr) continue;
      // What it has freed itself too only the owner can give back.
      const auto other = static_cast<Rank>(1 + i % (rank.size() - 1));
      if (rank.rank() != (taker == 0 && i % 4 == 0 ? 0 : other)) continue;
      mail[i][1] = 0xee;
      heap.free(mail[i]);
    }
    rank.space.barrier().wait();
    if (rank.rank() == taker) {
      const int code = code_of([&] { large = static_cast<std::uint8_t*>(heap.allocate(bytes)); });
      rank.check(code == 0, "there is no room for rank " + std::to_string(taker));
      for (std::size_t i = 0; i < bytes; i += 1024) large[i] = large[i + 1] = 0x55;
    }
    rank.space.barrier().wait();
    for (std::size_t i = 0; i < bytes; i += 1024)
      rank.check(large[i] == 0x55 && large[i + 1] == 0x55, "a freed byte came back");
    rank.space.barrier().wait();
    if (rank.rank() == taker) heap.free(large);
    if (rank.rank() == 0) std::fill(mail.begin(), mail.end(), nullptr);
    rank.space.barrier().wait();
  }
}

struct HeapCase {
  const char* name;
  void (*body)(RankSpace&);
};
constexpr HeapCase heap_cases[] = {
    {"MemoryIsNobodyElses", memory_is_nobody_elses},
    {"FreedBytesDoNotComeBack", freed_bytes_do_not_come_back},
    {"WrongFreesAreErrors", wrong_frees_are_errors},
    {"FullHeapIsAnErrorAndEmpties", full_heap_is_an_error_and_empties},
    {"FreshMemoryIsToldFromFreed", fresh_memory_is_told_from_freed},
    {"WhatOthersFreeMakesRoom", what_others_free_makes_room},
};

using HeapParameter = std::tuple<Machine, Rank, HeapCase>;

class SharedHeap : public testing::TestWithParam<HeapParameter> {};

TEST_P(SharedHeap, Holds) {
  const auto& [machine, ranks, heap_case] = GetParam();
  const std::string failure = run_space(machine, ranks, {}, heap_case.body);
  if (failure.starts_with("skipped: ")) GTEST_SKIP() << failure;
  EXPECT_EQ(failure, "");
}

INSTANTIATE_TEST_SUITE_P(Real, SharedHeap,
                         testing::Combine(testing::ValuesIn(machines), testing::Values(Rank{2}, Rank{4}),
                                          testing::ValuesIn(heap_cases)),
                         [](const testing::TestParamInfo<HeapParameter>& tested) {
                           return std::string(std::get<2>(tested.param).name) + "_" +
                                  std::get<0>(tested.param).name + "_" +
                                  std::to_string(std::get<1>(tested.param)) + "ranks";
                         });

}  // namespace

}  // namespace craton::space::test
