#include "omp/turns.hpp"

#include <mutex>

#include "omp/task_pool.hpp"
#include "omp/team.hpp"

namespace craton::omp {

void Turns::begin(const Loops::Shape& shape, std::uint64_t first_share, std::uint32_t region) {
  const std::lock_guard lock(lock_);
  shape_ = shape;
  region_ = region;
  // What a rank that was told of the region earlier has sent stays.
  turns_.erase(turns_.begin(), turns_.lower_bound(first_share));
  ended_ = first_share - 1;
}

Turns::Turn& Turns::turn_of(std::uint64_t share) {
  const std::lock_guard lock(lock_);
  const auto [found, is_new] = turns_.try_emplace(share);
  if (is_new) found->second.from.store(shape_.own, std::memory_order_relaxed);
  return found->second;
}

void Turns::wait(const LoopPosition& position) {
  Turn& turn = turn_of(position.number);
  const auto has_come = [&] { return turn.iteration.load(std::memory_order_acquire) >= position.first; };
  if (shape_.ranks == 1) return host_.wait_at_gate(has_come);
  if (!has_come()) {
    const TaskPool::FabricWait here(tasks_);
    host_.wait_in_fabric(has_come);
  }
  const fabric::Rank from = turn.from.load(std::memory_order_relaxed);
  if (from == shape_.own) return;
  host_.learn(from);
  turn.from.store(shape_.own, std::memory_order_relaxed);
}

void Turns::pass(const LoopPosition& position, std::uint32_t thread_number) {
  wait(position);
  Turn& turn = turn_of(position.number);
  const fabric::Rank next =
      position.last >= position.loop.iterations.count ? shape_.own : next_rank(position, thread_number);
  if (next != shape_.own) {
    host_.flush_output();
    host_.publish();
  }
  turn.iteration.store(position.last, std::memory_order_release);
  tasks_.wake();
  if (next == shape_.own) return;
  if (next != any_rank) return send(next, position.number, position.last);
  for (fabric::Rank rank = 0; rank < shape_.ranks; ++rank) {
    if (rank != shape_.own) send(rank, position.number, position.last);
  }
}

fabric::Rank Turns::next_rank(const LoopPosition& position, std::uint32_t thread_number) const noexcept {
  if (shape_.ranks == 1) return shape_.own;
  const Loop& loop = position.loop;
  if (loop.kind != WorkKind::fixed) return position.last < position.share_last ? shape_.own : any_rank;
  const std::uint64_t thread = loop.chunk == 0 ? thread_number + 1 : position.last / loop.chunk % shape_.size;
  fabric::Rank rank = 0;
  while (Team::first_of(rank + 1, shape_.size, shape_.ranks) <= thread) ++rank;
  return rank;
}

void Turns::send(fabric::Rank to, std::uint64_t share, std::uint64_t iteration) {
  const Message message{.kind = Message::Kind::turn,
                        .region = region_,
                        .id = share,
                        .value = iteration,
                        .part = 0,
                        .meeting = 0,
                        .task = {}};
  host_.send(to, message);
}

void Turns::end(std::uint64_t share) {
  const std::lock_guard lock(lock_);
  const auto [found, is_new] = turns_.try_emplace(share);
  if (++found->second.ended < shape_.local) return;
  // Each thread meets the loops in their order.
  ended_ = share;
  turns_.erase(turns_.begin(), std::next(found));
}

void Turns::arrived(fabric::Rank source, const Message& message) {
  {
    const std::lock_guard lock(lock_);
    if (message.id <= ended_) return;
    Turn& turn = turns_[message.id];
    if (turn.iteration.load(std::memory_order_relaxed) >= message.value) return;
    turn.from.store(source, std::memory_order_relaxed);
    turn.iteration.store(message.value, std::memory_order_release);
  }
  tasks_.wake();
}

}  // namespace craton::omp
