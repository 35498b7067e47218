/// \file
/// The tasks of a team on a rank: those made here, and those that other ranks lend.
///
///     made ─▶ waits for others ─▶ ready: queue ─▶ runs here ────────────────▶ ended
///                                      └────────▶ lent ─▶ runs elsewhere ─▶ returned, learnt ─▶ ended
///
/// Who waits runs tasks: at a barrier any, those of other ranks too; elsewhere those that it waits for.
///
/// Lending. A rank that has a task to spare tells those that it knows to be idle (`work_here`); a rank whose
/// threads all wait asks; the answer comes from a handler, so it lends only what was published before. What a
/// loan wrote is published before it goes back, and learnt before it counts as ended. All that it made goes
/// with it: a barrier or taskgroup of its owner need not know of tasks elsewhere. Where its task has ended
/// before what that made, who waits for just the task is told so, if it has wanted it back.
///
/// Who waits for tasks and has none of them to run asks for one that is lent back, one at a time, the newest
/// first. A borrower that has not begun it gives it up: all of its threads may be blocked, by a lock that
/// only who waits can unlock. What has come back is not lent again. At a barrier only what belongs to loans
/// is asked for, since elsewhere somebody may wait for those.
///
/// A rank whose threads are all inside of tasks, for long, has its heartbeat publish for those who ask; where
/// there is none, they wait for the next task to begin or end.
///
/// A rank that has left a barrier does not lend to one that has not: its loan could not be learnt before.
///
/// Invariant: a rank takes part in a barrier only when all tasks made there have ended but those that belong
/// to loans. So when all ranks have come, there are none.
///
/// No memory of the program is touched with the lock: a fault there runs handlers, which take it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/types.hpp"
#include "fiber/fiber.hpp"
#include "omp/depends.hpp"
#include "omp/message.hpp"
#include "omp/task.hpp"
#include "omp/task_host.hpp"

namespace craton::omp {

struct Thread;

/// Of what is done between tasks, so seldom that it takes but a part of the time.
class Ration {
 public:
  /// \param one_in which part
  explicit Ration(unsigned one_in) noexcept : one_in_(one_in) {}
  bool is_due(TimeNs now_ns) const noexcept { return now_ns >= next_ns_.load(std::memory_order_relaxed); }
  void spent(TimeNs begun_ns, TimeNs ended_ns) noexcept {
    next_ns_.store(ended_ns + one_in_ * (ended_ns - begun_ns), std::memory_order_relaxed);
  }

 private:
  const unsigned one_in_;
  std::atomic<TimeNs> next_ns_{0};
};

class TaskPool {
 public:
  /// \param host must outlive it
  explicit TaskPool(TaskHost& host);
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;
  ~TaskPool();

  /// Before a region. \param region its number, among those of several ranks, modulo 2^16
  void begin(fabric::Rank ranks, std::uint32_t size, std::uint32_t region);

  // ---- By threads of the team

  /// Whether so many tasks wait that the next one is better run by who makes it. Looks at what has come back.
  bool is_full();
  /// Before a task is run, wherever that is: lends what waits here to ranks that ask, and has it ready for
  /// those that will.
  void serve_others();
  /// Takes over a task that is to be run later.
  void add(std::unique_ptr<Task> task, std::span<const Dependence> items);
  /// A task that its maker has run itself has ended.
  void end_undeferred(std::unique_ptr<Task> task);

  /// Each blocks, and runs what tasks it may meanwhile. \throws nothing: a dead rank ends the process
  void wait_for_children(Thread& thread);
  void wait_for_dependences(Thread& thread, std::span<const Dependence> items);
  /// Until the event of the caller's task, which it runs itself, is fulfilled.
  void wait_for_event(Thread& thread, const Task& task);
  void wait_for_group(Thread& thread, const TaskGroup& group);
  /// Until the condition holds, for a thread whose own task may be left for any other.
  void wait_at_barrier(Thread& thread, FunctionRef<bool()> condition);
  /// By the last thread of a rank to come to a barrier: until nothing is left of what was made here.
  void drain(Thread& thread);
  /// Runs one task of what a barrier may run, if there is one, or asks others for one.
  void help(Thread& thread);
  /// Whether some thread of the team has made tasks in this region, as far as is known here.
  bool makes_tasks() const noexcept { return makes_tasks_.load(std::memory_order_relaxed); }
  /// Whether there is something for help() to do.
  bool can_help() const noexcept;
  /// A thread of the team that waits in the fabric otherwise than here: changes wake it as well.
  class FabricWait {
   public:
    explicit FabricWait(TaskPool& pool) noexcept : pool_(pool) { pool_.in_fabric_.fetch_add(1); }
    FabricWait(const FabricWait&) = delete;
    FabricWait& operator=(const FabricWait&) = delete;
    ~FabricWait() { pool_.in_fabric_.fetch_sub(1); }

   private:
    TaskPool& pool_;
  };
  /// Makes all who wait look again.
  void wake();
  /// One of a task's ends has come: that of its code, or its event. With the last one it is gone. Any thread.
  void finish(Task& task);
  /// What tells another rank that the event of a task of its is fulfilled; what was written before is to be
  /// published.
  static Message fulfilled(const Task& task) noexcept;
  /// What tells the owner of a loan that the group of its task is cancelled.
  static Message cancelled_group(const Loan& loan) noexcept;
  /// All ranks have met, and are about to leave.
  void left_barrier() noexcept;

  // ---- By the rank's heartbeat

  /// Answers who has asked for tasks while all threads here are inside of others.
  void beat();

  // ---- Messages, in handlers

  void arrived(fabric::Rank source, const Message& message);

 private:
  enum class Pick : std::uint8_t { any, children, group };
  struct Asker {
    fabric::Rank rank;
    std::uint32_t meeting;  ///< barriers of the region that it has left
  };

  /// What has ended elsewhere: what an event waits for, a task that was lent, or that with all that it made.
  struct Return {
    enum class What : std::uint8_t { event, task, all };

    fabric::Rank borrower;
    Task* task;
    What what;
  };

  /// Loans, one a message, or one that says why there is none.
  struct Answer {
    fabric::Rank to;
    std::array<Message, 16> messages;
    std::size_t count;
  };

  void wait(Thread& thread, Pick pick, const TaskGroup* group, bool serves_fabric, FunctionRef<bool()> done);
  static bool fits(const Task& task, Pick pick, const Task* parent, const TaskGroup* group) noexcept;
  Task* take(Pick pick, const Task* parent, const TaskGroup* group);
  Task* first_for_any() const noexcept;
  void run(Thread& thread, Task& task);
  bool finish_locked(Task& task);
  bool forget(Task& task);
  void release_parent(Task& parent);
  void enqueue(Task& task);
  void unlink(Task& task) noexcept;
  void settle_returned();

  // Lending (task_loans.cpp).
  void offer();
  void publish();
  void publish_memory();
  bool may_ask() const noexcept;
  void ask();
  void begin_loan(const Loan& loan);
  Answer answer_to(const Asker& asker);
  void send(const Answer& answer);
  void note_sent(const Answer& answer) noexcept;
  bool lend(fabric::Rank borrower, Message& message);
  void add_to_lent(Task& task, fabric::Rank borrower) noexcept;
  void answer_askers();
  void answer_askers_now();
  void note_idle(fabric::Rank rank);
  bool has_work(fabric::Rank rank) const noexcept;
  Message message_of(Message::Kind kind, std::uint64_t value = 0) const noexcept;
  void return_loan(Loan& loan);
  void show_end(Loan& loan);
  void settle(const Return& one);
  bool can_recall() const noexcept;
  void recall(FunctionRef<bool(const Task&)> is_wanted);
  void recall_for(Pick pick, const Task* parent, const TaskGroup* group);
  void count_recallable(const Task& task, bool is_more) noexcept;
  Task* find_lent(std::uint64_t loan_number) const noexcept;
  Task* take_from_lent(std::uint64_t loan_number) noexcept;
  void give_up(fabric::Rank owner, std::uint64_t loan_number);
  void recall_answered(const Message& answer);

  TaskHost& host_;
  fabric::Rank ranks_ = 1;
  std::uint32_t size_ = 1;
  std::atomic<std::uint32_t> region_{0};
  std::uint64_t begun_ = 0;                ///< regions so far
  std::atomic<std::uint32_t> meeting_{0};  ///< barriers of the region that this rank has left

  fiber::Mutex lock_;
  Task* first_ = nullptr;  ///< of the queue: by priority, then by age
  Task* last_ = nullptr;
  bool has_priorities_ = false;
  std::atomic<std::uint64_t> made_ready_{0};
  std::atomic<std::uint32_t> queued_{0};
  std::atomic<std::uint32_t> left_{0};      ///< made here, and not ended
  std::atomic<bool> seat_is_taken_{false};  ///< by the one of those who wait that does so in the fabric
  std::atomic<std::uint32_t> in_fabric_{0};
  std::atomic<bool> makes_tasks_{false};  ///< somebody does, in this region

  std::uint64_t published_ = 0;          ///< tasks up to this number can be lent
  std::atomic<TimeNs> published_ns_{0};  ///< when that was
  std::vector<bool> idle_;               ///< ranks that have found nothing here
  std::uint32_t offers_ = 0;             ///< how often some were told
  std::atomic<std::uint32_t> idle_count_{0};
  Task* lent_ = nullptr;                          ///< the newest of those that are
  std::uint64_t loans_ = 0;                       ///< so far, in all regions
  std::atomic<std::uint32_t> not_recalled_{0};    ///< of those that are lent
  std::atomic<std::uint32_t> lent_on_{0};         ///< of them, those that belong to loans
  std::atomic<std::uint32_t> recalls_{0};         ///< that have no answer yet
  std::atomic<std::uint32_t> recall_changes_{0};  ///< whenever others may be recalled
  std::vector<Asker> askers_;                     ///< ranks that wait for an answer
  std::atomic<std::uint32_t> asker_count_{0};
  std::vector<Return> returned_;
  std::atomic<std::uint32_t> returned_count_{0};
  std::vector<Task*> borrowed_;  ///< tasks in the queue that are loans
  std::vector<Loan*> begun_loans_;

  /// What a rank said last: a region, plus 1, and how often it had offered work by then. It has some if it
  /// has offered some since it had none.
  struct Said {
    std::atomic<std::uint64_t> work{0};
    std::atomic<std::uint64_t> none{0};
    std::atomic<std::uint32_t> meeting{0};  ///< barriers that it had left
    std::atomic<std::uint64_t> learnt{
        0};  ///< loans of its up to this number find what it knew; of all regions
  };
  std::unique_ptr<Said[]> said_;
  std::atomic<bool> may_find_work_{false};
  std::atomic<bool> is_asking_{false};
  std::atomic<std::uint32_t> arrivals_{0};  ///< of messages
  Ration serving_{50};                      ///< looks for them
  Ration settling_{10};                     ///< loans that are back
  fabric::Rank next_to_ask_ = 0;
};

}  // namespace craton::omp
