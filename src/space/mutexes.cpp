#include "space/mutexes.hpp"

#include <cstring>

#include "base/assert.hpp"

namespace craton::space {

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
      locals_(count) {
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
  const fabric::Rank before = lock_.lock(mutex, local.answer);
  // What another thread of this rank wrote is here already. A site for each mutex, apart from the barriers'.
  if (before != fabric_.rank()) protocol_.acquire(before, ~mutex);
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
  lock_.unlock(mutex);
  locals_[mutex].is_wanted.store(false, std::memory_order_relaxed);
  locals_[mutex].threads.unlock();
}

void Mutexes::tell(void* self, fabric::Rank to, std::uint64_t mutex, coherence::BlockLock::Answer answer) {
  auto& mutexes = *static_cast<Mutexes*>(self);
  const Message message{.mutex = static_cast<std::uint32_t>(mutex), .answer = answer};
  static_cast<void>(
      mutexes.fabric_.send(to, mutexes.handler_, &message, sizeof message));  // the dead need none
}

void Mutexes::arrived(void* self, fabric::Rank /*source*/, const std::byte* payload,
                      std::size_t bytes) noexcept {
  auto& mutexes = *static_cast<Mutexes*>(self);
  Message message{};
  CRATON_ASSERT(bytes == sizeof message);
  std::memcpy(&message, payload, sizeof message);
  CRATON_ASSERT(message.mutex < mutexes.count_);
  mutexes.locals_[message.mutex].answer.store(message.answer, std::memory_order_release);
}

}  // namespace craton::space
