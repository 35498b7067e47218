#include "omp/rank_updates.hpp"

#include <csignal>
#include <memory>

#include "base/error.hpp"
#include "base/events.hpp"
#include "base/processors.hpp"
#include "base/signal_section.hpp"
#include "coherence/block_lock.hpp"
#include "omp/runtime.hpp"
#include "omp/updates.hpp"

namespace craton::omp {

fabric::Rank RankUpdatesHost::rank() const noexcept {
  return runtime_.rank();
}
fabric::Rank RankUpdatesHost::ranks() const noexcept {
  return runtime_.ranks();
}
bool RankUpdatesHost::beats() const noexcept {
  return runtime_.platform().space().heartbeat().beats();
}

bool RankUpdatesHost::start_thread() noexcept {
  try {
    runtime_.platform().start_thread(&RankUpdatesHost::run_thread, this);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void RankUpdatesHost::wake_thread() noexcept {
  wake_ups_.wake();
}

void RankUpdatesHost::run_thread(void* self) {
  events::detach();  // it waits for updates, and runs no code of the program
  use_all_processors();
  const sigset_t others = signals_from_others();  // handlers of the program's may take long
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
  auto& here = *static_cast<RankUpdatesHost*>(self);
  here.runtime_.guard([&] { here.wake_ups_.serve([&] { here.runtime_.updates().do_now(); }); });
}

fabric::RemoteAddress RankUpdatesHost::address(fabric::Rank rank, std::size_t offset) const noexcept {
  return runtime_.word_at(offset_ + offset, rank);
}

void RankUpdatesHost::claim(std::span<Claiming> claims, std::uint64_t as) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  const auto completions = std::make_unique<fabric::Completion[]>(claims.size());
  for (std::size_t i = 0; i < claims.size(); ++i)
    fabric.compare_exchange(address(claims[i].rank, offsetof(PutOff, claim)), 0, as, &claims[i].before,
                            completions[i]);
  for (std::size_t i = 0; i < claims.size(); ++i) coherence::wait_for(fabric, completions[i]);
}

void RankUpdatesHost::read(std::span<UpdateList> lists) {
  fabric::Fabric& fabric = runtime_.platform().fabric();
  const auto completions = std::make_unique<fabric::Completion[]>(lists.size());
  for (std::size_t i = 0; i < lists.size(); ++i)
    fabric.get(&lists[i], address(static_cast<fabric::Rank>(i + 1), offsetof(PutOff, list)), sizeof lists[i],
               completions[i]);
  for (std::size_t i = 0; i < lists.size(); ++i) coherence::wait_for(fabric, completions[i]);
}

void RankUpdatesHost::pause() {
  constexpr TimeNs moment_ns = 20'000;
  fabric::Fabric& fabric = runtime_.platform().fabric();
  static_cast<void>(fabric.wait_until([] { return false; }, fabric.clock().now_ns() + moment_ns));
}

void RankUpdatesHost::run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) {
  runtime_.platform().run_atomically(address, bytes, body);
}

}  // namespace craton::omp
