#include "fabric/sim/scheduler.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "base/assert.hpp"

namespace craton::fabric::sim {

namespace {

/// Stacks that this thread's worlds have done with: thousands of small worlds, one after the other, would
/// otherwise map and unmap all day. As many as a few ranks need; those of large worlds go.
class SpareStacks {
 public:
  std::unique_ptr<fiber::Stack> take(std::size_t bytes) {
    const auto fits = [bytes](const auto& stack) {
      return stack->bytes() == fiber::detail::whole_pages(bytes);
    };
    const auto found = std::find_if(stacks_.rbegin(), stacks_.rend(), fits);
    if (found == stacks_.rend()) return std::make_unique<fiber::Stack>(bytes);
    std::swap(*found, stacks_.back());
    std::unique_ptr<fiber::Stack> stack = std::move(stacks_.back());
    stacks_.pop_back();
    return stack;
  }
  void give_back(std::unique_ptr<fiber::Stack> stack) {
    if (stacks_.size() == kept_at_most) stacks_.erase(stacks_.begin());
#if defined(CRATON_FIBER_ASAN)
    __asan_unpoison_memory_region(stack->bottom(), stack->bytes());  // frames that were left for good
#endif
    stacks_.push_back(std::move(stack));
  }

 private:
  static constexpr std::size_t kept_at_most = 32;
  std::vector<std::unique_ptr<fiber::Stack>> stacks_;
};

thread_local SpareStacks spare_stacks;

}  // namespace

Fiber::Fiber(Scheduler& scheduler, Rank rank, std::string name, std::function<void()> body,
             std::size_t stack_bytes)
    : scheduler_(scheduler),
      rank_(rank),
      name_(std::move(name)),
      body_(std::move(body)),
      stack_(spare_stacks.take(stack_bytes)),
      coroutine_(std::make_unique<fiber::Coroutine>(*stack_, &Fiber::main, this)) {}

void Fiber::main(void* self) {
  auto& fiber = *static_cast<Fiber*>(self);
  const auto uncaught = [&fiber](const char* what) {
    std::string& first = fiber.scheduler_.uncaught_;
    if (first.empty()) first = "rank " + std::to_string(fiber.rank_) + " (" + fiber.name_ + "): " + what;
  };
  try {
    fiber.body_();
  } catch (const RankKilled&) {
  } catch (const std::exception& error) {
    uncaught(error.what());
  } catch (...) {
    uncaught("an exception of unknown type");
  }
  fiber.body_ = nullptr;
  fiber.state_ = State::finished;
  fiber.doing_ = "finished";
  fiber.coroutine_->finish();
}

Scheduler::Scheduler(Random& random, TimeNs pace_ns, std::uint32_t pause_one_in, Rank ranks,
                     std::size_t stack_bytes)
    : random_(random),
      pace_ns_(pace_ns),
      pause_one_in_(pause_one_in),
      stack_bytes_(stack_bytes),
      paused_until_ns_(ranks, 0) {}

Scheduler::~Scheduler() {
  for (const auto& fiber : fibers_) CRATON_ASSERT(fiber->finished());
}

void Scheduler::at(TimeNs due_ns, Action action) {
  std::size_t slot = actions_.size();
  if (free_slots_.empty()) {
    actions_.push_back(std::move(action));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    actions_[slot] = std::move(action);
  }
  events_.push_back({std::max(due_ns, clock_.now_ns()), event_number_++, slot});
  std::push_heap(events_.begin(), events_.end(), Later());
}

TimeNs Scheduler::after(TimeNs scale_ns, Action action) {
  const TimeNs due_ns = clock_.now_ns() + random_delay(scale_ns);
  at(due_ns, std::move(action));
  return due_ns;
}

TimeNs Scheduler::random_delay(TimeNs scale_ns) noexcept {
  constexpr std::uint64_t longest_tail = std::uint64_t{1} << 12U;  // two bits a doubling, at most 6 doublings
  if (scale_ns == 0) return 0;
  const int doublings = std::countr_zero(random_.next() | longest_tail) / 2;
  return 1 + static_cast<TimeNs>(
                 random_.below(static_cast<std::uint64_t>(scale_ns) << static_cast<unsigned>(doublings)));
}

bool Scheduler::step() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end(), Later());
  const Event event = events_.back();
  events_.pop_back();
  const Action action = std::exchange(actions_[event.slot], nullptr);
  free_slots_.push_back(event.slot);
  clock_.set_ns(event.due_ns);
  ++steps_;
  action();
  return true;
}

Fiber& Scheduler::spawn(Rank rank, std::string name, std::function<void()> body) {
  fibers_.push_back(std::make_unique<Fiber>(*this, rank, std::move(name), std::move(body), stack_bytes_));
  Fiber& fiber = *fibers_.back();
  make_ready(fiber);
  return fiber;
}

void Scheduler::make_ready(Fiber& fiber) {
  if (fiber.state_ != Fiber::State::fresh) fiber.state_ = Fiber::State::ready;
  after(pace_ns_, [this, &fiber] { run_when_not_paused(fiber); });
}

void Scheduler::run_when_not_paused(Fiber& fiber) {
  if (fiber.finished()) return;  // its rank has been killed
  if (random_.one_in(pause_one_in_)) pause(fiber.rank_, random_delay(100 * pace_ns_));
  const TimeNs until_ns = paused_until_ns_[fiber.rank_];
  if (clock_.now_ns() < until_ns) {
    at(until_ns + random_delay(pace_ns_), [this, &fiber] { run_when_not_paused(fiber); });
  } else {
    resume(fiber);
  }
}

void Scheduler::pause(Rank rank, TimeNs for_ns) {
  note("pause", rank, rank, static_cast<std::uint64_t>(for_ns));
  paused_until_ns_[rank] = std::max(paused_until_ns_[rank], clock_.now_ns() + for_ns);
}

void Scheduler::resume(Fiber& fiber) {
  CRATON_ASSERT(current_ == nullptr);
  current_ = &fiber;
  fiber.state_ = Fiber::State::running;
  fiber.doing_ = "running";
  void* const outer_host =
      std::exchange(fiber::NativeSystem::host(), static_cast<fiber::Host<fiber::NativeSystem>*>(&host_));
  fiber.coroutine_->resume();
  fiber::NativeSystem::host() = outer_host;
  current_ = nullptr;
  if (fiber.finished()) {
    fiber.coroutine_.reset();
    spare_stacks.give_back(std::move(fiber.stack_));
  }
}

void Scheduler::suspend(Fiber& fiber) {
  CRATON_ASSERT(current_ == &fiber);
  fiber.coroutine_->suspend();
}

void Scheduler::yield(bool may_unwind) {
  Fiber& fiber = *current_;
  fiber.doing_ = "ready to run";
  fiber.may_unwind_ = may_unwind;
  make_ready(fiber);
  suspend(fiber);
  fiber.may_unwind_ = true;
}

void Scheduler::sleep_until(const char* doing, TimeNs until_ns, bool may_unwind) {
  if (until_ns <= clock_.now_ns()) return;
  Fiber& fiber = *current_;
  fiber.state_ = Fiber::State::ready;
  fiber.doing_ = doing;
  fiber.may_unwind_ = may_unwind;
  at(until_ns, [this, &fiber] { run_when_not_paused(fiber); });
  suspend(fiber);
  fiber.may_unwind_ = true;
}

bool Scheduler::block(const char* doing, TimeNs deadline_ns) {
  Fiber& fiber = *current_;
  fiber.state_ = Fiber::State::blocked;
  fiber.doing_ = doing;
  fiber.timed_out_ = false;
  const std::uint64_t wait_number = ++fiber.wait_number_;
  if (deadline_ns != no_deadline) {
    const TimeNs late_ns = random_delay(pace_ns_);
    at(deadline_ns > no_deadline - late_ns ? deadline_ns : deadline_ns + late_ns,
       [this, &fiber, wait_number] {
         if (fiber.state_ != Fiber::State::blocked || fiber.wait_number_ != wait_number) return;
         fiber.timed_out_ = true;
         wake(fiber);
       });
  }
  suspend(fiber);
  return !fiber.timed_out_;
}

void Scheduler::wake(Fiber& fiber) {
  if (fiber.state_ == Fiber::State::blocked) make_ready(fiber);
}

void Scheduler::finish_now(Fiber& fiber) {
  if (fiber.finished()) return;
  if (fiber.state_ == Fiber::State::fresh) {
    fiber.state_ = Fiber::State::finished;
    fiber.doing_ = "killed before it started";
    fiber.body_ = nullptr;
    fiber.coroutine_.reset();
    spare_stacks.give_back(std::move(fiber.stack_));
    return;
  }
  fiber.killed_ = true;
  resume(fiber);
  CRATON_ASSERT(fiber.finished());
}

/// A fiber that waits, until another resumes it.
class WaitingFiber final : public fiber::Sleeper {
 public:
  WaitingFiber(Scheduler& scheduler, Fiber& fiber) noexcept : scheduler_(scheduler), fiber_(fiber) {}
  WaitingFiber(const WaitingFiber&) = delete;
  WaitingFiber& operator=(const WaitingFiber&) = delete;
  ~WaitingFiber() override { fiber_.queued_ = false; }
  void queue() noexcept { fiber_.queued_ = !resumed_; }
  void resume() noexcept override {
    resumed_ = true;
    fiber_.queued_ = false;
    scheduler_.wake(fiber_);
  }
  bool resumed() const noexcept { return resumed_; }

 private:
  Scheduler& scheduler_;
  Fiber& fiber_;
  bool resumed_ = false;
};

void Scheduler::WaiterHost::suspend(FunctionRef<bool(fiber::Handle)> publish) {
  Fiber& fiber = *scheduler_.current_;
  if (fiber.killed_) return;  // a destructor, while the fiber is unwound, waits for what nobody will bring
  WaitingFiber waiting(scheduler_, fiber);
  if (!publish(waiting.handle())) return;
  waiting.queue();
  while (!waiting.resumed()) {
    scheduler_.block("waiting to be resumed", no_deadline);
    if (fiber.killed_) throw RankKilled{};
  }
}

void Scheduler::note(const char* what, Rank first, Rank second, std::uint64_t detail) {
  // The text counts by its first letters, not by its address.
  const std::uint64_t kind = static_cast<unsigned char>(what[0]) * 256U + static_cast<unsigned char>(what[1]);
  for (const std::uint64_t word : {static_cast<std::uint64_t>(clock_.now_ns()), kind, std::uint64_t{first},
                                   std::uint64_t{second}, detail}) {
    fingerprint_ = Random::mix(fingerprint_ * 31 + word);
  }
  note_ring_[notes_++ % notes_kept] = {clock_.now_ns(), what, first, second, detail};
}

std::vector<Scheduler::Note> Scheduler::last_notes() const {
  std::vector<Note> notes;
  for (std::uint64_t i = notes_ > notes_kept ? notes_ - notes_kept : 0; i < notes_; ++i) {
    notes.push_back(note_ring_[i % notes_kept]);
  }
  return notes;
}

}  // namespace craton::fabric::sim
