#include "space/heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "coherence/block_lock.hpp"

namespace craton::space {

namespace {

constexpr fabric::Rank keeper = 0;  ///< of the runs

/// The owner of a chunk can change while a question is on its way. Only a program that frees twice at the
/// same time gets further than the second try.
constexpr unsigned tries = 3;

}  // namespace

Heap::Heap(fabric::Fabric& fabric, Space& space, Segment& segment, fabric::HandlerId handler)
    : Heap(fabric, space, {segment.data(), segment.bytes()}, handler) {
  CRATON_ASSERT(heap_chunk_bytes % segment.block_bytes() == 0);  // else ranks would share blocks
}

Heap::Heap(fabric::Fabric& fabric, Learning& learning, std::span<std::byte> memory, fabric::HandlerId handler)
    : fabric_(fabric),
      learning_(learning),
      memory_(memory),
      handler_(handler),
      chunk_count_(static_cast<ChunkIndex>(memory.size() / heap_chunk_bytes)),
      chunks_(chunk_count_, fabric.rank(), fabric.size()),
      runs_(chunk_count_),
      owners_(chunk_count_) {
  CRATON_ASSERT(memory.size() % heap_chunk_bytes == 0);
  fabric_.set_handler(handler_, &Heap::arrived, this);
}

// ---- Allocating

Heap::Fresh Heap::allocate_fresh(std::size_t bytes) {
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  if (wanted > HeapChunks::slot_bytes_most) {
    const std::size_t chunks = wanted / heap_chunk_bytes + (wanted % heap_chunk_bytes != 0 ? 1 : 0);
    const auto most = static_cast<std::size_t>(chunk_count_) + 1;  // one that there is not
    give_spares(HeapChunks::spares_kept);                          // rather than that the heap grows
    const auto [run, is_zero] = take_run(static_cast<ChunkIndex>(std::min(chunks, most)), wanted);
    chunks_.add_large(run, wanted);
    return {.begin = memory_.data() + run.first * heap_chunk_bytes, .is_zero = is_zero};
  }
  for (;;) {
    if (const std::optional<HeapChunks::Slot> slot = chunks_.take_slot(wanted)) {
      learn_of_frees(slot->frees);
      // Whether a slot is fresh nobody remembers: clearing it costs less than that would.
      return {.begin = memory_.data() + slot->offset, .is_zero = false};
    }
    chunks_.add_chunk(take_run(1, wanted).run.first);
  }
}

/// Its former users' writes are known here when it returns.
Heap::TakenRun Heap::take_run(ChunkIndex chunks, std::size_t for_bytes) {
  Message taken = ask(keeper, Kind::take, 0, chunks);
  if (taken.finding != HeapFinding::found) {
    // Before it is refused: what this rank has to spare, and what others have given, but is still under way.
    give_spares(0);
    for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank) ask(rank, Kind::settle, 0, 0);
    taken = ask(keeper, Kind::take, 0, chunks);
  }
  if (taken.finding != HeapFinding::found) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = fmt::format("cannot allocate {} bytes of the shared heap", for_bytes),
                 .happened = fmt::format("it has no {} KiB in a row left",
                                         std::uint64_t{chunks} * heap_chunk_bytes / 1024),
                 .limit = fmt::format("the heap has {} KiB", memory_.size() / 1024),
                 .remedy = "free memory, or give it more by --heap-bytes or CRATON_HEAP_BYTES"});
  }
  if (taken.givers_told == all_ranks) {
    learning_.learn_from_all();
  } else {
    learning_.learn({taken.givers.begin(), taken.givers.begin() + taken.givers_told});
  }
  // A chunk that was ever given back has a giver for ever.
  return {.run = {.first = static_cast<ChunkIndex>(taken.first), .chunks = chunks},
          .is_zero = taken.givers_told == 0};
}

/// \param frees by others, of which this rank must have learnt
void Heap::learn_of_frees(std::uint64_t frees) {
  if (learnt_.load(std::memory_order_acquire) >= frees) return;
  const std::lock_guard learns(learns_);
  if (learnt_.load(std::memory_order_acquire) >= frees) return;
  const HeapChunks::Freers freers = chunks_.take_freers();
  learning_.learn(freers.ranks);
  learnt_.store(freers.frees, std::memory_order_release);
}

// ---- Freeing

void Heap::free(void* pointer) {
  if (!contains(pointer)) {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("cannot free {}", pointer),
                                              .happened = "it is not in the shared heap",
                                              .limit = {},
                                              .remedy = "free what craton_alloc gave, and nothing else"});
  }
  const auto offset = static_cast<std::uint64_t>(static_cast<std::byte*>(pointer) - memory_.data());
  const HeapChunks::Freed freed = chunks_.free(offset, fabric_.rank());
  if (freed.finding == HeapFinding::elsewhere) {
    learning_.publish();
    const HeapFinding finding = ask_owner(Kind::free, offset).finding;
    if (finding != HeapFinding::found) refuse(pointer, finding);
    give_spares(HeapChunks::spares_kept);
    return;
  }
  if (freed.finding != HeapFinding::found) refuse(pointer, freed.finding);
  if (freed.run.has_value()) {
    learning_.publish();
    tell_given(*freed.run, fabric_.rank());
    return;
  }
  give_spares(HeapChunks::spares_kept);
}

/// All spare chunks but so many. Others may have freed what was in them, so this rank learns of it first.
void Heap::give_spares(std::size_t kept) {
  std::unique_lock learns(learns_, std::defer_lock);
  if (kept == 0) learns.lock();  // what another thread is about to give counts as well
  const std::vector<ChunkIndex> spares = chunks_.take_spares(kept);
  if (spares.empty()) return;
  if (!learns.owns_lock()) learns.lock();
  const HeapChunks::Freers freers = chunks_.take_freers();
  learning_.learn(freers.ranks);
  learnt_.store(freers.frees, std::memory_order_release);
  learning_.publish();
  for (const ChunkIndex spare : spares) tell_given({.first = spare, .chunks = 1}, fabric_.rank());
}

void Heap::refuse(const void* pointer, HeapFinding finding) const {
  throw Error(ErrorCode::invalid_argument,
              {.asked = fmt::format("cannot free {}", pointer),
               .happened = finding == HeapFinding::inside ? "it lies inside an allocation, not at its start"
                                                          : "nothing is allocated there, or no longer",
               .limit = {},
               .remedy = "free what craton_alloc gave, and once"});
}

std::optional<Heap::Allocation> Heap::find(const void* address) {
  if (!contains(address)) return {};
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - memory_.data());
  const HeapChunks::Allocation own = chunks_.find(offset);
  if (own.finding == HeapFinding::found || own.finding == HeapFinding::inside)
    return Allocation{.begin = memory_.data() + own.offset, .bytes = own.bytes};
  if (own.finding == HeapFinding::no_longer) return {};
  const Message there = ask_owner(Kind::find, offset);
  if (there.finding != HeapFinding::found && there.finding != HeapFinding::inside) return {};
  return Allocation{.begin = memory_.data() + there.first, .bytes = static_cast<std::size_t>(there.count)};
}

// ---- Asking and answering

/// \returns the owner's answer; `no_longer` if there is no owner
Heap::Message Heap::ask_owner(Kind kind, std::uint64_t offset) {
  std::atomic<std::uint32_t>& heard = owners_[offset / heap_chunk_bytes];
  Message answer{};
  for (unsigned round = 0; round < tries; ++round) {
    std::uint32_t owner = heard.load(std::memory_order_relaxed);
    if (owner == 0) {
      answer = ask(keeper, Kind::who, offset / heap_chunk_bytes, 0);
      if (answer.finding != HeapFinding::found) return answer;
      owner = static_cast<std::uint32_t>(answer.first) + 1;
      heard.store(owner, std::memory_order_relaxed);
    }
    answer = ask(owner - 1, kind, offset, 0);
    if (answer.finding != HeapFinding::elsewhere) return answer;
    heard.store(0, std::memory_order_relaxed);
  }
  answer.finding = HeapFinding::no_longer;
  return answer;
}

Heap::Message Heap::ask(fabric::Rank to, Kind kind, std::uint64_t first, std::uint64_t count) {
  const std::lock_guard asking(asking_);
  const std::uint64_t ticket = asked_.load(std::memory_order_relaxed) + 1;
  asked_.store(ticket, std::memory_order_release);
  Message question{};
  question.kind = kind;
  question.ticket = ticket;
  question.first = first;
  question.count = count;
  if (fabric_.send(to, handler_, &question, sizeof question) != fabric::Status::ok)
    coherence::throw_lost(fabric_);
  coherence::wait_for(fabric_, fabric_, [&] { return answered_.load(std::memory_order_acquire) == ticket; });
  return answer_;
}

void Heap::tell_given(ChunkRun run, fabric::Rank giver) {
  Message message{};
  message.kind = Kind::give;
  message.first = run.first;
  message.count = run.chunks;
  message.giver = giver;
  static_cast<void>(fabric_.send(keeper, handler_, &message, sizeof message));  // the dead need none
}

void Heap::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& heap = *static_cast<Heap*>(self);
  Message message{};
  CRATON_ASSERT(bytes == sizeof message);
  std::memcpy(&message, payload, sizeof message);
  switch (message.kind) {
    case Kind::answer:
      // Of a question that was given up nobody waits for the answer.
      if (message.ticket != heap.asked_.load(std::memory_order_acquire)) return;
      heap.answer_ = message;
      heap.answered_.store(message.ticket, std::memory_order_release);
      return;
    case Kind::give:
      CRATON_ASSERT(heap.fabric_.rank() == keeper);
      CRATON_ASSERT((message.giver < heap.fabric_.size() || message.giver == every_rank));
      heap.runs_.give(
          {.first = static_cast<ChunkIndex>(message.first), .chunks = static_cast<ChunkIndex>(message.count)},
          message.giver);
      return;
    case Kind::settle:
      message.kind = Kind::settled;
      message.giver = source;
      static_cast<void>(heap.fabric_.send(keeper, heap.handler_, &message, sizeof message));
      return;
    case Kind::settled:
      source = message.giver;
      message.kind = Kind::answer;
      static_cast<void>(heap.fabric_.send(source, heap.handler_, &message, sizeof message));
      return;
    default:
      heap.answer(source, message);
  }
}

void Heap::answer(fabric::Rank source, const Message& question) {
  Message reply{};
  reply.kind = Kind::answer;
  reply.ticket = question.ticket;
  reply.finding = HeapFinding::no_longer;
  switch (question.kind) {
    case Kind::take: {
      CRATON_ASSERT(fabric_.rank() == keeper);
      const auto chunks = static_cast<ChunkIndex>(question.count);
      if (const std::optional<ChunkIndex> first = runs_.take(chunks, source)) {
        const std::vector<fabric::Rank> givers = runs_.givers({.first = *first, .chunks = chunks});
        reply.finding = HeapFinding::found;
        reply.first = *first;
        const bool are_all =
            givers.size() > ranks_told || std::find(givers.begin(), givers.end(), every_rank) != givers.end();
        reply.givers_told = are_all ? all_ranks : static_cast<std::uint32_t>(givers.size());
        std::copy_n(givers.begin(), std::min<std::size_t>(givers.size(), ranks_told), reply.givers.begin());
      }
      break;
    }
    case Kind::who: {
      CRATON_ASSERT(fabric_.rank() == keeper);
      CRATON_ASSERT(question.first < chunk_count_);
      if (const std::optional<fabric::Rank> owner = runs_.owner(static_cast<ChunkIndex>(question.first))) {
        reply.finding = HeapFinding::found;
        reply.first = *owner;
      }
      break;
    }
    case Kind::free: {
      CRATON_ASSERT(question.first / heap_chunk_bytes < chunk_count_);
      const HeapChunks::Freed freed = chunks_.free(question.first, source);
      reply.finding = freed.finding;
      if (freed.run.has_value()) tell_given(*freed.run, freed.giver);
      break;
    }
    case Kind::find: {
      CRATON_ASSERT(question.first / heap_chunk_bytes < chunk_count_);
      const HeapChunks::Allocation allocation = chunks_.find(question.first);
      reply.finding = allocation.finding;
      reply.first = allocation.offset;
      reply.count = allocation.bytes;
      break;
    }
    case Kind::give:
    case Kind::settle:
    case Kind::settled:
    case Kind::answer:
      CRATON_ASSERT(false);
  }
  static_cast<void>(fabric_.send(source, handler_, &reply, sizeof reply));  // the dead need none
}

}  // namespace craton::space
