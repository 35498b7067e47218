#include "space/barrier.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "base/signal_section.hpp"
#include "coherence/block_lock.hpp"
#include "coherence/exclusive.hpp"
#include "fiber/system.hpp"

namespace craton::space {

namespace {

/// So much to tell is told to all ranks: what all have been told need not be carried along any further.
constexpr std::size_t notices_for_all = 64;

constexpr std::uint64_t mark = std::uint64_t{1} << 31U;

constexpr std::uint64_t head_of(const BarrierNote& note) noexcept {
  return std::uint64_t{note.reach} << 32U | (note.is_marked ? mark : 0) | note.count;
}
/// Marks stay.
void take_head(std::uint64_t head, BarrierNote& note) noexcept {
  note.reach = static_cast<std::uint32_t>(head >> 32U);
  note.is_marked = note.is_marked || (head & mark) != 0;
  note.count = static_cast<std::uint32_t>(head & ~mark);
  CRATON_ASSERT(note.count <= BarrierNote::words_at_most);
}

}  // namespace

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
  protocol_.set_barrier_exit(this);
}

void Barrier::close() {
  protocol_.set_barrier_exit(nullptr);
  fabric_.unregister_region(region_);
}

void Barrier::wait(std::uint32_t site, bool marks) {
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_threads_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_threads_.store(0, std::memory_order_relaxed);
    BarrierNote note;
    note.is_marked = marks;
    meet(fabric_.size(), site, &note);
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

void Barrier::meet(fabric::Rank ranks, std::uint32_t site, BarrierNote* note, const Meanwhile* meanwhile) {
  const SignalSection section;
  const events::Span span(events::Kind::barrier);
  CRATON_ASSERT(fabric_.rank() < ranks);
  coherence::Signature all = protocol_.release_to_all();
  BarrierNote carried = note != nullptr && fabric_.rank() == 0 ? *note : BarrierNote{};
  carried.is_marked = note != nullptr && note->is_marked;
  std::array<std::size_t, links_at_most> waiting{};  // links that have not told yet
  std::size_t waits = 0;
  std::array<std::size_t, links_at_most> told{};
  std::size_t tells = 0;
  for (std::size_t link = 0; link < links_at_most; ++link) {
    if (has_link(link, ranks)) waiting[waits++] = link;
  }
  const auto leave = [&] {
    // What went to the last one to tell is what all others had told. What goes to the others has that of the
    // last one as well, and, to save room for what each has told, their own again.
    for (std::size_t i = 0; i + 1 < tells; ++i) send(told[i], all, carried);
    wake_told();
    if (ranks == fabric_.size()) {
      // Who is told next must not wait for a thread of its own that waits for what the others have heard.
      const bool hears_next = carried.is_marked && fabric_.rank() != 0;
      protocol_.acquire_from_all(all, site, !hears_next);
    } else {
      protocol_.acquire_from_some(all, site);
    }
  };
  std::size_t next = 0;
  const auto one_has_told = [&] {
    for (next = 0; next < waits && !has_arrived(waiting[next]);) ++next;
    return next < waits;
  };
  bool is_over = waits == 0;
  const auto take_next = [&] {
    take(waiting[next], all, carried);
    told[tells++] = waiting[next];
    waiting[next] = waiting[--waits];
    if (waits == 1) send(waiting[0], all, carried);
    is_over = waits == 0;
    if (is_over) leave();
  };
  if (waits == 0) leave();
  if (waits == 1) send(waiting[0], all, carried);
  const auto near = [this](std::size_t link) { return is_near(link); };
  pass({.is_over = [&] { return is_over; },
        .can_go_on = one_has_told,
        .go_on = take_next,
        .has_near = [&] { return std::any_of(waiting.begin(), waiting.begin() + waits, near); }},
       meanwhile);
  if (note != nullptr) *note = carried;
}

bool Barrier::gather(fabric::Rank ranks, std::uint32_t site, const Meanwhile* meanwhile, bool marks) {
  const SignalSection section;
  const events::Span span(events::Kind::barrier);
  const bool is_root = fabric_.rank() == 0;
  coherence::Signature all =
      is_root ? coherence::Signature(protocol_.barrier_capacity()) : protocol_.release_to_all();
  BarrierNote carried;
  carried.is_marked = marks;
  std::size_t link = 1;
  const auto skip_absent = [&] {
    while (link < links_at_most && !has_link(link, ranks)) ++link;
  };
  skip_absent();
  const auto take_next = [&] {
    take(link++, all, carried);
    skip_absent();
  };
  pass({.is_over = [&] { return link == links_at_most; },
        .can_go_on = [&] { return has_arrived(link); },
        .go_on = take_next,
        .has_near = [&] { return is_near(link); }},
       meanwhile);
  // What comes from further down is for rank 0, which tells all when it tells again.
  if (is_root) {
    protocol_.acquire_from_some(all, site);
    return carried.is_marked;
  }
  send(to_parent, all, carried);
  wake_told();
  return false;
}

fabric::Rank Barrier::tell(fabric::Rank ranks, const BarrierNote& note) {
  // Others go on from when they are told. What they show then a handler on this thread could only acquire
  // after told_all().
  const SignalSection section;
  const events::Span span(events::Kind::barrier);
  CRATON_ASSERT(fabric_.rank() == 0U);
  const coherence::Signature own = protocol_.release_to_all();
  BarrierNote told = note;
  told.reach = own.notices().size() > notices_for_all ? fabric_.size() : ranks;
  send_to_children(own, told);
  if (told.reach == fabric_.size()) protocol_.told_all(own);
  return told.reach;
}

BarrierNote Barrier::hear(std::uint32_t site_word, const Meanwhile* meanwhile, events::Kind kind) {
  const SignalSection section;
  const events::Span span(kind);
  BarrierNote note;
  bool is_over = false;
  const auto take_told = [&] {
    coherence::Signature told(protocol_.barrier_capacity());
    take(to_parent, told, note);
    is_over = true;
    send_to_children(told, note);
    CRATON_ASSERT(site_word < BarrierNote::words_at_most);
    const auto site = static_cast<std::uint32_t>(note.words[site_word]);
    if (note.reach == fabric_.size()) {
      protocol_.acquire_from_all(told, site);
    } else {
      protocol_.acquire_from_some(told, site);
    }
  };
  pass({.is_over = [&] { return is_over; },
        .can_go_on = [&] { return has_arrived(to_parent); },
        .go_on = take_told,
        .has_near = [&] { return is_near(to_parent); }},
       meanwhile);
  return note;
}

void Barrier::send_to_children(const coherence::Signature& signature, const BarrierNote& note) {
  for (std::size_t link = 1; link < links_at_most; ++link) {
    if (has_link(link, note.reach)) send(link, signature, note);
  }
  wake_told();
}

void Barrier::send(std::size_t link, const coherence::Signature& signature, const BarrierNote& note) {
  const fabric::Rank to = neighbour(link);
  const std::uint64_t number = ++sent_[link];
  const std::size_t bytes = signature.empty() ? 0 : signature.encoded_bytes();
  std::byte* const direct = bytes <= near_bytes ? fabric_.direct(to, region_) : nullptr;
  if (direct == nullptr) return send_message(to, number, signature, note);
  Slot& slot = reinterpret_cast<Words*>(direct)->slots[link_at(to)][number % ahead_at_most];
  slot.head = head_of(note);
  std::copy_n(note.words.begin(), note.count, slot.words.begin());
  slot.signature_bytes = bytes;
  if (bytes != 0) {
    signature.encode(slot.signature.data());
    events::count_message(bytes);
  }
  std::atomic_ref(slot.number).store(number, std::memory_order_release);
  owes_wake_[link] = true;
  // Whether it sleeps is looked at later: usually it does not, and its own word is on the way already. But
  // not after all that there is to do about a signature.
  if (bytes != 0) wake_told();
}

/// Wakes those who may have gone to sleep before they saw a word of ours.
void Barrier::wake_told() {
  if (std::find(owes_wake_.begin(), owes_wake_.end(), true) == owes_wake_.end()) return;
  // With the one in wait_for_links(): either they see the word, or we see that they sleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::size_t link = 0; link < links_at_most; ++link) {
    if (!std::exchange(owes_wake_[link], false)) continue;
    std::byte* const there = fabric_.direct(neighbour(link), region_);
    if (there == nullptr) coherence::throw_lost(fabric_);  // it has died since
    Words& words = *reinterpret_cast<Words*>(there);
    if (std::atomic_ref(words.sleeps.words[0]).load(std::memory_order_relaxed) != 0 &&
        fabric_.wake(neighbour(link)) != fabric::Status::ok)
      coherence::throw_lost(fabric_);
  }
}

void Barrier::send_message(fabric::Rank to, std::uint64_t number, const coherence::Signature& signature,
                           const BarrierNote& note) {
  std::array<std::uint64_t, 1 + BarrierNote::words_at_most> front{head_of(note)};
  std::copy_n(note.words.begin(), note.count, front.begin() + 1);
  const std::size_t note_bytes = (1 + note.count) * sizeof front[0];
  const auto* const first = reinterpret_cast<const std::byte*>(front.data());
  std::vector<std::byte> bytes(first, first + note_bytes);
  bytes.resize(note_bytes + signature.encoded_bytes());
  signature.encode(bytes.data() + note_bytes);
  std::array<std::byte, fabric::max_message_bytes> message;
  Piece piece{.number = number, .offset = 0, .total_bytes = static_cast<std::uint32_t>(bytes.size())};
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
  const std::uint64_t number = taken_[link] + 1;
  return std::atomic_ref(own_words().slots[link][number % ahead_at_most].number)
                 .load(std::memory_order_acquire) == number ||
         arrivals_[link][number % ahead_at_most].whole.load(std::memory_order_acquire);
}

void Barrier::pass(const Passage& passage, const Meanwhile* meanwhile) {
  while (!passage.is_over()) {
    wait_for_links(passage, meanwhile);
    if (!passage.is_over()) passage.go_on();
  }
}

/// All others have left, or are about to.
void Barrier::leave_now(const Passage& passage) {
  while (!passage.is_over()) {
    const std::atomic_ref sleeps(own_words().sleeps.words[0]);
    sleeps.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto can_go_on = [&] { return passage.can_go_on() || fabric_.lost_ranks() != 0; };
    const fabric::Status waited = fabric_.wait_until(can_go_on);
    sleeps.store(0, std::memory_order_relaxed);
    if (waited != fabric::Status::ok || !passage.can_go_on()) coherence::throw_lost(fabric_);
    passage.go_on();
  }
}

void Barrier::leave() {
  Inside inside = Inside::yes;
  if (!inside_.compare_exchange_strong(inside, Inside::leaves, std::memory_order_seq_cst)) return;
  struct Left {
    Barrier& barrier;
    ~Left() {
      barrier.inside_.store(Inside::no, std::memory_order_seq_cst);
      barrier.fabric_.notify();
    }
  };
  const Left left{*this};
  leave_now(*passage_inside_);
}

void Barrier::enter_program(const Passage& passage) noexcept {
  passage_inside_ = &passage;
  inside_.store(Inside::yes, std::memory_order_seq_cst);
  if (protocol_.barrier_is_awaited()) fabric_.notify();
}

void Barrier::come_back() {
  Inside inside = Inside::yes;
  if (inside_.compare_exchange_strong(inside, Inside::no, std::memory_order_seq_cst)) return;
  const auto has_left = [&] { return inside_.load(std::memory_order_seq_cst) == Inside::no; };
  while (!has_left()) static_cast<void>(fabric_.wait_until(has_left));
}

/// Until the passage can go on, or is over. In its caller's section, but for handlers of signals, and for
/// what is done meanwhile.
void Barrier::wait_for_links(const Passage& passage, const Meanwhile* meanwhile) {
  const unsigned polls = passage.has_near() ? polls_ : 0;
  for (unsigned poll = 0; poll < polls; ++poll) {
    if (passage.can_go_on()) return;
    if (poll == polls / 2) wake_told();
    fiber::NativeSystem::pause();
  }
  wake_told();
  const std::atomic_ref sleeps(own_words().sleeps.words[0]);
  coherence::Exclusive* const strong = protocol_.strong_blocks();
  const auto has_release = [&] { return strong != nullptr && strong->has_release(); };
  const auto can_run = [&] { return meanwhile != nullptr && meanwhile->can_run(); };
  while (!passage.is_over()) {
    {
      // No handlers of the program's signals here: for a helper they may take too long.
      std::optional<coherence::Exclusive::Helper> helper;
      if (strong != nullptr) helper.emplace(*strong);
      sleeps.store(1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      bool arrived = false;
      const auto can_stop = [&] {
        arrived = passage.can_go_on();
        return arrived || fabric_.lost_ranks() != 0 || has_release() || can_run() ||
               SignalSection::is_outer_awaited();
      };
      const fabric::Status waited = fabric_.wait_until(can_stop, no_deadline, patience_);
      sleeps.store(0, std::memory_order_relaxed);
      if (arrived) return;
      if (waited != fabric::Status::ok || fabric_.lost_ranks() != 0) coherence::throw_lost(fabric_);
      if (has_release()) strong->help_releasing();
    }
    if (!can_run() && !SignalSection::is_awaited()) continue;
    enter_program(passage);
    {
      const SignalSection::Pause pause;
      if (can_run()) meanwhile->run();
    }
    come_back();
  }
}

/// Adds what a link has told, which has arrived, to the signature, and takes rank 0's note from the parent.
void Barrier::take(std::size_t link, coherence::Signature& signature, BarrierNote& note) {
  const std::uint64_t number = ++taken_[link];
  Arrival& arrival = arrivals_[link][number % ahead_at_most];
  const bool is_message = arrival.whole.load(std::memory_order_acquire);
  BarrierNote other;
  BarrierNote& told = link == to_parent ? note : other;
  const auto keep_mark = [&] { note.is_marked = note.is_marked || other.is_marked; };
  if (!is_message) {
    const Slot& slot = own_words().slots[link][number % ahead_at_most];
    take_head(slot.head, told);
    std::copy_n(slot.words.begin(), told.count, told.words.begin());
    keep_mark();
    CRATON_ASSERT(slot.signature_bytes <= slot.signature.size());
    const bool is_valid = slot.signature_bytes == 0 ||
                          signature.merge_encoded(std::span(slot.signature).first(slot.signature_bytes));
    CRATON_ASSERT(is_valid);
    return;
  }
  std::uint64_t head = 0;
  CRATON_ASSERT(arrival.bytes.size() >= sizeof head);
  std::memcpy(&head, arrival.bytes.data(), sizeof head);
  take_head(head, told);
  const std::size_t note_bytes = sizeof head + told.count * sizeof told.words[0];
  CRATON_ASSERT(arrival.bytes.size() >= note_bytes);
  std::memcpy(told.words.data(), arrival.bytes.data() + sizeof head, note_bytes - sizeof head);
  keep_mark();
  const bool well_formed = signature.merge_encoded(std::span(arrival.bytes).subspan(note_bytes));
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
  Arrival& arrival = barrier.arrivals_[link][piece.number % ahead_at_most];
  CRATON_ASSERT(!arrival.whole.load());
  arrival.bytes.resize(piece.total_bytes);
  std::memcpy(arrival.bytes.data() + piece.offset, payload + sizeof piece, count);
  arrival.received += count;
  if (arrival.received == piece.total_bytes) arrival.whole.store(true, std::memory_order_release);
}

}  // namespace craton::space
