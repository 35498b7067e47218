#include "omp/remote_unlocks.hpp"

namespace craton::omp {

void RemoteUnlocks::unlock(LockNumber lock) {
  if (team_.ranks() == 1) return;
  team_.flush_output();
  team_.publish();
  const std::lock_guard asking(asking_);
  holder_.store(nobody, std::memory_order_relaxed);
  ask(Message::Kind::find_holder, lock, 0, team_.ranks());
  const fabric::Rank holder = holder_.load(std::memory_order_relaxed);
  if (holder != nobody) ask(Message::Kind::unlock, lock, holder, holder + 1);
}

/// Those ranks, but for this one, and waits for their answers.
void RemoteUnlocks::ask(Message::Kind kind, LockNumber lock, fabric::Rank first, fabric::Rank end) {
  const bool asks_self = first <= team_.rank() && team_.rank() < end;
  Message question{};
  question.kind = kind;
  question.id = lock;
  answers_due_.store(end - first - (asks_self ? 1 : 0), std::memory_order_release);
  for (fabric::Rank rank = first; rank < end; ++rank)
    if (rank != team_.rank()) team_.send(rank, question);
  team_.wait_in_fabric([&] { return answers_due_.load(std::memory_order_acquire) == 0; });
}

void RemoteUnlocks::arrived(fabric::Rank source, const Message& message) noexcept {
  if (message.kind == Message::Kind::about_lock) {
    if (message.part != 0) holder_.store(source, std::memory_order_relaxed);
    answers_due_.fetch_sub(1, std::memory_order_acq_rel);
    return;
  }
  const Order order{.by = source, .message = message};
  if (message.kind == Message::Kind::find_holder)
    return answer(order, locks_.is_held(static_cast<LockNumber>(message.id)));
  const std::lock_guard lock(lock_);
  if (!has_thread_) host_.start_thread();
  has_thread_ = true;
  orders_.push_back(order);
  host_.wake_thread();
}

void RemoteUnlocks::answer(const Order& order, bool holds) noexcept {
  Message message = order.message;
  message.kind = Message::Kind::about_lock;
  message.part = holds ? 1 : 0;
  team_.send(order.by, message);
}

void RemoteUnlocks::do_ordered() {
  for (;;) {
    Order order{};
    {
      const std::lock_guard lock(lock_);
      if (orders_.empty()) return;
      order = orders_.front();
      orders_.pop_front();
    }
    team_.learn(order.by);
    locks_.unlock_for_another(static_cast<LockNumber>(order.message.id));
    answer(order, false);
  }
}

}  // namespace craton::omp
