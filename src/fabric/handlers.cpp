#include "fabric/handlers.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"
#include "fiber/sanitizer.hpp"

#if defined(CRATON_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace craton::fabric {
namespace {

/// What a rank may have queued to itself, or hold for handlers that are not set.
constexpr std::size_t max_queued_bytes = std::size_t{256} << 20;

}  // namespace

void Handlers::set(HandlerId id, Handler handler, void* context) {
  CRATON_ASSERT(id < max_handlers);
  CRATON_ASSERT(id != wake_handler);
  CRATON_ASSERT(entries_[id].handler.load() == nullptr);
  // Not while a poll sorts out what can be delivered: a later message must not pass an earlier one.
  const std::lock_guard lock(lock_);
  entries_[id].context = context;
  entries_[id].handler.store(handler, std::memory_order_release);
}

void Handlers::queue(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes) {
  const std::lock_guard lock(lock_);
  queued_bytes_ += bytes;
  CRATON_ASSERT(queued_bytes_ <= max_queued_bytes);
  entries_[id].parked.fetch_add(1);
  queued_.fetch_add(1, std::memory_order_relaxed);
  queue_.push_back({.source = source, .id = id, .payload = std::vector<std::byte>(payload, payload + bytes)});
}

void Handlers::deliver(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes) {
  if (id == wake_handler) return;  // that something arrived is all it says
  CRATON_ASSERT(id < max_handlers);
  const Entry& entry = entries_[id];
  if (entry.handler.load(std::memory_order_acquire) == nullptr || entry.parked.load() != 0) {
    queue(source, id, payload, bytes);
  } else {
    run(source, id, payload, bytes);
  }
}

bool Handlers::poll() {
  if (queued_.load(std::memory_order_relaxed) == 0) return false;
  std::vector<Queued> ready;
  {
    const std::lock_guard lock(lock_);
    if (queue_.empty()) return false;
    const auto first_waiting = std::stable_partition(
        queue_.begin(), queue_.end(), [this](const Queued& each) { return is_deliverable(each); });
    ready.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(first_waiting));
    queue_.erase(queue_.begin(), first_waiting);
    queued_.fetch_sub(ready.size(), std::memory_order_relaxed);
    for (const Queued& each : ready) queued_bytes_ -= each.payload.size();
  }
  for (const Queued& each : ready) {
    if (each.id != wake_handler) run(each.source, each.id, each.payload.data(), each.payload.size());
    entries_[each.id].parked.fetch_sub(1);
  }
  return !ready.empty();
}

bool Handlers::ready_to_sleep() {
  const std::lock_guard lock(lock_);
  return std::none_of(queue_.begin(), queue_.end(),
                      [this](const Queued& each) { return is_deliverable(each); });
}

void Handlers::run(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes) {
#if defined(CRATON_FIBER_TSAN)
  __tsan_acquire(this);  // see sending()
#endif
  const Entry& entry = entries_[id];
  entry.handler.load(std::memory_order_acquire)(entry.context, source, payload, bytes);
}

bool Handlers::is_deliverable(const Queued& message) const noexcept {
  return message.id == wake_handler || entries_[message.id].handler.load() != nullptr;
}

void Handlers::sending() noexcept {
#if defined(CRATON_FIBER_TSAN)
  __tsan_release(this);
#endif
}

}  // namespace craton::fabric
