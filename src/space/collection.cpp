#include "space/collection.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "coherence/block_lock.hpp"

namespace craton::space {

Collection::Collection(fabric::Fabric& fabric, fabric::HandlerId handler)
    : fabric_(fabric), handler_(handler), all_(fabric.rank() == 0 ? fabric.size() : 0) {
  fabric_.set_handler(handler_, &Collection::arrived, this);
}

std::vector<std::vector<std::byte>> Collection::collect(std::span<const std::byte> own) {
  if (fabric_.rank() == 0) {
    all_[0].assign(own.begin(), own.end());
    coherence::wait_for(fabric_, fabric_,
                        [this] { return complete_.load(std::memory_order_acquire) == fabric_.size() - 1; });
    return std::move(all_);
  }
  // An empty message ends it.
  for (;;) {
    const std::size_t count = std::min(own.size(), fabric::max_message_bytes);
    if (fabric_.send(0, handler_, own.data(), count) != fabric::Status::ok) coherence::throw_lost(fabric_);
    if (count == 0) return {};
    own = own.subspan(count);
  }
}

void Collection::arrived(void* self, fabric::Rank source, const std::byte* payload,
                         std::size_t bytes) noexcept {
  auto& collection = *static_cast<Collection*>(self);
  CRATON_ASSERT(source < collection.all_.size());
  if (bytes == 0) {
    collection.complete_.fetch_add(1, std::memory_order_release);
    return;
  }
  std::vector<std::byte>& whole = collection.all_[source];
  whole.insert(whole.end(), payload, payload + bytes);
}

}  // namespace craton::space
