#include "space/mutexes.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.hpp"

namespace craton::space {

namespace {

/// Of those after them a rank is sent all that they show, or looks for itself.
constexpr std::size_t versions_at_most = 64;

}  // namespace

Mutexes::Mutexes(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, fabric::RegionId region,
                 fabric::HandlerId handler, std::uint32_t count)
    : fabric_(fabric),
      protocol_(protocol),
      region_(region),
      handler_(handler),
      count_(count),
      memory_("craton mutexes", count * sizeof(coherence::BlockWords)),
      words_(fabric, protocol.waits(), region, reinterpret_cast<coherence::BlockWords*>(memory_.data()),
             &Mutexes::initial_home, this),
      lock_(fabric, protocol.waits(), words_, protocol.counters(), &Mutexes::tell, this),
      locals_(count),
      asked_(fabric::ranks_to_ask(fabric)),
      acquired_(std::make_unique<std::atomic<std::uint64_t>[]>(fabric.size())) {
  fabric_.set_handler(handler_, &Mutexes::arrived, this);
  fabric_.register_region(region_, memory_);
}

void Mutexes::close() {
  fabric_.unregister_region(region_);
}

fabric::Rank Mutexes::initial_home(const void* self, std::uint64_t mutex) noexcept {
  return static_cast<fabric::Rank>(mutex % static_cast<const Mutexes*>(self)->fabric_.size());
}

void Mutexes::lock(MutexId mutex) {
  CRATON_ASSERT(mutex < count_);
  Local& local = locals_[mutex];
  local.threads.lock();
  local.is_wanted.store(true, std::memory_order_relaxed);
  Grant grant;
  const auto take = [&](fabric::Rank before) {
    if (!asked_[before]) return lock_.try_take(before, mutex);
    grant.view.rank = ask(before, mutex, grant);
    return coherence::link::unlocked;
  };
  // What another thread of this rank wrote is here already. A site for each mutex, apart from the barriers'.
  const std::uint32_t site = ~mutex;
  grant.view.rank = fabric_.rank();
  const fabric::Rank before = lock_.lock(mutex, local.answer, take);
  if (grant.view.rank != fabric_.rank()) {
    protocol_.acquire(grant.view, grant.news, site);
  } else if (before != fabric_.rank()) {
    protocol_.acquire(before, site);
  }
}

bool Mutexes::try_lock(MutexId mutex) {
  CRATON_ASSERT(mutex < count_);
  Local& local = locals_[mutex];
  while (!local.threads.try_lock()) {
    // As the one who has it now said, or one after: what those before have said is in order before is_held().
    if (local.threads.is_held() && local.is_wanted.load(std::memory_order_relaxed)) return false;
    lock_.pause();
  }
  fabric::Rank before = 0;
  if (lock_.try_lock(mutex, before)) {
    local.is_wanted.store(true, std::memory_order_relaxed);
    if (before != fabric_.rank()) protocol_.acquire(before, ~mutex);
    return true;
  }
  local.threads.unlock();
  return false;
}

void Mutexes::unlock(MutexId mutex) {
  protocol_.release();
  unlock_unpublished(mutex);
}

void Mutexes::unlock_unpublished(MutexId mutex) {
  Local& local = locals_[mutex];
  const fabric::Rank next = lock_.unlock(mutex);
  if (next != fabric_.rank())
    words_.exchange_own_link(mutex, coherence::link::to(next), coherence::link::passed_to(next));
  local.is_wanted.store(false, std::memory_order_relaxed);
  local.threads.unlock();
}

// ---- By messages

/// Has the mutex granted to this rank. \returns by whom
fabric::Rank Mutexes::ask(fabric::Rank at, MutexId mutex, Grant& grant) {
  Local& local = locals_[mutex];
  const fabric::Questions<Grant>::Asked asked(grants_, grant, mutex);
  const std::size_t ranks = std::min<std::size_t>(fabric_.size(), versions_at_most);
  struct {
    Message head;
    std::array<std::uint64_t, versions_at_most> versions;
  } question{.head = {.kind = Message::Kind::take, .mutex = mutex, .value = fabric_.rank()}, .versions = {}};
  for (fabric::Rank rank = 0; rank < ranks; ++rank) question.versions[rank] = protocol_.acquired(rank);
  for (;;) {
    local.answer.store(coherence::BlockLock::wait, std::memory_order_relaxed);
    const std::size_t bytes = sizeof question.head + ranks * sizeof question.versions[0];
    if (fabric_.send(at, handler_, &question, bytes) != fabric::Status::ok) coherence::throw_lost(fabric_);
    coherence::wait_for(fabric_, protocol_.waits(), [&] {
      return local.answer.load(std::memory_order_acquire) != coherence::BlockLock::wait;
    });
    at = local.answered_by.load(std::memory_order_relaxed);
    if (local.answer.load(std::memory_order_relaxed) == coherence::BlockLock::granted) return at;
  }
}

/// In a handler. A rank wants the mutex: grants it, or queues it behind this rank, or passes it on.
void Mutexes::asked(const Message& question, std::span<const std::byte> versions) noexcept {
  const auto origin = static_cast<fabric::Rank>(question.value);
  const std::size_t own = fabric_.rank() * sizeof(std::uint64_t);
  if (own < versions.size()) {
    std::uint64_t version = 0;
    std::memcpy(&version, versions.data() + own, sizeof version);
    acquired_[origin].store(version, std::memory_order_relaxed);
  }
  const MutexId mutex = question.mutex;
  for (;;) {
    const std::uint64_t seen = words_.own_link(mutex);
    const bool is_free = seen == coherence::link::unlocked;
    const bool is_passed_on = coherence::link::is_rank(seen);
    const bool has_next = is_passed_on && (seen & coherence::link::passed_bit) == 0;  // which it still needs
    const std::uint64_t to_origin =
        is_free || is_passed_on ? coherence::link::passed_to(origin) : coherence::link::to(origin);
    if (!has_next && words_.exchange_own_link(mutex, seen, to_origin) != seen) continue;
    if (is_free) return grant(origin, mutex);
    if (!is_passed_on) return;
    coherence::Counters::add(protocol_.counters().lock_hops);
    alignas(Message) std::array<std::byte, sizeof(Message) + versions_at_most * sizeof(std::uint64_t)> passed;
    std::memcpy(passed.data(), &question, sizeof question);
    std::memcpy(passed.data() + sizeof question, versions.data(), versions.size());
    static_cast<void>(fabric_.send(coherence::link::rank(seen), handler_, passed.data(),
                                   sizeof question + versions.size()));  // the dead need none
    return;
  }
}

/// Also in a handler. After what this rank released with it is shown.
void Mutexes::grant(fabric::Rank to, MutexId mutex) noexcept {
  struct Answer {
    Message head;
    std::uint64_t shown;
  };
  alignas(Answer) std::array<std::byte, fabric::max_message_bytes> payload;
  const std::uint64_t version = acquired_[to].load(std::memory_order_relaxed);
  std::size_t bytes = 0;
  const std::uint64_t shown =
      protocol_.exchange().encode_news(version, std::span(payload).subspan(sizeof(Answer)), bytes);
  const Answer answer{.head = {.kind = Message::Kind::granted, .mutex = mutex, .value = version},
                      .shown = shown};
  std::memcpy(payload.data(), &answer, sizeof answer);
  static_cast<void>(fabric_.send(to, handler_, payload.data(), sizeof answer + bytes));  // the dead need none
}

void Mutexes::tell(void* self, fabric::Rank to, std::uint64_t mutex, coherence::BlockLock::Answer answer) {
  auto& mutexes = *static_cast<Mutexes*>(self);
  const auto number = static_cast<MutexId>(mutex);
  if (answer == coherence::BlockLock::granted) return mutexes.grant(to, number);
  const Message message{.kind = Message::Kind::again, .mutex = number, .value = 0};
  static_cast<void>(mutexes.fabric_.send(to, mutexes.handler_, &message, sizeof message));
}

void Mutexes::arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept {
  auto& mutexes = *static_cast<Mutexes*>(self);
  Message message{};
  CRATON_ASSERT(bytes >= sizeof message);
  std::memcpy(&message, payload, sizeof message);
  CRATON_ASSERT(message.mutex < mutexes.count_);
  std::span rest(payload + sizeof message, bytes - sizeof message);
  if (message.kind == Message::Kind::take) return mutexes.asked(message, rest);
  const bool is_granted = message.kind == Message::Kind::granted;
  if (is_granted) {
    std::uint64_t shown = 0;
    CRATON_ASSERT(rest.size() >= sizeof shown);
    std::memcpy(&shown, rest.data(), sizeof shown);
    rest = rest.subspan(sizeof shown);
    // Who has followed the links itself looks for itself.
    mutexes.grants_.answered(message.mutex, [&](Grant& grant) {
      grant.view.version = message.value;
      grant.view.now = shown;
      grant.news.assign(rest.begin(), rest.end());
    });
  }
  Local& local = mutexes.locals_[message.mutex];
  local.answered_by.store(source, std::memory_order_relaxed);
  local.answer.store(is_granted ? coherence::BlockLock::granted : coherence::BlockLock::again,
                     std::memory_order_release);
}

}  // namespace craton::space
