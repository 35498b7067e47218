#include "omp/updates.hpp"

#include <csignal>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "base/futex.hpp"
#include "base/processors.hpp"
#include "base/signal_section.hpp"
#include "coherence/block_lock.hpp"
#include "omp/runtime.hpp"

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
  if (team == nullptr || team->ranks() == 1 || team->ranks() != runtime_.ranks()) return false;
  // Those who are at a meeting need not be at the same one then.
  if (team->cancellation().is_allowed() || has_no_thread_.load(std::memory_order_relaxed)) return false;
  if (!runtime_.platform().space().heartbeat().beats()) return false;
  return meeting == Meeting::barrier || function == reinterpret_cast<std::uintptr_t>(team->region().function);
}

bool Updates::put_off(void* variable, const Arithmetic& arithmetic, std::uint64_t part) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(variable);
  if (address % arithmetic.bytes != 0) return false;
  std::call_once(thread_started_, [this] {
    try {
      runtime_.platform().start_thread(&Updates::run_thread, this);
    } catch (const Error&) {
      has_no_thread_.store(true, std::memory_order_relaxed);
    }
  });
  if (has_no_thread_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(lock_);
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
  const bool is_claimed = std::atomic_ref(own_.claim).load(std::memory_order_relaxed) != unclaimed;
  if (std::exchange(puts_seen_, puts) != puts || is_claimed || !any()) return;
  beats_late_.fetch_add(1, std::memory_order_release);
  futex_wake(beats_late_, 1);
}

void Updates::run_thread(void* self) {
  use_all_processors();
  const sigset_t others = signals_from_others();  // handlers of the program's may take long
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
  auto& updates = *static_cast<Updates*>(self);
  for (std::uint32_t seen = 0;; seen = updates.beats_late_.load(std::memory_order_acquire)) {
    futex_wait(updates.beats_late_, seen, no_deadline);
    updates.runtime_.guard([&] { updates.do_now(); });
  }
}

void Updates::do_now() {
  const std::lock_guard lock(lock_);
  if (!any() || !claim(runtime_.rank(), by_own_rank)) return;
  for (std::size_t i = 0; i < own_.list.count; ++i) {
    const Update& update = own_.list.updates[i];
    runtime_.platform().run_atomically(variable_of(update), update.arithmetic.bytes,
                                       [&](void* target) { add_to(target, update); });
  }
  count().store(0, std::memory_order_relaxed);
  std::atomic_ref(own_.claim).store(unclaimed, std::memory_order_release);
}

fabric::RemoteAddress Updates::claim_of(fabric::Rank rank) const noexcept {
  fabric::RemoteAddress address = runtime_.word_at(offset_ + offsetof(PutOff, claim));
  address.rank = rank;
  return address;
}

/// \returns whether nobody had
bool Updates::claim(fabric::Rank rank, Claim as) {
  std::uint64_t previous = 0;
  fabric::Completion completion;
  runtime_.platform().fabric().compare_exchange(claim_of(rank), unclaimed, as, &previous, completion);
  coherence::wait_for(runtime_.platform().fabric(), completion);
  return previous == unclaimed;
}

void Updates::apply() {
  constexpr TimeNs patience_ns = 20'000;  // while the others' threads are at it
  fabric::Fabric& fabric = runtime_.platform().fabric();
  const fabric::Rank others = runtime_.ranks() - 1;
  std::vector<UpdateList> lists(others);
  std::vector<std::uint64_t> claims(others, unclaimed);
  const auto completions = std::make_unique<fabric::Completion[]>(others);
  for (fabric::Rank i = 0; i < others; ++i)
    fabric.compare_exchange(claim_of(i + 1), unclaimed, by_first_rank, &claims[i], completions[i]);
  for (fabric::Rank i = 0; i < others; ++i) {
    coherence::wait_for(fabric, completions[i]);
    for (bool is_ours = claims[i] == unclaimed; !is_ours; is_ours = claim(i + 1, by_first_rank))
      static_cast<void>(fabric.wait_until([] { return false; }, fabric.clock().now_ns() + patience_ns));
  }
  const auto got = std::make_unique<fabric::Completion[]>(others);
  for (fabric::Rank i = 0; i < others; ++i) {
    fabric::RemoteAddress from = claim_of(i + 1);
    from.offset = offset_ + offsetof(PutOff, list);
    fabric.get(&lists[i], from, sizeof lists[i], got[i]);
  }
  for (fabric::Rank i = 0; i < others; ++i) coherence::wait_for(fabric, got[i]);
  const std::lock_guard lock(lock_);
  apply_all(own_.list);
  for (const UpdateList& list : lists) apply_all(list);
  count().store(0, std::memory_order_relaxed);
}

void Updates::applied() noexcept {
  count().store(0, std::memory_order_relaxed);
  std::atomic_ref(own_.claim).store(unclaimed, std::memory_order_release);
}

}  // namespace craton::omp
