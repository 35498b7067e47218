#include "space/owned_atomics.hpp"

#include <pthread.h>

#include <array>
#include <csignal>
#include <cstring>
#include <system_error>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/processors.hpp"
#include "base/scope_exit.hpp"
#include "base/signal_section.hpp"
#include "coherence/exclusive.hpp"

namespace craton::space {

namespace {

constexpr std::size_t block_bytes = OwnedSegment::block_bytes;
static_assert(sizeof(LineNotes) <= block_bytes);
constexpr std::size_t order_blocks = OwnedAtomics::address_bytes / block_bytes;

SegmentOptions order_options() {
  SegmentOptions options;
  options.name = "order of atomics on stacks";
  options.bytes = OwnedAtomics::address_bytes;
  options.block_bytes = block_bytes;
  options.initial_homes = {.kind = coherence::InitialHomes::Kind::cyclic};
  options.dials.strength = coherence::Strength::strong;
  // While an instruction on another node's word takes its round trips: a counter there that four ranks raise
  // all the time takes 0.22 ms instead of 0.36.
  options.dials.hold_ns = 300'000;
  return options;
}

std::size_t order_offset(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) / LineNotes::line_bytes % order_blocks * block_bytes;
}

/// One that a processor changes at once.
bool is_word(const void* address, std::size_t bytes) noexcept {
  return bytes <= 8 && reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// Calls `body` with a zero of so many bytes: 1, 2, 4, else 8.
template <typename Body>
auto with_word_of(std::size_t bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

/// At once, where the processor does that.
void copy_word(const void* from, void* to, std::size_t bytes) noexcept {
  with_word_of(bytes, [&]<typename Word>(Word) {
    const Word word = *static_cast<const volatile Word*>(from);
    std::memcpy(to, &word, sizeof word);
  });
}

std::uint64_t load_word(void* address, std::size_t bytes) noexcept {
  return with_word_of(bytes, [&]<typename Word>(Word) -> std::uint64_t {
    return std::atomic_ref(*static_cast<Word*>(address)).load();
  });
}

/// \param before becomes what is there \returns whether it was that
bool compare_exchange_word(void* address, std::size_t bytes, std::uint64_t& before,
                           std::uint64_t after) noexcept {
  return with_word_of(bytes, [&]<typename Word>(Word) {
    auto expected = static_cast<Word>(before);
    const std::atomic_ref word(*static_cast<Word*>(address));
    const bool is_done = word.compare_exchange_strong(expected, static_cast<Word>(after));
    before = expected;
    return is_done;
  });
}

}  // namespace

OwnedAtomics::OwnedAtomics(fabric::Fabric& fabric, Space& space, OwnedSegment& memory,
                           fabric::HandlerId handler, Order order_of_plain_stores)
    : space_(space),
      fabric_(fabric),
      memory_(memory),
      handler_(handler),
      order_of_plain_stores_(order_of_plain_stores),
      asked_(std::make_unique<Asked[]>(fabric_.size())) {
  const Segment& order = space_.create_segment(order_options());
  order_ = order.data();
  order_id_ = order.blocks().id();
  fabric_.set_handler(handler_, &OwnedAtomics::arrived, this);
  space_.barrier().wait();  // all have set it
}

void OwnedAtomics::stop() noexcept {
  const std::lock_guard lock(thread_lock_);
  if (!thread_.joinable()) return;
  stopping_.store(true);
  questions_.fetch_add(1);
  futex_wake(questions_, 1);
  thread_.join();
}

// ---- Instructions

void OwnedAtomics::run(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction) {
  const bool is_native =
      memory_.owner_of(address) == fabric_.rank() && order_of_plain_stores_ == Order::flushed;
  if (is_native || !is_word(address, bytes))
    return in_order(address, [&] { memory_.run_atomic(address, bytes, instruction); });
  run_on_word(address, bytes, instruction, &OwnedAtomics::may_be_looked_for);
}

void OwnedAtomics::exchange(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction) {
  if (is_word(address, bytes)) return run_on_word(address, bytes, instruction, &OwnedAtomics::is_changed);
  const SignalSection section;  // a handler may come here too
  tell_all();
  in_order(address, [&] { memory_.run_atomic(address, bytes, instruction); });
  tell_those_with_copies(address);
}

bool OwnedAtomics::may_be_looked_for(const void* address, std::uint64_t before, std::uint64_t after) const {
  if (after == before) return false;
  if (after == 0) return memory_.owner_of(address) != fabric_.rank();
  if (order_of_plain_stores_ == Order::flushed) return false;
  // Some programs count in the bits above.
  constexpr std::uint64_t address_bits = (std::uint64_t{1} << 48U) - 1;
  const auto* const pointer = reinterpret_cast<const void*>(after & address_bits);
  return memory_.contains(pointer) || space_.find(pointer) != nullptr;
}

/// Nobody else comes meanwhile, even while all others are told and asked: else it would be in vain each time
/// that somebody does.
void OwnedAtomics::run_on_word(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction,
                               MustBeTold must_be_told) {
  const SignalSection section;  // a handler may come here too
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  bool others_know = false;
  const auto try_it = [&] {
    bool is_done = false;
    memory_.run_atomic(address, bytes, [&](void* target) {
      before = load_word(target, bytes);
      do {
        after = before;
        instruction(&after);  // the lower bytes of the word come first
        is_done = others_know || !(this->*must_be_told)(address, before, after);
      } while (is_done && !compare_exchange_word(target, bytes, before, after));
    });
    return is_done;
  };
  with_notes(address, [&](LineNotes& notes) {
    if (!try_it()) {
      // What those know who were there before has come along by now.
      tell_all();
      others_know = true;
      try_it();
    }
    const bool is_as_left = notes.note(reinterpret_cast<std::uintptr_t>(address), before, after, bytes);
    if (!is_as_left && order_of_plain_stores_ == Order::causal) ask_all();
  });
  if (others_know) tell_those_with_copies(address);
}

void OwnedAtomics::look(void* address, std::size_t bytes,
                        FunctionRef<Judgement(std::span<const std::byte> found)> judge,
                        FunctionRef<void(void* target)> load) {
  const SignalSection section;  // a handler may come here too
  alignas(8) std::array<std::byte, 8> found{};
  CRATON_ASSERT(bytes <= found.size());
  const bool is_here = memory_.is_mapped(address);
  if (!is_here && reinterpret_cast<std::uintptr_t>(address) % found.size() + bytes > found.size())
    return load(address);
  const auto get = [&] {
    memory_.run_atomic(address, bytes, [&](void* target) { copy_word(target, found.data(), bytes); });
  };
  get();
  const Judgement judgement = judge(std::span(found).first(bytes));
  if (judgement.wait_ns != 0) {
    const std::array before = found;
    const auto is_other = [&] {
      if (is_here) copy_word(address, found.data(), bytes);
      return found != before;
    };
    static_cast<void>(fabric_.wait_until(is_other, fabric_.clock().now_ns() + judgement.wait_ns));
    get();
  }
  if (!judgement.is_known) ask_all();
  load(found.data());
}

/// The block may be taken away while the instruction runs; then the second time brings it back, with what
/// those know who came in between.
void OwnedAtomics::in_order(const void* address, FunctionRef<void()> instruction) {
  const std::size_t offset = order_offset(address);
  const auto have_block = [&] { reinterpret_cast<LineNotes*>(order_ + offset)->pass(); };
  space_.exclusive().run_atomic(order_id_, offset, [&] {
    have_block();
    instruction();
    have_block();
  });
}

/// As in_order(), and nobody comes in between.
void OwnedAtomics::with_notes(const void* address, FunctionRef<void(LineNotes& notes)> body) {
  const std::size_t offset = order_offset(address);
  auto& notes = *reinterpret_cast<LineNotes*>(order_ + offset);
  space_.exclusive().run_atomic(order_id_, offset, [&] {
    // Who has it may be another thread of this rank, without a processor.
    constexpr TimeNs patience_ns = 50'000;
    for (std::uint64_t turns = 0; !notes.try_lock(turns);)
      space_.exclusive().wait_while(order_id_, offset, std::as_bytes(std::span(&turns, 1)),
                                    fabric_.clock().now_ns() + patience_ns);
    const ScopeExit unlocked([&]() noexcept { notes.unlock(); });
    body(notes);
  });
}

// ---- What others must know first

void OwnedAtomics::send(fabric::Rank rank, Kind kind) noexcept {
  static_cast<void>(fabric_.send(rank, handler_, &kind, sizeof kind));
}

void OwnedAtomics::tell_all() {
  space_.publish();
  question_all(Kind::learn);
}

void OwnedAtomics::ask_all() {
  question_all(Kind::show);
  std::vector<fabric::Rank> others;
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    if (rank != fabric_.rank()) others.push_back(rank);
  space_.learn(others);
}

/// \returns when all have answered
void OwnedAtomics::question_all(Kind kind) {
  const std::lock_guard lock(telling_);
  answers_.store(0);
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    if (rank != fabric_.rank()) send(rank, kind);
  const auto is_over = [&] { return answers_.load() + 1 == fabric_.size() || fabric_.lost_ranks() != 0; };
  static_cast<void>(fabric_.wait_until(is_over, no_deadline));
  if (has_refused_.load()) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = "cannot ask all ranks about an atomic object on a stack",
                 .happened = "one could not start a thread for it",
                 .limit = "ulimit -u; cgroup pids.max",
                 .remedy = "raise the limit that is hit"});
  }
}

/// They have none of this word that is newer, and would look at theirs until they acquire.
void OwnedAtomics::tell_those_with_copies(const void* address) {
  const fabric::Rank owner = memory_.owner_of(address);
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank) {
    if (rank != fabric_.rank() && fabric_.node_of(rank) != fabric_.node_of(owner)) send(rank, Kind::renew);
  }
}

void OwnedAtomics::arrived(void* self, fabric::Rank source, const std::byte* payload,
                           std::size_t bytes) noexcept {
  auto& here = *static_cast<OwnedAtomics*>(self);
  Kind kind{};
  if (bytes != sizeof kind) return;
  std::memcpy(&kind, payload, sizeof kind);
  if (kind == Kind::answer || kind == Kind::refusal) {
    if (kind == Kind::refusal) here.has_refused_.store(true);
    here.answers_.fetch_add(1);
    return here.fabric_.notify();
  }
  if (kind == Kind::learn) here.asked_[source].to_learn.store(true);
  if (kind == Kind::show) here.asked_[source].to_show.store(true);
  if (kind == Kind::renew) here.to_renew_.store(true);
  here.questions_.fetch_add(1);
  try {
    here.start_thread();
  } catch (const std::system_error&) {
    return here.send(source, Kind::refusal);
  }
  futex_wake(here.questions_, 1);
}

/// Another one than those of the program, which may compute for long, and than the agent, which must not
/// wait. Signals are for the program's own threads.
void OwnedAtomics::start_thread() {
  const std::lock_guard lock(thread_lock_);
  if (thread_.joinable()) return;
  const sigset_t others = signals_from_others();
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &others, &before);
  const ScopeExit restored([&]() noexcept { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  thread_ = std::thread([this] { serve(); });
}

void OwnedAtomics::serve() {
  use_all_processors();
  std::vector<fabric::Rank> sources;
  try {
    for (;;) {
      const std::uint32_t seen = questions_.load();  // before anything that is told with it
      if (stopping_.load()) return;
      serve_once(sources);
      futex_wait(questions_, seen, no_deadline);
    }
  } catch (const Error& error) {
    // The program's own threads will say so. Of anything else nobody would hear.
    if (error.code() != ErrorCode::peer_lost) throw;
  }
}

void OwnedAtomics::serve_once(std::vector<fabric::Rank>& sources) {
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    if (asked_[rank].to_show.exchange(false)) sources.push_back(rank);
  if (!sources.empty()) space_.publish();
  for (const fabric::Rank rank : sources) send(rank, Kind::answer);
  sources.clear();
  for (fabric::Rank rank = 0; rank < fabric_.size(); ++rank)
    if (asked_[rank].to_learn.exchange(false)) sources.push_back(rank);
  if (to_renew_.exchange(false)) memory_.after_acquire([] {});
  if (sources.empty()) return;
  space_.learn(sources);
  for (const fabric::Rank rank : sources) send(rank, Kind::answer);
  sources.clear();
}

}  // namespace craton::space
