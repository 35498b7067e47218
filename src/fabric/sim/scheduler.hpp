/// \file
/// Virtual time and the fibers that live in it: a queue of events in order of their time, run one after the
/// other in one kernel thread. A fiber runs from one of its events to its next yield or block. Knows nothing
/// of a fabric.
///
/// Invariant: the order of events depends on the seed and on what the fibers do, never on addresses, the
/// machine's clock or the hash of anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/types.hpp"
#include "fiber/coroutine.hpp"
#include "fiber/stack.hpp"
#include "fiber/worker.hpp"

namespace craton::fabric::sim {

/// What unwinds the fibers of a killed rank. Not a std::exception, so that programs which handle those let it
/// pass.
struct RankKilled {};

class Scheduler;
class WaitingFiber;

/// A thread of control of a rank.
class Fiber {
 public:
  enum class State : std::uint8_t { fresh, ready, running, blocked, finished };

  Fiber(Scheduler& scheduler, Rank rank, std::string name, std::function<void()> body,
        std::size_t stack_bytes);

  Rank rank() const noexcept { return rank_; }
  const std::string& name() const noexcept { return name_; }
  State state() const noexcept { return state_; }
  bool finished() const noexcept { return state_ == State::finished; }
  /// What it is blocked in; for people.
  const char* doing() const noexcept { return doing_; }
  /// False while it is suspended inside a call that lets no exception out, so that it cannot be unwound now.
  bool may_unwind() const noexcept { return may_unwind_; }
  /// It is in the queue of a fiber::Mutex or the like, which would be left with a dangling end if it were
  /// unwound now.
  bool queued() const noexcept { return queued_; }

 private:
  friend class Scheduler;
  friend class WaitingFiber;
  static void main(void* self);

  Scheduler& scheduler_;
  const Rank rank_;
  const std::string name_;
  State state_ = State::fresh;
  bool timed_out_ = false;
  bool killed_ = false;  ///< its rank has been: it is being unwound
  bool may_unwind_ = true;
  bool queued_ = false;
  std::uint64_t wait_number_ = 0;  ///< tells the timer of this wait from those of earlier ones
  const char* doing_ = "not started";
  std::function<void()> body_;
  std::unique_ptr<fiber::Stack> stack_;
  std::unique_ptr<fiber::Coroutine> coroutine_;
};

class Scheduler {
 public:
  using Action = std::function<void()>;

  Scheduler(Random& random, TimeNs pace_ns, std::uint32_t pause_one_in, Rank ranks, std::size_t stack_bytes);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- Events

  /// Runs `action` once at a time of the virtual clock. Events of one time run in the order of these calls.
  void at(TimeNs due_ns, Action action);
  /// Runs `action` after a random delay of the given scale. \returns when
  TimeNs after(TimeNs scale_ns, Action action);
  /// Runs the next event. \returns false if there is none
  bool step();
  std::uint64_t steps() const noexcept { return steps_; }
  std::size_t events() const noexcept { return events_.size(); }
  const ManualClock& clock() const noexcept { return clock_; }
  /// A delay that is mostly about half of `scale_ns` and now and then up to 64 times as long; 0 if that is 0.
  TimeNs random_delay(TimeNs scale_ns) noexcept;

  // ---- Fibers

  /// Makes a fiber that starts after a random delay.
  Fiber& spawn(Rank rank, std::string name, std::function<void()> body);
  /// The fiber that runs; null between them, in events.
  Fiber* current() const noexcept { return current_; }
  /// Lets others run. Only from a fiber. \param may_unwind whether the caller throws RankKilled if its rank
  /// dies now
  void yield(bool may_unwind);
  /// Suspends the running fiber until a time of the clock; wake() does not end it. \param may_unwind as
  /// yield()
  void sleep_until(const char* doing, TimeNs until_ns, bool may_unwind);
  /// Suspends the running fiber until wake() or, about, the deadline. \returns false if it was the deadline
  bool block(const char* doing, TimeNs deadline_ns);
  /// Lets a blocked fiber run again. No effect on others.
  void wake(Fiber& fiber);
  /// Runs none of a rank's fibers for a while.
  void pause(Rank rank, TimeNs for_ns);
  /// Runs a fiber at once, wherever it is suspended, until it finishes: it must not yield or block. A fiber
  /// that has not started finishes without running.
  void finish_now(Fiber& fiber);
  const std::vector<std::unique_ptr<Fiber>>& fibers() const noexcept { return fibers_; }

  /// What the first fiber that ended with an exception (but RankKilled) said; empty if none has.
  const std::string& uncaught() const noexcept { return uncaught_; }

  // ---- The trace

  /// Notes what happened, for the fingerprint and for people.
  void note(const char* what, Rank first, Rank second, std::uint64_t detail);
  /// A hash of all that has been noted, in order: equal for equal runs.
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  struct Note {
    TimeNs time_ns;
    const char* what;
    Rank first, second;
    std::uint64_t detail;
  };
  static constexpr std::size_t notes_kept = 48;
  /// The last notes, oldest first.
  std::vector<Note> last_notes() const;

 private:
  friend class Fiber;
  /// What the heap moves about; the action stays where it is.
  struct Event {
    TimeNs due_ns;
    std::uint64_t number;
    std::size_t slot;  ///< in actions_
  };
  struct Later {
    bool operator()(const Event& left, const Event& right) const noexcept {
      return left.due_ns != right.due_ns ? left.due_ns > right.due_ns : left.number > right.number;
    }
  };
  /// Suspends what waits for a fiber::Waiter, a fiber::Mutex and the like on a fiber of this scheduler.
  class WaiterHost final : public fiber::Host<fiber::NativeSystem> {
   public:
    explicit WaiterHost(Scheduler& scheduler) noexcept : scheduler_(scheduler) {}
    void suspend(FunctionRef<bool(fiber::Handle)> publish) override;

   private:
    Scheduler& scheduler_;
  };
  void make_ready(Fiber& fiber);
  void run_when_not_paused(Fiber& fiber);
  void resume(Fiber& fiber);
  void suspend(Fiber& fiber);

  Random& random_;
  const TimeNs pace_ns_;
  const std::uint32_t pause_one_in_;
  const std::size_t stack_bytes_;
  ManualClock clock_;
  std::vector<Event> events_;  ///< a heap
  std::vector<Action> actions_;
  std::vector<std::size_t> free_slots_;  ///< of actions_
  std::uint64_t event_number_ = 0;
  std::uint64_t steps_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<TimeNs> paused_until_ns_;  ///< by rank
  Fiber* current_ = nullptr;
  WaiterHost host_{*this};
  std::string uncaught_;
  std::uint64_t fingerprint_ = 0;
  std::uint64_t notes_ = 0;
  std::array<Note, notes_kept> note_ring_{};
};

}  // namespace craton::fabric::sim
