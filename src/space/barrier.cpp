#include "space/barrier.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"
#include "fiber/system.hpp"

namespace craton::space {

Barrier::Barrier(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::RegionId region,
                 fabric::HandlerId handler, unsigned threads, unsigned polls)
    : fabric_(fabric),
      protocol_(protocol),
      region_(region),
      handler_(handler),
      threads_(threads),
      polls_(polls),
      memory_("craton barrier", sizeof(Words)) {
  fabric_.set_handler(handler_, &Barrier::arrived, this);
  fabric_.register_region(region_, memory_);
}

void Barrier::close() {
  fabric_.unregister_region(region_);
}

void Barrier::wait(std::uint32_t site) {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_threads_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_threads_.store(0, std::memory_order_relaxed);
    meet_ranks(site);
    generation_.store(generation + 1, std::memory_order_release);
    if (threads_ > 1) fabric_.notify();
    return;
  }
  const auto met = [&] {
    return generation_.load(std::memory_order_acquire) != generation || fabric_.lost_ranks() != 0;
  };
  const fabric::Status waited = fabric_.wait_until(met);
  if (waited != fabric::Status::ok || generation_.load() == generation) coherence::throw_lost(fabric_);
}

/// By the last thread of the rank to arrive.
void Barrier::meet_ranks(std::uint32_t site) {
  coherence::Signature all = protocol_.release_to_all();
  std::array<std::size_t, links_at_most> waiting{};  // links that have not told yet
  std::size_t waits = 0;
  std::array<std::size_t, links_at_most> told{};
  std::size_t tells = 0;
  for (std::size_t link = 0; link < links_at_most; ++link) {
    if (has_link(link)) waiting[waits++] = link;
  }
  // What goes to the last one to tell is what all others have told. What goes to the others has that of the
  // last one as well, and, to save room for what each has told, their own again.
  while (waits != 0) {
    if (waits == 1) send(waiting[0], all);
    std::size_t next = 0;
    const auto one_has_arrived = [&] {
      for (next = 0; next < waits && !has_arrived(waiting[next]);) ++next;
      return next < waits;
    };
    const auto near = [this](std::size_t link) { return is_near(link); };
    const bool words_may_come = std::any_of(waiting.begin(), waiting.begin() + waits, near);
    wait_for_links(one_has_arrived, words_may_come ? polls_ : 0);
    take(waiting[next], all);
    told[tells++] = waiting[next];
    waiting[next] = waiting[--waits];
  }
  for (std::size_t i = 0; i + 1 < tells; ++i) send(told[i], all);
  wake_told();
  protocol_.acquire_from_all(all, site);
}

void Barrier::send(std::size_t link, const coherence::Signature& signature) {
  const fabric::Rank to = neighbour(link);
  std::byte* const direct = signature.empty() ? fabric_.direct(to, region_) : nullptr;
  if (direct == nullptr) return send_message(to, signature);
  Words& words = *reinterpret_cast<Words*>(direct);
  std::atomic_ref(words.nothing[link_at(to)].words[number() % 2]).store(number(), std::memory_order_release);
  // Whether it sleeps is looked at later: usually it does not, and its own word is on the way already.
  owes_wake_[link] = true;
}

/// Wakes those who may have gone to sleep before they saw a word of ours.
void Barrier::wake_told() {
  if (std::find(owes_wake_.begin(), owes_wake_.end(), true) == owes_wake_.end()) return;
  // With the one in wait_for_links(): either they see the word, or we see that they sleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t link = 0; link < links_at_most; ++link) {
    if (!std::exchange(owes_wake_[link], false)) continue;
    Words& words = *reinterpret_cast<Words*>(fabric_.direct(neighbour(link), region_));
    if (std::atomic_ref(words.sleeps.words[0]).load(std::memory_order_relaxed) != 0 &&
        fabric_.wake(neighbour(link)) != fabric::Status::ok)
      coherence::throw_lost(fabric_);
  }
}

void Barrier::send_message(fabric::Rank to, const coherence::Signature& signature) {
  std::vector<std::byte> bytes(signature.encoded_bytes());
  signature.encode(bytes.data());
  std::array<std::byte, fabric::max_message_bytes> message;
  Piece piece{.generation = number(), .offset = 0, .total_bytes = static_cast<std::uint32_t>(bytes.size())};
  while (piece.offset < piece.total_bytes) {
    const std::size_t count = std::min(bytes.size() - piece.offset, message.size() - sizeof piece);
    std::memcpy(message.data(), &piece, sizeof piece);
    std::memcpy(message.data() + sizeof piece, bytes.data() + piece.offset, count);
    if (fabric_.send(to, handler_, message.data(), sizeof piece + count) != fabric::Status::ok)
      coherence::throw_lost(fabric_);
    piece.offset += static_cast<std::uint32_t>(count);
  }
}

bool Barrier::has_arrived(std::size_t link) noexcept {
  std::uint64_t& nothing = own_words().nothing[link].words[number() % 2];
  return std::atomic_ref(nothing).load(std::memory_order_acquire) == number() ||
         arrivals_[link][number() % 2].whole.load(std::memory_order_acquire);
}

/// The condition must get true by what arrives on a link.
void Barrier::wait_for_links(FunctionRef<bool()> condition, unsigned polls) {
  for (unsigned poll = 0; poll < polls; ++poll) {
    if (condition()) return;
    if (poll == polls / 2) wake_told();
    fiber::NativeSystem::pause();
  }
  wake_told();
  const std::atomic_ref sleeps(own_words().sleeps.words[0]);
  sleeps.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const fabric::Status waited = fabric_.wait_until([&] { return condition() || fabric_.lost_ranks() != 0; });
  sleeps.store(0, std::memory_order_relaxed);
  if (waited != fabric::Status::ok || !condition()) coherence::throw_lost(fabric_);
}

/// Adds what a link has told, which has arrived, to the signature.
void Barrier::take(std::size_t link, coherence::Signature& signature) {
  Arrival& arrival = arrivals_[link][number() % 2];
  if (!arrival.whole.load(std::memory_order_acquire)) return;
  const bool well_formed = signature.merge_encoded(arrival.bytes);
  CRATON_ASSERT(well_formed);
  arrival.bytes.clear();
  arrival.received = 0;
  arrival.whole.store(false, std::memory_order_release);
}

void Barrier::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& barrier = *static_cast<Barrier*>(self);
  Piece piece{};
  CRATON_ASSERT(bytes > sizeof piece);
  std::memcpy(&piece, payload, sizeof piece);
  const std::size_t count = bytes - sizeof piece;
  CRATON_ASSERT(piece.offset + count <= piece.total_bytes);
  const std::size_t link = source > barrier.fabric_.rank() ? 1 + (source - barrier.first_child()) : to_parent;
  CRATON_ASSERT(link < links_at_most);
  Arrival& arrival = barrier.arrivals_[link][piece.generation % 2];
  CRATON_ASSERT(!arrival.whole.load());
  arrival.bytes.resize(piece.total_bytes);
  std::memcpy(arrival.bytes.data() + piece.offset, payload + sizeof piece, count);
  arrival.received += count;
  if (arrival.received == piece.total_bytes) arrival.whole.store(true, std::memory_order_release);
}

}  // namespace craton::space
