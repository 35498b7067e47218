#include "omp/loops.hpp"

#include <algorithm>
#include <cstddef>
#include <mutex>

#include "omp/team_host.hpp"
#include "omp/words.hpp"

namespace craton::omp {

namespace {

constexpr unsigned turn_shift = 24;
constexpr std::uint64_t given_mask = (std::uint64_t{1} << turn_shift) - 1;
/// A share of the rest for each rank is so many times smaller than an even one.
constexpr std::uint64_t shares_a_rank = 2;

constexpr std::uint64_t ceiling(std::uint64_t number, std::uint64_t divisor) noexcept {
  return number / divisor + (number % divisor != 0 ? 1 : 0);
}
/// The turn of a loop's slot, where a word has it.
constexpr std::uint64_t turn_of(std::uint64_t number) noexcept {
  return (number / loop_words + 1) << turn_shift;
}
/// Above 0 for a word that is ahead. One that nobody has changed for half of all turns would seem to be: at
/// ten million work shares a second, for a month.
constexpr std::int64_t ahead_of(std::uint64_t word, std::uint64_t turn) noexcept {
  return static_cast<std::int64_t>((word & ~given_mask) - turn);
}

}  // namespace

Iterations Iterations::of(long start, long end, long step) noexcept {
  const auto first = static_cast<std::uint64_t>(start);
  const auto last = static_cast<std::uint64_t>(end);
  const auto by = static_cast<std::uint64_t>(step);
  std::uint64_t count = 0;
  if (step > 0 && start < end) count = ceiling(last - first, by);
  if (step < 0 && start > end) count = ceiling(first - last, -by);
  return {.start = first, .step = by, .end = last, .count = count};
}

Iterations Iterations::of(bool up, std::uint64_t start, std::uint64_t end, std::uint64_t step) noexcept {
  std::uint64_t count = 0;
  if (up && start < end) count = ceiling(end - start, step);
  if (!up && start > end) count = ceiling(start - end, -step);
  return {.start = start, .step = step, .end = end, .count = count};
}

bool Loops::next(LoopPosition& position, std::uint32_t thread_number) {
  if (position.loop.kind == WorkKind::none) return false;
  if (position.loop.kind == WorkKind::fixed) return next_static(position, thread_number);
  return next_shared(position);
}

bool Loops::next_static(LoopPosition& position, std::uint32_t thread_number) const noexcept {
  const std::uint64_t count = position.loop.iterations.count;
  const std::uint64_t chunk = position.loop.chunk;
  const std::uint64_t trip = position.trip++;
  if (chunk == 0) {
    if (trip != 0) return false;
    // As the compiler does: the first ones have one iteration more.
    const std::uint64_t each = count / shape_.size;
    const std::uint64_t more = count % shape_.size;
    position.first = each * thread_number + std::min<std::uint64_t>(thread_number, more);
    position.last = position.first + each + (thread_number < more ? 1 : 0);
    return position.first < position.last;
  }
  const std::uint64_t chunks = ceiling(count, chunk);
  if (trip > chunks / shape_.size) return false;
  const std::uint64_t mine = trip * shape_.size + thread_number;
  if (mine >= chunks) return false;
  position.first = mine * chunk;
  position.last = position.first + std::min(count - position.first, chunk);
  return true;
}

/// What is given away one by one: chunks, or the sections that are this rank's.
std::uint64_t Loops::units_of(const Loop& loop) const noexcept {
  const std::uint64_t count = loop.iterations.count;
  if (loop.kind != WorkKind::sections) return ceiling(count, loop.chunk);
  // They go round the ranks, so that few of them are not all at one.
  return count <= shape_.own ? 0 : ceiling(count - shape_.own, shape_.ranks);
}

bool Loops::next_shared(LoopPosition& position) {
  const Loop& loop = position.loop;
  const std::uint64_t units = units_of(loop);
  Slot& slot = slots_[position.number % slots];
  const std::lock_guard lock(slot.lock);
  if (slot.number > position.number) return false;
  if (slot.number < position.number) {
    slot.number = position.number;
    slot.is_last = shape_.ranks == 1 || loop.kind == WorkKind::sections;
    slot.next = 0;
    slot.end = slot.is_last ? units : 0;
  }
  if (slot.next == slot.end && !slot.is_last) take_share(slot, position, units);
  if (slot.next == slot.end) return false;
  const std::uint64_t unit = slot.next;
  const std::uint64_t taken = loop.kind == WorkKind::guided ? ceiling(slot.end - unit, shape_.local) : 1;
  slot.next += taken;
  if (loop.kind == WorkKind::sections) {
    position.first = shape_.own + unit * shape_.ranks;
    position.last = position.first + 1;
    return true;
  }
  const std::uint64_t count = loop.iterations.count;
  position.first = unit * loop.chunk;
  const std::uint64_t left = count - position.first;
  position.share_last = slot.end == units ? count : slot.end * loop.chunk;
  position.last = position.first + (taken > left / loop.chunk ? left : taken * loop.chunk);
  return true;
}

/// With the slot's lock. Leaves it empty, and marked as the last share, if nothing is left.
void Loops::take_share(Slot& slot, const LoopPosition& position, std::uint64_t units) {
  // Where a loop has more chunks than a word can count, several are one.
  unsigned scale = 0;
  while (units >> scale > given_mask / 2) ++scale;
  const std::uint64_t total = ceiling(units, std::uint64_t{1} << scale);
  const std::uint64_t turn = turn_of(position.number);
  const std::size_t word = offsetof(Words, loops) + position.number % loop_words * sizeof(std::uint64_t);
  for (;;) {
    const std::uint64_t seen = slot.seen;
    const std::int64_t ahead = ahead_of(seen, turn);
    const std::uint64_t given = ahead < 0 ? 0 : seen & given_mask;
    const std::uint64_t rest = ahead > 0 || given >= total ? 0 : total - given;
    std::uint64_t share = rest / (shares_a_rank * shape_.ranks);
    // Who waits for the iteration before its own should not wait for another rank's whole share.
    if (position.loop.ordered || position.loop.doacross) share = 0;
    share = std::min(rest, std::max<std::uint64_t>(share, shape_.local));
    const std::uint64_t desired = ahead > 0 ? seen : turn | (given + share);
    slot.seen = host_.compare_exchange(word, seen, desired);
    if (slot.seen != seen) continue;
    slot.seen = desired;
    slot.is_last = rest == 0;
    slot.next = given << scale;
    slot.end = std::min(units, (given + share) << scale);
    if (rest == 0) slot.end = slot.next;
    return;
  }
}

}  // namespace craton::omp
