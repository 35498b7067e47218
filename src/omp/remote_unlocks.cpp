#include "omp/remote_unlocks.hpp"

#include <system_error>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/processors.hpp"
#include "base/signals_blocked.hpp"
#include "coherence/block_lock.hpp"
#include "omp/runtime.hpp"

namespace craton::omp {

void RemoteUnlocks::unlock(LockNumber lock) {
  if (runtime_.ranks() == 1) return;
  runtime_.platform().flush_output();
  runtime_.platform().space().publish();
  const std::lock_guard asking(asking_);
  holder_.store(nobody, std::memory_order_relaxed);
  ask(Message::Kind::find_holder, lock, 0, runtime_.ranks());
  const fabric::Rank holder = holder_.load(std::memory_order_relaxed);
  if (holder != nobody) ask(Message::Kind::unlock, lock, holder, holder + 1);
}

/// Those ranks, but for this one, and waits for their answers.
void RemoteUnlocks::ask(Message::Kind kind, LockNumber lock, fabric::Rank first, fabric::Rank end) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  const bool asks_self = first <= runtime_.rank() && runtime_.rank() < end;
  Message question{};
  question.kind = kind;
  question.id = lock;
  question.value = asked_.load(std::memory_order_relaxed) + 1;
  answers_due_.store(end - first - (asks_self ? 1 : 0), std::memory_order_relaxed);
  asked_.store(question.value, std::memory_order_release);
  for (fabric::Rank rank = first; rank < end; ++rank)
    if (rank != runtime_.rank()) runtime_.send(rank, question);
  coherence::wait_for(fabric, fabric, [&] { return answers_due_.load(std::memory_order_acquire) == 0; });
}

void RemoteUnlocks::arrived(fabric::Rank source, const Message& message) noexcept {
  if (message.kind == Message::Kind::about_lock) {
    if (message.value != asked_.load(std::memory_order_acquire)) return;
    if (message.part != 0) holder_.store(source, std::memory_order_relaxed);
    answers_due_.fetch_sub(1, std::memory_order_acq_rel);
    return;
  }
  const Order order{.by = source, .message = message};
  if (message.kind == Message::Kind::find_holder)
    return answer(order, runtime_.locks().is_held(static_cast<LockNumber>(message.id)));
  const std::lock_guard lock(lock_);
  if (!has_thread_) start_thread();
  orders_.push_back(order);
  ordered_.fetch_add(1, std::memory_order_release);
  futex_wake(ordered_, 1);
}

void RemoteUnlocks::answer(const Order& order, bool holds) noexcept {
  Message message = order.message;
  message.kind = Message::Kind::about_lock;
  message.part = holds ? 1 : 0;
  runtime_.send(order.by, message);
}

void RemoteUnlocks::start_thread() noexcept {
  try {
    const SignalsBlocked blocked;
    std::thread([this] { run_thread(); }).detach();  // it lives as long as the process
  } catch (const std::system_error& error) {
    runtime_.fail(Error::from_errno("cannot start a thread that unlocks for other ranks",
                                    error.code().value(), "ulimit -u"));
  }
  has_thread_ = true;
}

void RemoteUnlocks::run_thread() noexcept {
  use_all_processors();
  for (std::uint32_t done = 0;; ++done) {
    while (ordered_.load(std::memory_order_acquire) == done) futex_wait(ordered_, done, no_deadline);
    Order order{};
    {
      const std::lock_guard lock(lock_);
      order = orders_.front();
      orders_.pop_front();
    }
    runtime_.guard([&] {
      runtime_.platform().space().learn(order.by);
      runtime_.locks().unlock_for_another(static_cast<LockNumber>(order.message.id));
    });
    answer(order, false);
  }
}

}  // namespace craton::omp
