/// \file
/// Completion of one-sided operations, by waiting or by callback.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/assert.hpp"
#include "fabric/types.hpp"

namespace craton::fabric {

/// Counts operations in flight. The caller owns it and keeps it, and the operations' local buffers, until it
/// is done. Any number of operations of one rank may share one. An operation that finishes within the call
/// that issues it (shared memory) never touches the count, which is what keeps that path at a few
/// nanoseconds.
class Completion {
 public:
  /// Called once for each operation, when it is complete, on the thread that completes it: the issuing thread
  /// inside the issuing call, a thread inside a wait, the rank's agent, or an executor of offload/. It must
  /// not block or wait; it may issue operations and send messages. The count of this operation drops after it
  /// returns.
  using Callback = void (*)(void* context, Status status) noexcept;

  Completion() noexcept = default;
  Completion(Callback callback, void* context) noexcept : callback_(callback), context_(context) {}
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion() { CRATON_ASSERT(in_flight() == 0U); }

  /// Operations issued and not yet complete. Acquire: at zero, everything they did is visible.
  std::uint32_t in_flight() const noexcept { return in_flight_.load(std::memory_order_acquire); }
  bool done() const noexcept { return in_flight() == 0; }

  /// `peer_lost` once any of the operations ended so.
  Status status() const noexcept { return static_cast<Status>(status_.load(std::memory_order_relaxed)); }

  // For back ends.

  /// An operation has been issued and will be finished later.
  void start() noexcept { in_flight_.fetch_add(1, std::memory_order_relaxed); }
  /// A started operation is complete. After this call the Completion may be gone.
  void finish(Status status) noexcept {
    note(status);
    in_flight_.fetch_sub(1, std::memory_order_acq_rel);
  }
  /// An operation that was never started completed inside the issuing call.
  void finish_inline(Status status) noexcept {
    if (callback_ != nullptr || status != Status::ok) [[unlikely]]
      note(status);
  }

 private:
  void note(Status status) noexcept {
    if (status != Status::ok) status_.store(static_cast<std::uint8_t>(status), std::memory_order_relaxed);
    if (callback_ != nullptr) callback_(context_, status);
  }

  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<std::uint8_t> status_{0};
  Callback callback_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace craton::fabric
