/// \file
/// The part of TaskPool that lends tasks to other ranks and borrows theirs.
#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "omp/task_pool.hpp"

namespace craton::omp {

Message TaskPool::message_of(Message::Kind kind, std::uint64_t value) const noexcept {
  return {.kind = kind,
          .region = region_.load(std::memory_order_relaxed),
          .id = 0,
          .value = value,
          .part = 0,
          .meeting = meeting_.load(std::memory_order_relaxed),
          .task = {}};
}

// ---- The owner

/// There is a new task in the queue: tells those who have found nothing here, and answers those who ask.
void TaskPool::offer() {
  const bool is_wanted =
      idle_count_.load(std::memory_order_relaxed) != 0 || asker_count_.load(std::memory_order_relaxed) != 0;
  if (!is_wanted) return;
  publish();
  std::vector<fabric::Rank> told;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(lock_);
    if (first_ == nullptr) return;
    for (fabric::Rank rank = 0; rank < ranks_; ++rank) {
      if (!idle_[rank]) continue;
      idle_[rank] = false;
      told.push_back(rank);
    }
    if (!told.empty()) ++offers_;
    number = offers_;
    idle_count_.store(0, std::memory_order_relaxed);
  }
  const Message message = message_of(Message::Kind::work_here, number);
  for (const fabric::Rank rank : told) host_.send(rank, message);
  if (asker_count_.load(std::memory_order_relaxed) != 0) answer_askers();
}

/// Makes all tasks that are in the queue now ready to be lent.
void TaskPool::publish() {
  host_.flush_output();
  publish_memory();
}

/// The same, but for output that is not written yet.
void TaskPool::publish_memory() {
  std::uint64_t number = 0;
  std::uint64_t region = 0;
  {
    const std::lock_guard lock(lock_);
    number = made_ready_;
    region = begun_;
    if (number == published_) return;
  }
  host_.publish();
  const std::lock_guard lock(lock_);
  // The heartbeat may have met the next region, with tasks of its own.
  if (region == begun_) published_ = std::max(published_, number);
}

/// Answers the ranks that asked while nothing was published, or nothing was there.
void TaskPool::answer_askers() {
  publish();
  answer_askers_now();
}

void TaskPool::beat() {
  if (asker_count_.load(std::memory_order_relaxed) == 0) return;
  // Output is flushed where tasks begin: here a fault in a buffer that the program has given would be the
  // end.
  publish_memory();
  answer_askers_now();
}

void TaskPool::answer_askers_now() {
  std::vector<Answer> answers;
  {
    const std::lock_guard lock(lock_);
    for (const Asker& asker : askers_) answers.push_back(answer_to(asker));
    askers_.clear();
    asker_count_.store(0, std::memory_order_relaxed);
  }
  // Not with the lock: who has to wait for room runs handlers.
  for (const Answer& answer : answers) send(answer);
  {
    const std::lock_guard lock(lock_);
    for (const Answer& answer : answers) note_sent(answer);
  }
  wake();
}

/// With the lock: loans, or why there is none. A share of what is there, so that few messages do.
TaskPool::Answer TaskPool::answer_to(const Asker& asker) {
  Answer answer{.to = asker.rank, .messages = {}, .count = 1};
  answer.messages[0] = message_of(Message::Kind::none, offers_);
  if (asker.meeting < meeting_.load(std::memory_order_relaxed)) {
    answer.messages[0].kind = Message::Kind::later;
    return answer;
  }
  const std::uint32_t share = queued_.load(std::memory_order_relaxed) / (ranks_ * host_.threads_a_rank());
  const std::size_t most = std::clamp<std::size_t>(share, 1, answer.messages.size());
  std::size_t lent = 0;
  while (lent < most && lend(asker.rank, answer.messages[lent])) ++lent;
  if (lent == 0) note_idle(asker.rank);
  answer.count = std::max<std::size_t>(lent, 1);
  return answer;
}

void TaskPool::send(const Answer& answer) {
  for (std::size_t i = 0; i < answer.count; ++i) host_.send(answer.to, answer.messages[i]);
}

/// With the lock: from now on its loans can be recalled.
void TaskPool::note_sent(const Answer& answer) noexcept {
  for (std::size_t i = 0; i < answer.count; ++i) {
    if (answer.messages[i].kind != Message::Kind::lend) continue;
    Task* const task = find_lent(answer.messages[i].value);
    if (task == nullptr) continue;  // back already
    task->recall = Recall::none;
    count_recallable(*task, true);
  }
  // Who waits for them may have found nothing to recall before.
  recall_changes_.fetch_add(1, std::memory_order_release);
}

/// With the lock. \returns false if there is nothing that can be lent
bool TaskPool::lend(fabric::Rank borrower, Message& message) {
  // The oldest: it is likely to make others. What is borrowed is not passed on.
  Task* task = first_;
  while (task != nullptr && (task->number > published_ || task->learns || task->stays)) task = task->after;
  if (task == nullptr) return false;
  unlink(*task);
  add_to_lent(*task, borrower);
  message = message_of(Message::Kind::lend, task->loan_number);
  message.id = reinterpret_cast<std::uintptr_t>(task);
  message.task = {.function = task->function,
                  .block = task->block,
                  .reductions = task->group != nullptr ? task->group->reductions : task->reductions,
                  .icvs = task->icvs,
                  .priority = task->priority,
                  .is_final = task->is_final};
  return true;
}

/// With the lock: a rank is told that there is none.
void TaskPool::note_idle(fabric::Rank rank) {
  if (idle_[rank]) return;
  idle_[rank] = true;
  idle_count_.fetch_add(1, std::memory_order_relaxed);
}

/// With the lock.
void TaskPool::add_to_lent(Task& task, fabric::Rank borrower) noexcept {
  task.borrower = borrower;
  task.loan_number = ++loans_;
  task.recall = Recall::not_sent;
  task.before = nullptr;
  task.after = lent_;
  if (lent_ != nullptr) lent_->before = &task;
  lent_ = &task;
}

void TaskPool::count_recallable(const Task& task, bool is_more) noexcept {
  const auto count = [is_more](std::atomic<std::uint32_t>& all) {
    is_more ? all.fetch_add(1, std::memory_order_release) : all.fetch_sub(1, std::memory_order_release);
  };
  count(not_recalled_);
  if (task.loan != nullptr) count(lent_on_);
}

/// With the lock. \returns null if it is back already
Task* TaskPool::find_lent(std::uint64_t loan_number) const noexcept {
  Task* task = lent_;
  while (task != nullptr && task->loan_number != loan_number) task = task->after;
  return task;
}

/// The same, and it is lent no more.
Task* TaskPool::take_from_lent(std::uint64_t loan_number) noexcept {
  Task* const task = find_lent(loan_number);
  if (task == nullptr) return nullptr;
  (task->before != nullptr ? task->before->after : lent_) = task->after;
  if (task->after != nullptr) task->after->before = task->before;
  if (task->recall == Recall::none) count_recallable(*task, false);
  return task;
}

/// Whether there is anything that who waits at a barrier would recall.
bool TaskPool::can_recall() const noexcept {
  return lent_on_.load(std::memory_order_acquire) != 0 && recalls_.load(std::memory_order_acquire) == 0;
}

void TaskPool::recall_for(Pick pick, const Task* parent, const TaskGroup* group) {
  if (pick != Pick::any) return recall([&](const Task& one) { return fits(one, pick, parent, group); });
  if (can_recall()) recall([](const Task& one) { return one.loan != nullptr; });
}

/// By who waits for such tasks. Only one at a time: their borrower may be about to begin the others.
void TaskPool::recall(FunctionRef<bool(const Task&)> is_wanted) {
  if (not_recalled_.load(std::memory_order_acquire) == 0) return;
  Message message = message_of(Message::Kind::recall);
  fabric::Rank borrower = 0;
  {
    const std::lock_guard lock(lock_);
    Task* wanted = nullptr;
    for (Task* one = lent_; one != nullptr; one = one->after) {
      if (!is_wanted(*one)) continue;
      if (one->recall == Recall::asked) return;
      if (one->recall == Recall::none && wanted == nullptr) wanted = one;
    }
    if (wanted == nullptr) return;
    wanted->recall = Recall::asked;
    count_recallable(*wanted, false);
    recalls_.fetch_add(1, std::memory_order_relaxed);
    message.value = wanted->loan_number;
    borrower = wanted->borrower;
  }
  // Not with the lock: who has to wait for room runs handlers.
  host_.send(borrower, message);
}

/// What a borrower says to a recall.
void TaskPool::recall_answered(const Message& answer) {
  const std::lock_guard lock(lock_);
  recalls_.fetch_sub(1, std::memory_order_relaxed);
  recall_changes_.fetch_add(1, std::memory_order_release);
  if (answer.kind == Message::Kind::unbegun) {
    Task* const task = take_from_lent(answer.value);
    CRATON_ASSERT(task != nullptr);
    task->stays = true;
    return enqueue(*task);
  }
  if (Task* const task = find_lent(answer.value)) task->recall = Recall::begun;
}

/// Loans that are back have ended, once what their ranks published is known here.
void TaskPool::settle_returned() {
  const TimeNs begun_ns = host_.now_ns();
  std::vector<Return> back;
  {
    const std::lock_guard lock(lock_);
    back = std::exchange(returned_, {});
    returned_count_.store(0, std::memory_order_relaxed);
  }
  std::vector<fabric::Rank> learnt;
  for (const Return& one : back) {
    if (std::find(learnt.begin(), learnt.end(), one.borrower) != learnt.end()) continue;
    host_.learn(one.borrower);
    learnt.push_back(one.borrower);
  }
  for (const Return& one : back) settle(one);
  settling_.spent(begun_ns, host_.now_ns());
}

void TaskPool::settle(const Return& one) {
  Task& task = *one.task;
  Loan* const loan = task.loan;
  bool is_end = false;
  bool is_last_of_loan = false;
  {
    const std::lock_guard lock(lock_);
    // Its own end comes but once, with the task or with all.
    if (one.what == Return::What::all && std::exchange(task.is_partly_away, false)) {
      if (!task.has_finished) return;  // another thread may be about to settle its end
      is_last_of_loan = forget(task);
    } else {
      is_end = true;
    }
  }
  if (is_end) return finish(task);
  if (is_last_of_loan) return_loan(*loan);
  wake();
}

// ---- The borrower

bool TaskPool::may_ask() const noexcept {
  return may_find_work_.load(std::memory_order_acquire) && !is_asking_.load(std::memory_order_acquire);
}

bool TaskPool::has_work(fabric::Rank rank) const noexcept {
  const std::uint64_t region = region_.load(std::memory_order_relaxed) + std::uint64_t{1};
  const std::uint64_t work = said_[rank].work.load(std::memory_order_seq_cst);
  const std::uint64_t none = said_[rank].none.load(std::memory_order_seq_cst);
  return work >> 32U == region && (none >> 32U != region || none < work) &&
         said_[rank].meeting.load(std::memory_order_seq_cst) <= meeting_.load(std::memory_order_relaxed);
}

/// Asks a rank that has said that it has work.
void TaskPool::ask() {
  if (is_asking_.exchange(true, std::memory_order_acq_rel)) return;
  may_find_work_.store(false, std::memory_order_seq_cst);
  for (fabric::Rank i = 0; i < ranks_; ++i) {
    const fabric::Rank rank = (next_to_ask_ + i) % ranks_;
    if (rank == host_.rank() || !has_work(rank)) continue;
    next_to_ask_ = rank;
    may_find_work_.store(true, std::memory_order_relaxed);
    return host_.send(rank, message_of(Message::Kind::ask));
  }
  is_asking_.store(false, std::memory_order_release);
}

/// By who is about to run it: learns what its owner knew, unless that came with an earlier one.
void TaskPool::begin_loan(const Loan& loan) {
  std::atomic<std::uint64_t>& learnt = said_[loan.owner].learnt;
  if (loan.number <= learnt.load(std::memory_order_acquire)) return;
  // What is here now was published before; what arrives meanwhile may not have been.
  std::uint64_t here = loan.number;
  {
    const std::lock_guard lock(lock_);
    for (const Task* const one : borrowed_)
      if (one->loan->owner == loan.owner) here = std::max(here, one->loan->number);
  }
  host_.learn(loan.owner);
  const std::lock_guard lock(lock_);
  learnt.store(std::max(here, learnt.load(std::memory_order_relaxed)), std::memory_order_release);
}

/// In a handler: its owner wants a loan back, or else to know when its task has ended.
void TaskPool::give_up(fabric::Rank owner, std::uint64_t loan_number) {
  const auto is_it = [&](const Loan& loan) { return loan.owner == owner && loan.number == loan_number; };
  Message::Kind answer = Message::Kind::begun;
  bool has_ended = false;
  {
    const std::lock_guard lock(lock_);
    const auto found =
        std::find_if(borrowed_.begin(), borrowed_.end(), [&](const Task* one) { return is_it(*one->loan); });
    if (found != borrowed_.end()) {
      Task* const task = *found;
      unlink(*task);
      delete task->loan;
      delete task;
      answer = Message::Kind::unbegun;
    }
    for (Loan* const loan : begun_loans_) {
      if (!is_it(*loan)) continue;
      loan->is_wanted = true;
      has_ended = loan->has_ended;
    }
  }
  host_.send(owner, message_of(answer, loan_number));
  if (has_ended) host_.send(owner, message_of(Message::Kind::ended, loan_number));
}

/// The task of a loan has ended, and perhaps more of it than that.
void TaskPool::show_end(Loan& loan) {
  {
    const std::lock_guard lock(lock_);
    if (loan.left == 1) return;
  }
  host_.flush_output();
  host_.publish();
  bool is_wanted = false;
  {
    const std::lock_guard lock(lock_);
    loan.has_ended = true;
    is_wanted = loan.is_wanted;
  }
  if (is_wanted) host_.send(loan.owner, message_of(Message::Kind::ended, loan.number));
}

/// All tasks of a loan have ended.
void TaskPool::return_loan(Loan& loan) {
  host_.flush_output();
  host_.publish();
  Message message = message_of(Message::Kind::returned, loan.number);
  message.id = loan.id;
  host_.send(loan.owner, message);
  delete &loan;
}

Message TaskPool::cancelled_group(const Loan& loan) noexcept {
  return {.kind = Message::Kind::cancelled_group,
          .region = 0,
          .id = loan.id,
          .value = 0,
          .part = 0,
          .meeting = 0,
          .task = {}};
}

Message TaskPool::fulfilled(const Task& task) noexcept {
  return {.kind = Message::Kind::fulfilled,
          .region = 0,
          .id = reinterpret_cast<std::uintptr_t>(&task),
          .value = 0,
          .part = 0,
          .meeting = 0,
          .task = {}};
}

// ---- Messages

void TaskPool::arrived(fabric::Rank source, const Message& message) {
  arrivals_.fetch_add(1, std::memory_order_relaxed);
  const bool is_now = message.region == region_.load(std::memory_order_relaxed);
  const std::uint64_t said = (message.region + std::uint64_t{1}) << 32U | message.value;
  switch (message.kind) {
    case Message::Kind::work_here:
      said_[source].meeting.store(message.meeting, std::memory_order_seq_cst);
      said_[source].work.store(said, std::memory_order_seq_cst);
      if (is_now) makes_tasks_.store(true, std::memory_order_relaxed);
      may_find_work_.store(true, std::memory_order_seq_cst);
      break;
    case Message::Kind::ask: {
      const Asker asker{.rank = source, .meeting = message.meeting};
      const std::lock_guard lock(lock_);
      // Looked at with the lock, with which regions change.
      if (message.region != region_.load(std::memory_order_relaxed)) {
        Message answer = message_of(Message::Kind::none);
        answer.region = message.region;
        return host_.send(source, answer);
      }
      const Answer answer = answer_to(asker);
      if (answer.messages[0].kind != Message::Kind::none || first_ == nullptr) {
        send(answer);
        note_sent(answer);
        break;
      }
      // There is something, which has to be published first.
      askers_.push_back(asker);
      asker_count_.fetch_add(1, std::memory_order_release);
      break;
    }
    case Message::Kind::lend: {
      auto* const loan = new Loan{.owner = source,
                                  .id = message.id,
                                  .number = message.value,
                                  .left = 1,
                                  .is_cancelled = false};  // till it is returned
      auto* const task = new Task;
      task->icvs = message.task.icvs;
      task->is_final = message.task.is_final;
      task->loan = loan;
      task->function = message.task.function;
      task->block = message.task.block;
      task->reductions = message.task.reductions;
      task->priority = message.task.priority;
      task->learns = true;
      is_asking_.store(false, std::memory_order_release);
      const std::lock_guard lock(lock_);
      borrowed_.push_back(task);
      enqueue(*task);
      break;
    }
    case Message::Kind::none:
      said_[source].none.store(said, std::memory_order_seq_cst);
      is_asking_.store(false, std::memory_order_release);
      break;
    case Message::Kind::later:
      if (is_now) said_[source].meeting.store(message.meeting, std::memory_order_seq_cst);
      is_asking_.store(false, std::memory_order_release);
      break;
    case Message::Kind::recall:
      return give_up(source, message.value);
    case Message::Kind::unbegun:
    case Message::Kind::begun:
      recall_answered(message);
      break;
    case Message::Kind::ended: {
      const std::lock_guard lock(lock_);
      Task* const task = find_lent(message.value);
      if (task == nullptr) break;  // all of it was faster
      task->is_partly_away = true;
      returned_.push_back({.borrower = source, .task = task, .what = Return::What::task});
      returned_count_.fetch_add(1, std::memory_order_release);
      break;
    }
    case Message::Kind::returned: {
      const std::lock_guard lock(lock_);
      returned_.push_back(
          {.borrower = source, .task = take_from_lent(message.value), .what = Return::What::all});
      returned_count_.fetch_add(1, std::memory_order_release);
      break;
    }
    case Message::Kind::cancelled_group:
      // It is there, since the loan is not back.
      if (TaskGroup* const group = group_to_cancel(*reinterpret_cast<Task*>(message.id)))
        group->is_cancelled.store(true, std::memory_order_release);
      break;
    case Message::Kind::fulfilled: {
      auto* const task = reinterpret_cast<Task*>(message.id);
      if (task->pool != nullptr) {
        TaskPool& pool = *task->pool;  // which may be that of an inner team
        {
          const std::lock_guard lock(pool.lock_);
          pool.returned_.push_back({.borrower = source, .task = task, .what = Return::What::event});
          pool.returned_count_.fetch_add(1, std::memory_order_release);
        }
        return pool.wake();
      }
      task->ends_to_come.fetch_sub(1, std::memory_order_acq_rel);  // who runs it waits for that
      break;
    }
    case Message::Kind::turn:         // see Turns
    case Message::Kind::posted:       // see Doacross
    case Message::Kind::find_holder:  // see RemoteUnlocks
    case Message::Kind::unlock:
    case Message::Kind::about_lock:
    case Message::Kind::cancelled:  // see Cancellation
      break;
  }
  wake();
}

}  // namespace craton::omp
