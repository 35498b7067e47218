#include "omp/locks.hpp"

#include <fmt/format.h>

#include <mutex>

#include "base/error.hpp"
#include "coherence/block_lock.hpp"

namespace craton::omp {

namespace {

constexpr space::MutexId unnamed_mutex = 0;
constexpr space::MutexId atomic_mutex = 1;
constexpr space::MutexId first_name_mutex = 2;
constexpr space::MutexId first_lock = first_name_mutex + critical_names_at_most;
static_assert(first_lock < mutexes_needed);
/// A rank takes so many at a time.
constexpr std::uint64_t batch = 64;

/// Its address is the name of the mutex for atomic updates.
constexpr char atomic_name = 0;

}  // namespace

const void* Locks::atomic() noexcept {
  return &atomic_name;
}

Locks::Locks(Platform& platform, fabric::RemoteAddress names, fabric::RemoteAddress taken)
    : platform_(platform),
      mutexes_(platform.space().mutexes()),
      names_(names),
      taken_(taken),
      nests_(mutexes_.count()) {
  if (mutexes_.count() >= mutexes_needed) return;
  throw Error(ErrorCode::invalid_argument,
              {.asked = "cannot start the OpenMP runtime",
               .happened = fmt::format("the space has {} mutexes", mutexes_.count()),
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
      fabric::RemoteAddress word = names_;
      word.offset += place * sizeof(std::uint64_t);
      fabric::Completion completion;
      platform_.fabric().compare_exchange(word, 0, key, &there, completion);
      coherence::wait_for(platform_.fabric(), completion);
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
  mutexes_.lock(mutex_of(name));
}

void Locks::unlock_critical(const void* name, bool publishes) {
  unlock(mutex_of(name), publishes);
}

// ---- Locks of the program

LockNumber Locks::make() {
  const std::lock_guard lock(free_lock_);
  if (free_.empty()) {
    std::uint64_t first = 0;
    fabric::Completion completion;
    platform_.fabric().fetch_add(taken_, batch, &first, completion);
    coherence::wait_for(platform_.fabric(), completion);
    for (std::uint64_t i = batch; i > 0; --i) {
      const std::uint64_t number = first_lock + first + i - 1;
      if (number < mutexes_.count()) free_.push_back(static_cast<LockNumber>(number));
    }
  }
  if (free_.empty()) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = "cannot make another OpenMP lock",
                 .happened = "all are in use",
                 .limit = fmt::format("{} locks", mutexes_.count() - first_lock),
                 .remedy = "destroy those that are no longer used, or make the space with more mutexes"});
  }
  const LockNumber number = free_.back();
  free_.pop_back();
  return number;
}

void Locks::destroy(LockNumber lock) {
  check(lock);
  const std::lock_guard guard(free_lock_);
  free_.push_back(lock);
}

void Locks::check(LockNumber lock) const {
  if (lock >= first_lock && lock < mutexes_.count()) return;
  throw Error(ErrorCode::invalid_argument, {.asked = "cannot use an OpenMP lock",
                                            .happened = "it was never initialised, or is destroyed",
                                            .limit = {},
                                            .remedy = "call omp_init_lock first"});
}

void Locks::lock(LockNumber lock) {
  check(lock);
  mutexes_.lock(lock);
}

bool Locks::try_lock(LockNumber lock) {
  check(lock);
  return mutexes_.try_lock(lock);
}

void Locks::unlock(LockNumber lock, bool publishes) {
  if (!publishes) return mutexes_.unlock_unpublished(lock);
  platform_.flush_output();
  mutexes_.unlock(lock);
}

std::uint32_t Locks::lock_nested(LockNumber lock, const Task* holder) {
  check(lock);
  Nest& nest = nests_[lock];
  // Only the holder itself has ever stored what it looks for.
  if (nest.holder.load(std::memory_order_relaxed) == holder) return ++nest.depth;
  mutexes_.lock(lock);
  nest.holder.store(holder, std::memory_order_relaxed);
  return nest.depth = 1;
}

std::uint32_t Locks::try_lock_nested(LockNumber lock, const Task* holder) {
  check(lock);
  Nest& nest = nests_[lock];
  if (nest.holder.load(std::memory_order_relaxed) == holder) return ++nest.depth;
  if (!mutexes_.try_lock(lock)) return 0;
  nest.holder.store(holder, std::memory_order_relaxed);
  return nest.depth = 1;
}

void Locks::unlock_nested(LockNumber lock, bool publishes) {
  check(lock);
  Nest& nest = nests_[lock];
  if (--nest.depth != 0) return;
  nest.holder.store(nullptr, std::memory_order_relaxed);
  unlock(lock, publishes);
}

}  // namespace craton::omp
