#include "sim_job.hpp"

#include <array>
#include <utility>

namespace craton::posix::test {

class SimJob::Host final : public WaitHost {
 public:
  Host(SimJob& job, Rank rank) noexcept : job_(job), rank_(rank) {}

  Rank rank() const noexcept override { return rank_; }
  Rank ranks() const noexcept override { return job_.size(); }
  bool is_near(Rank rank) const noexcept override {
    return rank / job_.ranks_a_node_ == rank_ / job_.ranks_a_node_;
  }
  /// While its threads are ended no wait is in time.
  TimeNs now_ns() const noexcept override {
    return job_.is_abandoned() ? no_deadline : job_.scheduler().clock().now_ns();
  }

  void inside(const void* object, FunctionRef<void()> step) override {
    if (job_.is_abandoned()) return step();
    job_.others_may_run();
    Lock& lock = job_.lock_of(object);
    job_.enter(lock);
    Known& known = job_.known_of(rank_);
    known.merge(lock.known);
    step();
    lock.known = job_.published_[rank_] = known;
    job_.others_may_run();
    job_.leave(lock);
    job_.others_may_run();
  }

  void learn_from(Rank rank) override {
    job_.others_may_run();
    job_.known_of(rank_).merge(job_.published_[rank]);
  }

  void tell_others(const WaitMessage& message, FunctionRef<bool(Rank)> chosen) noexcept override {
    for (Rank each = 0; each < job_.size(); ++each) {
      if (each == rank_ || !chosen(each)) continue;
      job_.scheduler().after(job_.latency_ns_, [&there = *job_.monitors_[each], message, source = rank_] {
        there.arrived(message, source);
      });
    }
  }

  void sleep(const std::atomic<std::uint32_t>& word, std::uint32_t expected, TimeNs deadline_ns) override {
    job_.others_may_run();
    if (word.load() != expected || job_.is_abandoned() || job_.scheduler_random().one_in(20)) return;
    ThreadState& state = job_.state_of_current();
    state.word = &word;
    job_.scheduler().block("asleep", deadline_ns);
    state.word = nullptr;
  }
  void wake(const std::atomic<std::uint32_t>& word) noexcept override {
    for (const SimThread* const thread : job_.threads_)
      if (job_.states_[thread->number].word == &word) job_.scheduler().wake(*thread->fiber);
  }
  void look_for_lost_ranks() override {}

  pthread_t self() noexcept override { return job_.self(); }
  void test_cancellation() override {
    if (job_.state_of_current().is_cancelled) throw Cancelled();
  }
  std::uint32_t interruptions() noexcept override { return job_.interruptions(); }
  ThreadWaits& of_thread() noexcept override { return job_.state_of_current().waits; }

 private:
  SimJob& job_;
  const Rank rank_;
};

SimJob::SimJob(std::uint64_t seed, Rank ranks)
    : SimThreads(seed, ranks, std::size_t{64} * 1024),
      one_lock_(scheduler_random().one_in(4)),
      latency_ns_(scheduler_random().pick(std::array<TimeNs, 3>{pace_ns / 4, pace_ns, 16 * pace_ns})),
      ranks_a_node_(scheduler_random().pick(std::array<Rank, 3>{1, 2, ranks})),
      published_(ranks, Known(ranks)) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    hosts_.push_back(std::make_unique<Host>(*this, rank));
    monitors_.push_back(std::make_unique<Monitor>(*hosts_[rank]));
  }
}

SimJob::~SimJob() {
  for (const ThreadState& state : states_) delete state.waits.robust;
}

SimThread& SimJob::spawn(Rank rank, std::function<void()> body) {
  SimThread& thread = SimThreads::spawn(rank, [this, body = std::move(body)] {
    try {
      body();
    } catch (const Cancelled&) {
      require(state_of_current().is_cancelled, "a thread ends that nobody has cancelled");
    }
  });
  threads_.push_back(&thread);
  states_.resize(thread.number + 1);
  return thread;
}

void SimJob::cancel_later(SimThread& thread) {
  scheduler().after(64 * pace_ns, [this, &thread] {
    if (thread.fiber->finished()) return;
    states_[thread.number].is_cancelled = true;
    monitors_[thread.rank]->stir(id_of(thread));
  });
}

void SimJob::interrupt_later(SimThread& thread) {
  scheduler().after(32 * pace_ns, [this, &thread] {
    if (thread.fiber->finished()) return;
    ++states_[thread.number].interruptions;
    if (states_[thread.number].word != nullptr) scheduler().wake(*thread.fiber);
  });
}

SimJob::Lock& SimJob::lock_of(const void* object) {
  const auto [at, is_new] = locks_.try_emplace(one_lock_ ? nullptr : object);
  if (is_new) at->second.known = Known(size());
  return at->second;
}

void SimJob::enter(Lock& lock) {
  while (lock.is_held && !is_abandoned()) {
    lock.waiting.push_back(scheduler().current());
    scheduler().block("entering", no_deadline);
  }
  lock.is_held = true;
  others_may_run();  // the object is fetched
}

void SimJob::leave(Lock& lock) {
  lock.is_held = false;
  for (fabric::sim::Fiber* const each : std::exchange(lock.waiting, {})) scheduler().wake(*each);
}

}  // namespace craton::posix::test
