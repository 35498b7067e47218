#include "omp/doacross.hpp"

#include <iterator>
#include <mutex>

#include "omp/task_pool.hpp"

namespace craton::omp {

void Doacross::begin(const Loops::Shape& shape, std::uint64_t first_share) {
  const std::lock_guard lock(lock_);
  shape_ = shape;
  // What a rank that was told of the region earlier has posted stays.
  nests_.erase(nests_.begin(), nests_.lower_bound(first_share));
  ended_ = first_share - 1;
}

void Doacross::enter(const LoopPosition& position, std::span<const std::uint64_t> counts) {
  const std::lock_guard lock(lock_);
  Nest& nest = nests_[position.number];
  if (nest.counts.empty()) nest.counts.assign(counts.begin(), counts.end());
}

std::size_t Doacross::dimensions(const LoopPosition& position) {
  const std::lock_guard lock(lock_);
  return nests_[position.number].counts.size();
}

/// As Loops shares them out.
std::uint64_t Doacross::part_of(const Loop& loop, std::uint64_t iteration) const noexcept {
  if (loop.kind == WorkKind::guided) return iteration;
  if (loop.kind == WorkKind::dynamic) return iteration / loop.chunk;
  if (loop.chunk != 0) return iteration / loop.chunk % shape_.size;
  const std::uint64_t each = loop.iterations.count / shape_.size;
  const std::uint64_t more = loop.iterations.count % shape_.size;
  const std::uint64_t in_longer = more * (each + 1);
  return iteration < in_longer ? iteration / (each + 1) : more + (iteration - in_longer) / each;
}

Doacross::Place Doacross::place_of(const LoopPosition& position, std::span<const std::uint64_t> iteration) {
  const std::lock_guard lock(lock_);
  Nest& nest = nests_[position.number];
  // No loop has more iterations than a word can count: it would not end.
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < iteration.size(); ++i) number = number * nest.counts[i] + iteration[i];
  const std::uint64_t part = part_of(position.loop, iteration[0]);
  const auto [found, is_new] = nest.parts.try_emplace(part);
  if (is_new) found->second.from.store(shape_.own, std::memory_order_relaxed);
  return {.iteration = number, .part = part, .state = &found->second};
}

void Doacross::post(const LoopPosition& position, std::span<const std::uint64_t> iteration) {
  const Place place = place_of(position, iteration);
  if (shape_.ranks > 1) {
    host_.flush_output();
    host_.publish();
  }
  place.state->posted.store(place.iteration + 1, std::memory_order_release);
  tasks_.wake();
  const Message message{.kind = Message::Kind::posted,
                        .region = 0,
                        .id = position.number,
                        .value = place.iteration + 1,
                        .part = place.part,
                        .meeting = 0,
                        .task = {}};
  for (fabric::Rank rank = 0; rank < shape_.ranks; ++rank) {
    if (rank != shape_.own) host_.send(rank, message);
  }
}

void Doacross::wait(const LoopPosition& position, std::span<const std::uint64_t> iteration) {
  const Place place = place_of(position, iteration);
  Part& part = *place.state;
  const auto has_come = [&] { return part.posted.load(std::memory_order_acquire) > place.iteration; };
  if (shape_.ranks == 1) return host_.wait_at_gate(has_come);
  if (!has_come()) {
    const TaskPool::FabricWait here(tasks_);
    host_.wait_in_fabric(has_come);
  }
  const fabric::Rank from = part.from.load(std::memory_order_relaxed);
  if (from == shape_.own || part.learnt.load(std::memory_order_acquire) > place.iteration) return;
  const std::uint64_t posted = part.posted.load(std::memory_order_acquire);
  host_.learn(from);
  part.learnt.store(posted, std::memory_order_release);
}

void Doacross::end(std::uint64_t share) {
  const std::lock_guard lock(lock_);
  const auto found = nests_.try_emplace(share).first;
  if (++found->second.ended < shape_.local) return;
  // Each thread meets the loops in their order.
  ended_ = share;
  nests_.erase(nests_.begin(), std::next(found));
}

void Doacross::arrived(fabric::Rank source, const Message& message) {
  {
    const std::lock_guard lock(lock_);
    if (message.id <= ended_) return;
    Part& part = nests_[message.id].parts[message.part];
    if (part.posted.load(std::memory_order_relaxed) >= message.value) return;
    part.from.store(source, std::memory_order_relaxed);
    part.posted.store(message.value, std::memory_order_release);
  }
  tasks_.wake();
}

}  // namespace craton::omp
