#include "coherence/block_lock.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "coherence/state_lock.hpp"

namespace craton::coherence {

void throw_lost(fabric::Fabric& fabric) {
  std::string who;
  for (fabric::Rank rank = 0; rank < fabric.size(); ++rank) {
    if (!fabric.alive(rank)) who += fmt::format("{}rank {}", who.empty() ? "" : ", ", rank);
  }
  throw Error(ErrorCode::peer_lost, {.asked = "cannot keep the shared memory coherent",
                                     .happened = who.empty() ? "a rank died" : who + " died",
                                     .limit = {},
                                     .remedy = {}});
}

void wait_for(fabric::Fabric& fabric, fabric::Completion& completion) {
  if (fabric.wait(completion) != fabric::Status::ok) throw_lost(fabric);
}

namespace {

std::uint64_t load(const std::uint64_t& word) noexcept {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load();
}
void store(std::uint64_t& word, std::uint64_t value) noexcept {
  interleave();
  std::atomic_ref(word).store(value);
}

/// \param initial by which the word is stored \returns what it was
std::uint64_t exchange_own(std::uint64_t& word, std::uint64_t initial, std::uint64_t expected,
                           std::uint64_t desired) noexcept {
  interleave();
  std::uint64_t found = expected ^ initial;
  std::atomic_ref(word).compare_exchange_strong(found, desired ^ initial);
  return found ^ initial;
}

}  // namespace

std::uint64_t RemoteWords::own_link(std::uint64_t block) const noexcept {
  return load(own_[block].link) ^ initial_link(fabric_.rank(), block);
}
std::uint64_t RemoteWords::own_lease(std::uint64_t block) const noexcept {
  return load(own_[block].lease) ^ initial_lease(fabric_.rank(), block);
}
Timestamp RemoteWords::own_write_ts(std::uint64_t block) const noexcept {
  return load(own_[block].write_ts);
}
bool RemoteWords::own_exposed(std::uint64_t block) const noexcept {
  return load(own_[block].exposed) != 0;
}
std::uint64_t RemoteWords::own_updater(std::uint64_t block) const noexcept {
  return load(own_[block].updater);
}
void RemoteWords::set_own_updater(std::uint64_t block, std::uint64_t value) noexcept {
  store(own_[block].updater, value);
}
void RemoteWords::set_own_link(std::uint64_t block, std::uint64_t value) noexcept {
  store(own_[block].link, value ^ initial_link(fabric_.rank(), block));
}
void RemoteWords::set_own_lease(std::uint64_t block, std::uint64_t value) noexcept {
  store(own_[block].lease, value ^ initial_lease(fabric_.rank(), block));
}
void RemoteWords::set_own_write_ts(std::uint64_t block, Timestamp value) noexcept {
  store(own_[block].write_ts, value);
}
void RemoteWords::set_own_exposed(std::uint64_t block, bool value) noexcept {
  store(own_[block].exposed, value ? 1 : 0);
}

std::uint64_t RemoteWords::exchange_own_link(std::uint64_t block, std::uint64_t expected,
                                             std::uint64_t desired) noexcept {
  return exchange_own(own_[block].link, initial_link(fabric_.rank(), block), expected, desired);
}
std::uint64_t RemoteWords::swap_own_lease(std::uint64_t block, std::uint64_t value) noexcept {
  interleave();
  const std::uint64_t initial = initial_lease(fabric_.rank(), block);
  return std::atomic_ref(own_[block].lease).exchange(value ^ initial) ^ initial;
}
std::uint64_t RemoteWords::exchange_own_lease(std::uint64_t block, std::uint64_t expected,
                                              std::uint64_t desired) noexcept {
  return exchange_own(own_[block].lease, initial_lease(fabric_.rank(), block), expected, desired);
}

BlockWords RemoteWords::get(fabric::Rank rank, std::uint64_t block) {
  BlockWords words;
  fabric::Completion completion;
  start_get(rank, block, words, completion);
  waits_.wait(completion);
  decode(rank, block, words);
  return words;
}

std::uint64_t RemoteWords::exchange(fabric::RemoteAddress word, std::uint64_t expected,
                                    std::uint64_t desired) {
  std::uint64_t previous = 0;
  fabric::Completion completion;
  fabric_.compare_exchange(word, expected, desired, &previous, completion);
  waits_.wait(completion);
  return previous;
}

std::uint64_t RemoteWords::swap(fabric::RemoteAddress word, std::uint64_t value) {
  std::uint64_t previous = 0;
  fabric::Completion completion;
  fabric_.swap(word, value, &previous, completion);
  waits_.wait(completion);
  return previous;
}

std::uint64_t RemoteWords::exchange_link(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                                         std::uint64_t desired) {
  const std::uint64_t initial = initial_link(rank, block);
  return exchange(address(rank, block, offsetof(BlockWords, link)), expected ^ initial, desired ^ initial) ^
         initial;
}
std::uint64_t RemoteWords::exchange_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                                          std::uint64_t desired) {
  const std::uint64_t initial = initial_lease(rank, block);
  return exchange(address(rank, block, offsetof(BlockWords, lease)), expected ^ initial, desired ^ initial) ^
         initial;
}
std::uint64_t RemoteWords::exchange_sharers(fabric::Rank rank, std::uint64_t block, std::uint64_t expected,
                                            std::uint64_t desired) {
  return exchange(address(rank, block, offsetof(BlockWords, sharers)), expected, desired);
}
std::uint64_t RemoteWords::swap_lease(fabric::Rank rank, std::uint64_t block, std::uint64_t value) {
  const std::uint64_t initial = initial_lease(rank, block);
  return swap(address(rank, block, offsetof(BlockWords, lease)), value ^ initial) ^ initial;
}
std::uint64_t RemoteWords::swap_sharers(fabric::Rank rank, std::uint64_t block, std::uint64_t value) {
  return swap(address(rank, block, offsetof(BlockWords, sharers)), value);
}
void RemoteWords::put_write_ts(fabric::Rank rank, std::uint64_t block, Timestamp value) {
  put(address(rank, block, offsetof(BlockWords, write_ts)), value);
}
void RemoteWords::put_updater(fabric::Rank rank, std::uint64_t block, std::uint64_t value) {
  put(address(rank, block, offsetof(BlockWords, updater)), value);
}
void RemoteWords::put(fabric::RemoteAddress word, std::uint64_t value) {
  fabric::Completion completion;
  fabric_.put(word, &value, sizeof value, completion);
  waits_.wait(completion);
}

// ---- BlockLock

bool BlockLock::try_lock_own(std::uint64_t block) {
  return words_.own_link(block) == link::unlocked &&
         words_.exchange_link(fabric_.rank(), block, link::unlocked, link::locked) == link::unlocked;
}

bool BlockLock::try_lock_own_now(std::uint64_t block) noexcept {
  return words_.exchange_own_link(block, link::unlocked, link::locked) == link::unlocked;
}

fabric::Rank BlockLock::lock(std::uint64_t block, std::atomic<std::uint32_t>& answer, Take take,
                             std::optional<fabric::Rank> later) {
  const fabric::Rank self = fabric_.rank();
  const std::uint64_t own = words_.exchange_link(self, block, link::unlocked, link::locked);
  if (own == link::unlocked) return self;
  CRATON_ASSERT(link::is_rank(own));         // another thread of this rank holds it
  words_.set_own_link(block, link::locked);  // from now on others may queue behind us
  for (fabric::Rank at = later.value_or(link::rank(own));;) {
    Counters::add(counters_.lock_hops);
    answer.store(wait, std::memory_order_relaxed);
    std::uint64_t seen = take(at);
    if (seen == link::unlocked) return at;
    if (!link::is_rank(seen)) {
      const std::uint64_t state = seen;  // also behind one that only tries, which tells who follows it
      seen = words_.exchange_link(at, block, state, link::to(self));
      if (seen == state) {
        Counters::add(counters_.lock_waits);
        const auto answered = [&] {
          return answer.load(std::memory_order_acquire) != wait || fabric_.lost_ranks() != 0;
        };
        const fabric::Status waited = waits_.wait_until(answered);
        const std::uint32_t told = answer.load(std::memory_order_acquire);
        if (waited != fabric::Status::ok || told == wait) throw_lost(fabric_);
        if (told == granted) return at;
        continue;
      }
    }
    // Unlocked or got in between: the same again. Taken in between: on to who has it.
    if (link::is_rank(seen)) at = link::rank(seen);
  }
}

bool BlockLock::try_lock(std::uint64_t block, fabric::Rank& before, Take take,
                         std::optional<fabric::Rank> later) {
  const fabric::Rank self = fabric_.rank();
  before = self;
  const std::uint64_t own = words_.exchange_link(self, block, link::unlocked, link::locked);
  if (own == link::unlocked) return true;
  if (!link::is_rank(own)) return false;  // another thread of this rank holds it
  words_.set_own_link(block, link::trying);
  for (fabric::Rank at = later.value_or(link::rank(own));;) {
    const std::uint64_t seen = take(at);
    if (seen == link::unlocked) {
      before = at;
      words_.exchange_link(self, block, link::trying, link::locked);  // unless somebody has queued behind us
      return true;
    }
    if (link::is_rank(seen)) {
      at = link::rank(seen);
      continue;
    }
    // Whether it will have the lock shows soon: those who try wait for one another only towards the lock.
    if (seen == link::trying) {
      pause();
      continue;
    }
    // It is held. Whoever has queued behind us meanwhile must not wait for us.
    const std::uint64_t behind = words_.exchange_link(self, block, link::trying, link::to(at));
    if (behind != link::trying) {
      words_.set_own_link(block, link::to(at));
      tell_(context_, link::rank(behind), block, again);
    }
    return false;
  }
}

void BlockLock::pause() {
  constexpr TimeNs moment_ns = 20'000;
  static_cast<void>(waits_.wait_until([] { return false; }, fabric_.clock().now_ns() + moment_ns));
  if (fabric_.lost_ranks() != 0) throw_lost(fabric_);
}

fabric::Rank BlockLock::unlock(std::uint64_t block) {
  return unlocked(block, words_.exchange_link(fabric_.rank(), block, link::locked, link::unlocked));
}

void BlockLock::unlock_now(std::uint64_t block) noexcept {
  unlocked(block, words_.exchange_own_link(block, link::locked, link::unlocked));
}

/// \param seen what the link was
fabric::Rank BlockLock::unlocked(std::uint64_t block, std::uint64_t seen) {
  if (seen == link::locked) return fabric_.rank();
  CRATON_ASSERT(link::is_rank(seen));
  tell_(context_, link::rank(seen), block, granted);
  return link::rank(seen);
}

}  // namespace craton::coherence
