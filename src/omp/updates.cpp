#include "omp/updates.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "omp/team.hpp"
#include "omp/thread.hpp"

namespace craton::omp {

namespace {

/// As an atomic instruction would, since threads that are none of the team's may use the variable too.
template <typename Bits>
void add_to(void* variable, const Update& update) noexcept {
  const std::atomic_ref value(*static_cast<Bits*>(variable));
  Bits before = value.load(std::memory_order_relaxed);
  while (!value.compare_exchange_weak(before,
                                      static_cast<Bits>(update.arithmetic.combine(before, update.part)))) {
  }
}

void add_to(void* variable, const Update& update) noexcept {
  switch (update.arithmetic.bytes) {
    case 1:
      return add_to<std::uint8_t>(variable, update);
    case 2:
      return add_to<std::uint16_t>(variable, update);
    case 4:
      return add_to<std::uint32_t>(variable, update);
    default:
      return add_to<std::uint64_t>(variable, update);
  }
}

void* variable_of(const Update& update) noexcept {
  return reinterpret_cast<void*>(update.variable);
}

void apply_all(const UpdateList& list) noexcept {
  for (std::size_t i = 0; i < list.count; ++i) add_to(variable_of(list.updates[i]), list.updates[i]);
}

}  // namespace

bool Updates::may_put_off(const Thread& thread, Meeting meeting, std::uintptr_t function) const noexcept {
  Team* const team = thread.state.team;
  if (team == nullptr || team->ranks() == 1 || team->ranks() != host_.ranks()) return false;
  // Those who are at a meeting need not be at the same one then.
  if (team->cancellation().is_allowed() || has_no_thread_.load(std::memory_order_relaxed)) return false;
  if (!host_.beats()) return false;
  return meeting == Meeting::barrier || function == reinterpret_cast<std::uintptr_t>(team->region().function);
}

bool Updates::put_off(void* variable, const Arithmetic& arithmetic, std::uint64_t part) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(variable);
  if (address % arithmetic.bytes != 0) return false;
  std::call_once(thread_started_, [this] {
    if (!host_.start_thread()) has_no_thread_.store(true, std::memory_order_relaxed);
  });
  if (has_no_thread_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(lock_);
  if (claim().load(std::memory_order_relaxed) != unclaimed) return false;
  auto& updates = own_.list.updates;
  const std::size_t puts = own_.list.count;
  puts_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t i = 0; i < puts && !arithmetic.is_floating; ++i) {
    if (updates[i].variable != address || updates[i].arithmetic != arithmetic) continue;
    updates[i].part = arithmetic.combine(updates[i].part, part);
    return true;
  }
  if (puts == updates.size()) return false;
  updates[puts] = {.variable = address, .part = part, .arithmetic = arithmetic};
  count().store(puts + 1, std::memory_order_relaxed);
  return true;
}

void Updates::beat() noexcept {
  const std::uint32_t puts = puts_.load(std::memory_order_relaxed);
  const bool is_claimed = claim().load(std::memory_order_relaxed) != unclaimed;
  if (std::exchange(puts_seen_, puts) != puts || is_claimed || !any()) return;
  host_.wake_thread();
}

void Updates::do_now() {
  if (!any() || !claim_own(by_own_rank)) return;
  // Whoever was about to put something off has done so.
  std::unique_lock(lock_).unlock();
  for (std::size_t i = 0; i < own_.list.count; ++i) {
    const Update& update = own_.list.updates[i];
    host_.run_atomically(variable_of(update), update.arithmetic.bytes,
                         [&](void* target) { add_to(target, update); });
  }
  give_back();
}

/// Rank 0's no other rank claims, so that an instruction does. \returns whether nobody had
bool Updates::claim_own(Claim as) {
  if (host_.rank() == 0) {
    std::uint64_t expected = unclaimed;
    return claim().compare_exchange_strong(expected, as);
  }
  UpdatesHost::Claiming own{.rank = host_.rank()};
  host_.claim({&own, 1}, as);
  return own.before == unclaimed;
}

/// Of who has the claim, and has done what it is to.
void Updates::give_back() noexcept {
  count().store(0, std::memory_order_release);
  claim().store(unclaimed, std::memory_order_release);
}

void Updates::apply() {
  std::vector<UpdatesHost::Claiming> claims;
  for (fabric::Rank rank = 1; rank < host_.ranks(); ++rank) claims.push_back({.rank = rank});
  for (;;) {
    host_.claim(claims, by_first_rank);
    std::erase_if(claims, [](const UpdatesHost::Claiming& each) { return each.before == unclaimed; });
    if (claims.empty()) break;
    host_.pause();  // their own threads are at it
  }
  while (!claim_own(by_first_rank)) host_.pause();
  const std::size_t others = host_.ranks() - 1;
  const auto lists = std::make_unique_for_overwrite<UpdateList[]>(others);
  host_.read({lists.get(), others});
  apply_all(own_.list);
  for (std::size_t i = 0; i < others; ++i) apply_all(lists[i]);
  give_back();
}

void Updates::applied() noexcept {
  if (claim().load(std::memory_order_relaxed) == by_first_rank) give_back();
}

}  // namespace craton::omp
