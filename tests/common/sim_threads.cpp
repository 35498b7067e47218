#include "sim_threads.hpp"

#include <algorithm>
#include <utility>

namespace craton::test {

void Known::merge(const Known& other) {
  for (std::size_t i = 0; i < other.writes_.size(); ++i) writes_[i] = std::max(writes_[i], other.writes_[i]);
}

bool Known::includes(const Known& other) const {
  return std::equal(other.writes_.begin(), other.writes_.end(), writes_.begin(),
                    [](std::uint32_t least, std::uint32_t known) { return known >= least; });
}

SimThreads::SimThreads(std::uint64_t seed, Rank ranks, std::size_t stack_bytes)
    : random_(seed),
      program_random_(Random::mix(seed)),
      scheduler_(random_, pace_ns, random_.one_in(4) ? 20 : 0, ranks, stack_bytes),
      known_(ranks, Known(ranks)) {}

SimThread& SimThreads::add(Rank rank, bool is_agent, std::function<void()> body) {
  threads_.push_back(
      std::make_unique<SimThread>(SimThread{.rank = rank, .number = threads_.size(), .is_agent = is_agent}));
  SimThread& thread = *threads_.back();
  thread.fiber = &scheduler_.spawn(rank, "thread " + std::to_string(thread.number), std::move(body));
  return thread;
}

std::string SimThreads::run(bool may_sleep) {
  constexpr std::uint64_t steps_most = 400'000;
  while (failure_.empty() && scheduler_.uncaught().empty() && scheduler_.step())
    if (scheduler_.steps() > steps_most) fail("it goes on and on");
  if (failure_.empty()) failure_ = scheduler_.uncaught();
  if (failure_.empty() && !may_sleep) failure_ = stuck();
  return failure_;
}

std::string SimThreads::stuck() const {
  std::string all;
  for (const auto& thread : threads_)
    if (!thread->fiber->finished() && !thread->is_agent)
      all += " thread " + std::to_string(thread->number) + " of rank " + std::to_string(thread->rank) +
             " is " + thread->fiber->doing() + ";";
  return all.empty() ? all : "nothing happens any more:" + all;
}

void SimThreads::abandon() {
  is_abandoned_ = true;
  // Who is queued for a fiber::Mutex comes after its holder, which hands it over as it ends.
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const auto& thread : threads_) {
      if (thread->fiber->finished() || thread->fiber->queued()) continue;
      scheduler_.finish_now(*thread->fiber);
      goes_on = true;
    }
  }
}

SimThread& SimThreads::current() {
  const auto is_current = [&](const auto& thread) { return thread->fiber == scheduler_.current(); };
  return **std::find_if(threads_.begin(), threads_.end(), is_current);
}

void SimThreads::fail(const std::string& what) {
  if (failure_.empty() && !is_abandoned_) failure_ = what;
}

void SimThreads::others_may_run() {
  if (!is_abandoned_ && random_.one_in(2)) scheduler_.yield(true);
}

void SimThreads::maybe_switch() {
  others_may_run();
  if (is_abandoned_) throw fabric::sim::RankKilled();
}

void SimThreads::compute() {
  if (!is_abandoned_) scheduler_.sleep_until("computing", soon(), true);
  if (is_abandoned_) throw fabric::sim::RankKilled();
}

TimeNs SimThreads::soon() {
  const TimeNs scale_ns = program_random_.one_in(2) ? 4 * pace_ns : 64 * pace_ns;
  return scheduler_.clock().now_ns() + scheduler_.random_delay(scale_ns);
}

}  // namespace craton::test
