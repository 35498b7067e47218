#include "omp/locks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "omp/platform.hpp"

namespace craton::omp {

namespace {

constexpr space::MutexId unnamed_mutex = 0;
constexpr space::MutexId atomic_mutex = 1;
constexpr space::MutexId list_mutex = 2;
constexpr space::MutexId first_name_mutex = 3;
constexpr space::MutexId first_lock = Locks::mutexes_kept;
static_assert(first_lock == first_name_mutex + critical_names_at_most);
static_assert(first_lock < mutexes_needed);
/// A rank takes so many at a time, and gives as many back once it has twice as many besides those that rest.
constexpr std::uint64_t batch = 64;
/// So many of those that a rank destroyed last rest, but at most one in so many of all.
constexpr std::uint32_t resting_most = 16384;
constexpr std::uint32_t resting_part = 16;

/// Its address is the name of the mutex for atomic updates.
constexpr char atomic_name = 0;

}  // namespace

const void* Locks::atomic() noexcept {
  return &atomic_name;
}

Locks::Locks(TeamHost& team, LockHost& host)
    : team_(team),
      host_(host),
      mutex_count_(host.mutexes()),
      resting_(std::min(resting_most, mutex_count_ / resting_part)),
      states_(mutex_count_) {
  if (mutex_count_ >= mutexes_needed) return;
  throw Error(ErrorCode::invalid_argument, {.asked = "cannot start the OpenMP runtime",
                                            .happened = fmt::format("the space has {} mutexes", mutex_count_),
                                            .limit = fmt::format("{} at least", mutexes_needed),
                                            .remedy = "make the space with more"});
}

// ---- Critical sections

space::MutexId Locks::mutex_of(const void* name) {
  if (name == unnamed) return unnamed_mutex;
  if (name == atomic()) return atomic_mutex;
  const auto key = reinterpret_cast<std::uintptr_t>(name);
  const std::size_t start = key / sizeof(void*) % critical_names_at_most;
  for (std::size_t probe = 0; probe < critical_names_at_most; ++probe) {
    const std::size_t place = (start + probe) % critical_names_at_most;
    std::uint64_t there = known_[place].load(std::memory_order_relaxed);
    if (there == 0) {
      there = team_.compare_exchange(offsetof(Words, names) + place * sizeof(std::uint64_t), 0, key);
      if (there == 0) there = key;
      known_[place].store(there, std::memory_order_relaxed);
    }
    if (there == key) return first_name_mutex + static_cast<space::MutexId>(place);
  }
  throw Error(ErrorCode::out_of_resources, {.asked = "cannot enter a critical section",
                                            .happened = "the program has too many names for them",
                                            .limit = fmt::format("{} names", critical_names_at_most),
                                            .remedy = "use omp_lock_t for some"});
}

void Locks::lock_critical(const void* name) {
  host_.lock(mutex_of(name));
}

void Locks::unlock_critical(const void* name, bool publishes) {
  unlock_mutex(mutex_of(name), publishes);
}

// ---- Locks of the program

std::uint64_t Locks::given() {
  std::uint64_t given = 0;
  host_.read(&given, offsetof(Words, locks_given), sizeof given);
  return given;
}

/// Up to a batch of what ranks have given back. Nothing that others wrote is needed with it, so that nothing
/// is published.
void Locks::take_from_list() {
  if (given() == 0) return;
  host_.lock(list_mutex);
  std::uint64_t left = given();
  fresh_.resize(std::min(left, batch));
  left -= fresh_.size();
  if (!fresh_.empty()) {
    host_.read(fresh_.data(), sizeof(Words) + list_bytes(left), list_bytes(fresh_.size()));
    host_.write(offsetof(Words, locks_given), &left, sizeof left);
  }
  host_.unlock_unpublished(list_mutex);
}

/// Up to a batch of those that no rank has had.
void Locks::take_new() {
  const std::uint64_t first = team_.fetch_add(offsetof(Words, locks_taken), batch);
  for (std::uint64_t i = batch; i > 0; --i) {
    const std::uint64_t number = first_lock + first + i - 1;
    if (number < mutex_count_) fresh_.push_back(static_cast<LockNumber>(number));
  }
}

/// The batch that has been free for longest.
void Locks::give_to_list() {
  std::array<LockNumber, batch> numbers{};
  std::copy_n(free_.begin(), batch, numbers.begin());
  for (const LockNumber number : numbers) states_[number].is_free = false;
  host_.lock(list_mutex);
  std::uint64_t all = given();
  host_.write(sizeof(Words) + list_bytes(all), numbers.data(), list_bytes(batch));
  all += batch;
  host_.write(offsetof(Words, locks_given), &all, sizeof all);
  host_.unlock_unpublished(list_mutex);
  free_.erase(free_.begin(), free_.begin() + batch);
}

LockNumber Locks::make() {
  const std::lock_guard lock(free_lock_);
  if (fresh_.empty() && free_.size() <= resting_) {
    take_from_list();
    if (fresh_.empty()) take_new();
    if (fresh_.empty()) take_from_list();  // others may have given some meanwhile
  }
  if (fresh_.empty() && free_.empty()) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = "cannot make another OpenMP lock",
                 .happened = "all are in use",
                 .limit = fmt::format("{} locks", mutex_count_ - first_lock),
                 .remedy = fmt::format("destroy those that are no longer used, or {}",
                                       host_.remedy_for_more_mutexes())});
  }
  LockNumber number = 0;
  if (!fresh_.empty()) {
    number = fresh_.back();
    fresh_.pop_back();
  } else {
    number = free_.front();
    free_.pop_front();
    states_[number].is_free = false;
  }
  return number;
}

void Locks::destroy(LockNumber lock) {
  check(lock);
  const std::lock_guard guard(free_lock_);
  if (std::exchange(states_[lock].is_free, true)) return;  // by a copy
  free_.push_back(lock);
  if (free_.size() > resting_ + 2 * batch) give_to_list();
}

void Locks::check(LockNumber lock) const {
  if (lock >= first_lock && lock < mutex_count_) return;
  throw Error(ErrorCode::invalid_argument, {.asked = "cannot use an OpenMP lock",
                                            .happened = "it was never initialised, or is destroyed",
                                            .limit = {},
                                            .remedy = "call omp_init_lock first"});
}

void Locks::lock(LockNumber lock) {
  check(lock);
  host_.lock(lock);
  states_[lock].is_held.store(true, std::memory_order_relaxed);
}

bool Locks::try_lock(LockNumber lock) {
  check(lock);
  if (!host_.try_lock(lock)) return false;
  states_[lock].is_held.store(true, std::memory_order_relaxed);
  return true;
}

bool Locks::unlock(LockNumber lock, bool publishes) {
  check(lock);
  if (!is_held(lock)) return false;
  states_[lock].is_held.store(false, std::memory_order_relaxed);
  unlock_mutex(lock, publishes);
  return true;
}

void Locks::unlock_for_another(LockNumber lock) {
  if (states_[lock].is_held.exchange(false, std::memory_order_relaxed)) host_.unlock(lock);
}

void Locks::unlock_mutex(space::MutexId mutex, bool publishes) {
  if (!publishes) return host_.unlock_unpublished(mutex);
  team_.flush_output();
  host_.unlock(mutex);
}

std::uint32_t Locks::lock_nested(LockNumber lock, const Task* holder) {
  check(lock);
  State& state = states_[lock];
  // Only the holder itself has ever stored what it looks for.
  if (state.holder.load(std::memory_order_relaxed) == holder) return ++state.depth;
  host_.lock(lock);
  state.holder.store(holder, std::memory_order_relaxed);
  return state.depth = 1;
}

std::uint32_t Locks::try_lock_nested(LockNumber lock, const Task* holder) {
  check(lock);
  State& state = states_[lock];
  if (state.holder.load(std::memory_order_relaxed) == holder) return ++state.depth;
  if (!host_.try_lock(lock)) return 0;
  state.holder.store(holder, std::memory_order_relaxed);
  return state.depth = 1;
}

void Locks::unlock_nested(LockNumber lock, bool publishes) {
  check(lock);
  State& state = states_[lock];
  if (--state.depth != 0) return;
  state.holder.store(nullptr, std::memory_order_relaxed);
  unlock_mutex(lock, publishes);
}

}  // namespace craton::omp
