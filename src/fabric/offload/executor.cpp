#include "fabric/offload/executor.hpp"

#include <sched.h>

#include <utility>

namespace craton::fabric::offload {

namespace {

/// Reading the clock costs as much as a few looks at an empty queue.
constexpr unsigned looks_per_clock_reading = 8;

}  // namespace

bool Executor::issued(std::uint64_t count) noexcept {
  if (issued_.load(std::memory_order_acquire) >= count) return true;
  // The executor counts first and looks at awaited_ second.
  awaited_.store(true, std::memory_order_seq_cst);
  return issued_.load(std::memory_order_seq_cst) >= count;
}

void Executor::stop() {
  stopping_.store(true, std::memory_order_release);
  queue_.stop_consumer();
}

bool Executor::execute(const Command& command) {
  if (!assisting_) {
    progress_.begin_assisting();
    assisting_ = true;
  }
  executed_ = true;
  gathered_[gathered_count_++] = command;
  if (gathered_count_ == max_batch) issue_gathered();
  return true;
}

void Executor::issue_gathered() {
  const std::size_t count = std::exchange(gathered_count_, 0);
  bool completed = false;
  {
    // The callback of one that completes at once, since its rank is dead, may issue others. They go past the
    // queue, where this thread would wait for itself.
    const Progress::InsidePoll inside;
    completed = endpoint_.issue({gathered_.data(), count});
  }
  issued_.store(issued_.load(std::memory_order_relaxed) + count, std::memory_order_seq_cst);
  const bool awaited = awaited_.load(std::memory_order_seq_cst) && awaited_.exchange(false);
  if (completed || awaited) progress_.notify();
  // Also where commands keep coming, since nobody else may be awake to see to what is complete.
  progress_.assist();
  fiber::yield();
}

bool Executor::progress() {
  if (gathered_count_ != 0) {
    issue_gathered();
    return true;
  }
  if (!assisting_ || progress_.assist()) return assisting_;
  fiber::yield();
  // One that never sleeps may share its core after all, and then those who have work must get on with it.
  if (!sleeps_) ::sched_yield();
  return false;
}

bool Executor::is_active() {
  const bool stays = !sleeps_ && !stopping_.load(std::memory_order_acquire);
  if (executed_) {  // so something may be gathered, which progress() issues
    executed_ = false;
    looks_ = 0;
    sleep_at_ns_ = progress_.clock().now_ns() + linger_ns_;
    return true;
  }
  if (stays || ++looks_ % looks_per_clock_reading != 0 || progress_.clock().now_ns() < sleep_at_ns_)
    return true;
  if (std::exchange(assisting_, false)) progress_.end_assisting();
  return false;
}

}  // namespace craton::fabric::offload
