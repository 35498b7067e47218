#include "space/heap_chunks.hpp"

#include <algorithm>
#include <bit>

#include "base/assert.hpp"

namespace craton::space {

namespace {
constexpr std::size_t aligned_line = 64;  ///< allocations of as many bytes are aligned to as many
constexpr std::size_t steps_a_doubling = 4;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) noexcept {
  return (bytes + to - 1) / to * to;
}
}  // namespace

HeapChunks::HeapChunks(ChunkIndex chunks, fabric::Rank own, fabric::Rank ranks)
    : own_(own),
      chunks_(chunks),
      with_free_slots_(slot_bytes_most / slot_bytes_least + 1),
      freed_by_(ranks) {}

void HeapChunks::List::push(Chunk& chunk) noexcept {
  chunk.before = nullptr;
  chunk.after = first;
  if (first != nullptr) first->before = &chunk;
  first = &chunk;
  ++count;
}

void HeapChunks::List::remove(Chunk& chunk) noexcept {
  (chunk.before == nullptr ? first : chunk.before->after) = chunk.after;
  if (chunk.after != nullptr) chunk.after->before = chunk.before;
  --count;
}

/// Four sizes a doubling, so that at most a fifth is lost; multiples of a line from a line on.
std::size_t HeapChunks::slot_bytes_for(std::size_t bytes) noexcept {
  if (bytes <= aligned_line) return round_up(bytes, slot_bytes_least);
  return round_up(bytes, std::max(aligned_line, std::bit_floor(bytes - 1) / steps_a_doubling));
}

HeapChunks::List& HeapChunks::list_of(std::size_t slot_bytes) noexcept {
  return with_free_slots_[slot_bytes / slot_bytes_least];
}

/// A record for a run, with all else as it is at first.
HeapChunks::Chunk& HeapChunks::new_chunk(ChunkRun run) {
  Chunk* chunk = retired_.first;
  if (chunk != nullptr) {
    retired_.remove(*chunk);
  } else {
    chunk = &records_.emplace_back();
  }
  *chunk = Chunk{};
  chunk->run = run;
  for (ChunkIndex index = run.first; index < run.first + run.chunks; ++index) chunks_[index].chunk = chunk;
  return *chunk;
}

void HeapChunks::retire(Chunk& chunk) noexcept {
  const ChunkIndex end = chunk.run.first + chunk.run.chunks;
  for (ChunkIndex index = chunk.run.first; index < end; ++index) chunks_[index].chunk = nullptr;
  retired_.push(chunk);
}

void HeapChunks::add_chunk(ChunkIndex chunk) {
  const std::lock_guard guard(lock_);
  spare_.push(new_chunk({.first = chunk, .chunks = 1}));
}

void HeapChunks::add_large(ChunkRun run, std::size_t bytes) {
  const std::lock_guard guard(lock_);
  new_chunk(run).large_bytes = bytes;
}

std::optional<HeapChunks::Slot> HeapChunks::take_slot(std::size_t bytes) {
  CRATON_ASSERT(bytes > 0);
  CRATON_ASSERT(bytes <= slot_bytes_most);
  const std::size_t slot_bytes = slot_bytes_for(bytes);
  const std::lock_guard guard(lock_);
  List& list = list_of(slot_bytes);
  if (list.first == nullptr) {
    if (spare_.first == nullptr) return {};
    Chunk& chunk = *spare_.first;
    spare_.remove(chunk);
    chunk.slot_bytes = slot_bytes;
    chunk.slots = chunk.free_slots = static_cast<std::uint32_t>(heap_chunk_bytes / slot_bytes);
    list.push(chunk);
  }
  Chunk& chunk = *list.first;
  std::size_t word = 0;
  while (chunk.taken[word] == ~std::uint64_t{0}) ++word;
  const auto bit = static_cast<unsigned>(std::countr_one(chunk.taken[word]));
  const std::size_t slot = word * word_bits + bit;
  CRATON_ASSERT(slot < chunk.slots);
  chunk.taken[word] |= std::uint64_t{1} << bit;
  if (--chunk.free_slots == 0) list.remove(chunk);
  return Slot{.offset = chunk.run.first * std::uint64_t{heap_chunk_bytes} + slot * slot_bytes,
              .frees = frees_};
}

HeapChunks::Allocation HeapChunks::find_locked(std::uint64_t offset) const noexcept {
  const Chunk* const chunk = chunks_[offset / heap_chunk_bytes].chunk;
  if (chunk == nullptr) return {.finding = HeapFinding::elsewhere};
  const std::uint64_t begin = chunk->run.first * std::uint64_t{heap_chunk_bytes};
  const std::uint64_t slot_bytes = chunk->slot_bytes;
  Allocation found{.finding = HeapFinding::found, .offset = begin, .bytes = chunk->large_bytes};
  if (chunk->large_bytes == 0) {
    if (slot_bytes == 0) return {.finding = HeapFinding::no_longer};  // spare
    const std::uint64_t slot = (offset - begin) / slot_bytes;
    const bool taken =
        slot < chunk->slots && (chunk->taken[slot / word_bits] >> (slot % word_bits) & 1U) != 0;
    if (!taken) return {.finding = HeapFinding::no_longer};
    found.offset = begin + slot * slot_bytes;
    found.bytes = slot_bytes;
  }
  if (found.offset != offset) found.finding = HeapFinding::inside;
  return found;
}

HeapChunks::Allocation HeapChunks::find(std::uint64_t offset) {
  const std::lock_guard guard(lock_);
  return find_locked(offset);
}

HeapChunks::Freed HeapChunks::free(std::uint64_t offset, fabric::Rank by) {
  const std::lock_guard guard(lock_);
  const Allocation allocation = find_locked(offset);
  if (allocation.finding != HeapFinding::found) return {.finding = allocation.finding};
  if (by != own_) {
    freed_by_[by] = true;
    ++frees_;
  }
  Chunk& chunk = *chunks_[offset / heap_chunk_bytes].chunk;
  if (chunk.large_bytes != 0) {
    const ChunkRun run = chunk.run;
    retire(chunk);
    return {.finding = HeapFinding::found, .run = run, .giver = by};
  }
  if (by == own_) {
    chunk.freed_here = true;
  } else {
    chunk.freer = chunk.freer.value_or(by) == by ? by : every_rank;
  }
  const std::uint64_t slot = offset % heap_chunk_bytes / chunk.slot_bytes;
  chunk.taken[slot / word_bits] &= ~(std::uint64_t{1} << (slot % word_bits));
  List& list = list_of(chunk.slot_bytes);
  if (chunk.free_slots++ == 0) list.push(chunk);
  // The last one of a size stays: a program that allocates and frees one object would move it to and fro.
  if (chunk.free_slots < chunk.slots || list.count == 1) return {.finding = HeapFinding::found};
  list.remove(chunk);
  chunk.slot_bytes = 0;
  // This rank has nothing to publish of what others have freed, and need not do anything for them to have it.
  if (spare_.count >= spares_kept && !chunk.freed_here) {
    retire(chunk);
    return {.finding = HeapFinding::found, .run = chunk.run, .giver = *chunk.freer};
  }
  spare_.push(chunk);
  return {.finding = HeapFinding::found};
}

std::vector<ChunkIndex> HeapChunks::take_spares(std::size_t kept) {
  std::vector<ChunkIndex> spares;
  const std::lock_guard guard(lock_);
  while (spare_.count > kept) {
    Chunk& chunk = *spare_.first;
    spares.push_back(chunk.run.first);
    spare_.remove(chunk);
    retire(chunk);
  }
  return spares;
}

HeapChunks::Freers HeapChunks::take_freers() {
  const std::lock_guard guard(lock_);
  Freers freers{.frees = frees_, .ranks = {}};
  for (fabric::Rank rank = 0; rank < freed_by_.size(); ++rank) {
    if (freed_by_[rank]) freers.ranks.push_back(rank);
    freed_by_[rank] = false;
  }
  return freers;
}

}  // namespace craton::space
