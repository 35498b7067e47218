#include "omp/task_pool.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/events.hpp"
#include "omp/thread.hpp"

namespace craton::omp {

namespace {

/// Tasks that may wait, for each thread of the team.
constexpr std::uint32_t tasks_a_thread = 64;
/// While threads work, what they made is published no more often than this, so that idle ranks can have it.
constexpr TimeNs publish_every_ns = 50'000;

}  // namespace

TaskPool::TaskPool(TaskHost& host)
    : host_(host), idle_(host.ranks()), said_(std::make_unique<Said[]>(host.ranks())) {}

TaskPool::~TaskPool() = default;

void TaskPool::begin(fabric::Rank ranks, std::uint32_t size, std::uint32_t region) {
  CRATON_ASSERT(left_.load() == 0U);
  std::vector<Asker> askers;
  {
    const std::lock_guard lock(lock_);
    askers = std::exchange(askers_, {});
    asker_count_.store(0, std::memory_order_relaxed);
  }
  for (const Asker& asker : askers) host_.send(asker.rank, message_of(Message::Kind::none));
  const std::lock_guard lock(lock_);
  ranks_ = ranks;
  size_ = size;
  ++begun_;
  made_ready_.store(0, std::memory_order_relaxed);
  makes_tasks_.store(false, std::memory_order_relaxed);
  published_ = 0;
  offers_ = 0;
  has_priorities_ = false;
  region_.store(region, std::memory_order_relaxed);
  meeting_.store(0, std::memory_order_relaxed);
  if (ranks == 1) return;
  for (fabric::Rank rank = 0; rank < ranks; ++rank) idle_[rank] = rank != host_.rank();
  idle_count_.store(ranks - 1, std::memory_order_relaxed);
  // Some may have said already that they have work: they were told of the region earlier.
  may_find_work_.store(true, std::memory_order_relaxed);
}

bool TaskPool::is_full() {
  const auto are_too_many = [this] { return left_.load(std::memory_order_relaxed) > tasks_a_thread * size_; };
  if (!are_too_many()) return false;
  // Who makes tasks without end comes by nowhere else, and loans that are back still count.
  if (returned_count_.load(std::memory_order_acquire) != 0 && settling_.is_due(host_.now_ns()))
    settle_returned();
  return are_too_many();
}

// ---- Making tasks

void TaskPool::add(std::unique_ptr<Task> task, std::span<const Dependence> items) {
  Task& added = *task.release();  // the pool owns it until it has ended
  bool is_ready = true;
  {
    const std::lock_guard lock(lock_);
    left_.fetch_add(1, std::memory_order_relaxed);
    makes_tasks_.store(true, std::memory_order_relaxed);
    added.parent->children.fetch_add(1, std::memory_order_relaxed);
    if (added.group != nullptr) added.group->left.fetch_add(1, std::memory_order_relaxed);
    if (added.loan != nullptr) ++added.loan->left;
    if (!items.empty()) {
      if (added.parent->depends == nullptr) added.parent->depends = std::make_unique<Depends>();
      added.parent->depends->add(added, items, true);
      is_ready = added.waits_for.load(std::memory_order_relaxed) == 0;
    }
    if (is_ready) enqueue(added);
  }
  if (!is_ready) return;
  wake();
  if (ranks_ > 1) offer();
}

/// With the lock: a task can be run.
void TaskPool::enqueue(Task& task) {
  task.number = made_ready_.load(std::memory_order_relaxed) + 1;
  has_priorities_ = has_priorities_ || task.priority != 0;
  Task* before = last_;
  while (before != nullptr && before->priority < task.priority) before = before->before;
  task.before = before;
  task.after = before != nullptr ? before->after : first_;
  (task.before != nullptr ? task.before->after : first_) = &task;
  (task.after != nullptr ? task.after->before : last_) = &task;
  // In this order: who waits reads the second, looks at the first without the lock, and goes to sleep until
  // the second changes.
  queued_.fetch_add(1, std::memory_order_release);
  made_ready_.store(task.number, std::memory_order_release);
}

void TaskPool::unlink(Task& task) noexcept {
  (task.before != nullptr ? task.before->after : first_) = task.after;
  (task.after != nullptr ? task.after->before : last_) = task.before;
  queued_.fetch_sub(1, std::memory_order_relaxed);
  if (task.learns) borrowed_.erase(std::find(borrowed_.begin(), borrowed_.end(), &task));
}

/// Whether it is one of those that somebody waits for.
bool TaskPool::fits(const Task& task, Pick pick, const Task* parent, const TaskGroup* group) noexcept {
  // Those of a group may wait for older children of the same parent, outside of it.
  return task.parent == parent || (pick == Pick::group && task.group == group);
}

/// With the lock: the oldest, but what a loan has made before another loan. Its owner may wait for that with
/// a lock that the other one wants.
Task* TaskPool::first_for_any() const noexcept {
  for (Task* one = first_; one != nullptr && one->priority == first_->priority; one = one->after)
    if (!one->learns) return one;
  return first_;
}

/// A task that the caller may run, out of the queue; null if there is none.
Task* TaskPool::take(Pick pick, const Task* parent, const TaskGroup* group) {
  if (queued_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::lock_guard lock(lock_);
  Task* task = pick == Pick::any ? first_for_any() : nullptr;
  if (pick != Pick::any) {
    // The newest first: what it needs is still near, and few tasks wait at a time.
    const auto find = [&](auto fits) {
      Task* one = has_priorities_ ? first_ : last_;
      while (one != nullptr && !fits(*one)) one = has_priorities_ ? one->after : one->before;
      return one;
    };
    if (pick == Pick::group) task = find([&](const Task& one) { return one.group == group; });
    // Those of a group may wait for older children of the same parent, outside of it.
    if (task == nullptr) task = find([&](const Task& one) { return one.parent == parent; });
  }
  if (task == nullptr) return nullptr;
  unlink(*task);
  if (task->learns) begun_loans_.push_back(task->loan);
  return task;
}

// ---- Running them

void TaskPool::serve_others() {
  if (ranks_ == 1) return;
  const bool has_tasks = queued_.load(std::memory_order_relaxed) != 0;
  const TimeNs begun_ns = has_tasks ? host_.now_ns() : 0;
  if (has_tasks && serving_.is_due(begun_ns)) {
    const std::uint32_t before = arrivals_.load(std::memory_order_relaxed);
    host_.serve();
    // Where something has come more is to be expected.
    if (arrivals_.load(std::memory_order_relaxed) == before) serving_.spent(begun_ns, host_.now_ns());
  }
  if (asker_count_.load(std::memory_order_relaxed) != 0) {
    answer_askers();
  } else if (has_tasks && begun_ns > published_ns_.load(std::memory_order_relaxed) + publish_every_ns) {
    published_ns_.store(begun_ns, std::memory_order_relaxed);
    publish();
  } else if (has_tasks) {
    host_.flush_output();  // others may get what waits, while this one runs
  }
}

void TaskPool::run(Thread& thread, Task& task) {
  serve_others();
  if (task.learns) begin_loan(*task.loan);
  Task* const before = std::exchange(thread.task, &task);
  if (!task.may_be_dropped || !host_.is_cancelled()) {
    events::enter_region(task.function);
    task.function(task.block);
    events::leave_region();
  }
  thread.task = before;
  finish(task);
}

void TaskPool::finish(Task& task) {
  // Not its end yet: its maker may wait for just this event. The task may be gone.
  if (task.ends_to_come.fetch_sub(1, std::memory_order_acq_rel) != 1) return wake();
  if (task.allocation != nullptr) host_.give_block(task.allocation, task.block_bytes);
  Loan* const loan = task.loan;
  const bool is_loan = task.learns;
  bool is_last_of_loan = false;
  bool has_readied = false;
  {
    const std::lock_guard lock(lock_);
    has_readied = finish_locked(task);
    if (!is_loan && !task.is_partly_away) is_last_of_loan = forget(task);
  }
  if (is_loan) {
    show_end(*loan);
    const std::lock_guard lock(lock_);
    is_last_of_loan = forget(task);
  }
  if (is_last_of_loan) return_loan(*loan);
  // What somebody may wait for: the last child, the last of a group, the last of all, a task that got ready.
  wake();
  if (has_readied && ranks_ > 1) offer();
}

/// With the lock: who waits for just this task need not any more. \returns whether another one can be run now
bool TaskPool::finish_locked(Task& task) {
  bool has_readied = false;
  if (task.parent != nullptr && task.parent->depends != nullptr) task.parent->depends->remove(task);
  for (Task* const successor : task.successors) {
    if (successor->waits_for.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    if (successor->function == nullptr) continue;  // somebody waits for it, and no more
    enqueue(*successor);
    has_readied = true;
  }
  task.successors.clear();
  if (task.parent != nullptr) release_parent(*task.parent);
  task.has_finished = true;
  return has_readied;
}

/// With the lock: nor who waits for all that it has made, as far as that is elsewhere. The task is gone after
/// it, unless it stays for its children. \returns whether it was the last one of its loan
bool TaskPool::forget(Task& task) {
  if (task.group != nullptr) task.group->left.fetch_sub(1, std::memory_order_release);
  // A loan's own task was never counted here.
  if (!task.learns) left_.fetch_sub(1, std::memory_order_release);
  Loan* const loan = task.loan;
  task.has_ended = true;
  if (task.children.load(std::memory_order_relaxed) == 0) delete &task;
  if (loan == nullptr || --loan->left != 0) return false;
  begun_loans_.erase(std::find(begun_loans_.begin(), begun_loans_.end(), loan));
  return true;
}

/// With the lock: one of its children has ended.
void TaskPool::release_parent(Task& parent) {
  const bool has_ended = parent.has_ended;  // if not, it may go as soon as it has no children
  if (parent.children.fetch_sub(1, std::memory_order_acq_rel) == 1 && has_ended) delete &parent;
}

void TaskPool::end_undeferred(std::unique_ptr<Task> task) {
  if (task->children.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(lock_);
  task->has_ended = true;
  if (task->children.load(std::memory_order_relaxed) != 0)
    static_cast<void>(task.release());  // the last child deletes it
}

void TaskPool::wake() {
  host_.open_gate();
  if (in_fabric_.load(std::memory_order_seq_cst) != 0) host_.notify_fabric();
}

void TaskPool::left_barrier() noexcept {
  {
    const std::lock_guard lock(lock_);
    meeting_.fetch_add(1, std::memory_order_relaxed);
  }
  may_find_work_.store(true, std::memory_order_release);
}

// ---- Waiting

/// \param serves_fabric whether the caller may be the one that waits in the fabric
void TaskPool::wait(Thread& thread, Pick pick, const TaskGroup* group, bool serves_fabric,
                    FunctionRef<bool()> done) {
  serves_fabric = serves_fabric && ranks_ > 1;
  while (!done()) {
    const bool has_returned = returned_count_.load(std::memory_order_acquire) != 0;
    if (has_returned && settling_.is_due(host_.now_ns())) {
      settle_returned();
      continue;
    }
    const std::uint64_t made_ready = made_ready_.load(std::memory_order_acquire);
    const std::uint32_t answered = recall_changes_.load(std::memory_order_acquire);
    if (Task* const task = take(pick, thread.task, group)) {
      run(thread, *task);
      continue;
    }
    if (has_returned) {
      settle_returned();
      continue;
    }
    if (pick == Pick::any && may_ask()) ask();
    if (asker_count_.load(std::memory_order_relaxed) != 0) answer_askers();
    recall_for(pick, thread.task, group);
    const auto may_go_on = [&] {
      // What is in the queue now is not for us, only what comes later can be.
      const bool has_task = pick == Pick::any ? queued_.load(std::memory_order_acquire) != 0
                                              : made_ready_.load(std::memory_order_acquire) != made_ready;
      return done() || has_task || returned_count_.load(std::memory_order_acquire) != 0 ||
             recall_changes_.load(std::memory_order_acquire) != answered ||
             asker_count_.load(std::memory_order_acquire) != 0 ||
             (pick == Pick::any && (may_ask() || can_recall()));
    };
    if (serves_fabric && !seat_is_taken_.exchange(true, std::memory_order_acquire)) {
      {
        const FabricWait here(*this);
        host_.wait_in_fabric(may_go_on);
      }
      seat_is_taken_.store(false, std::memory_order_release);
      host_.open_gate();  // another one may have the seat
    } else {
      host_.wait_at_gate(
          [&] { return may_go_on() || (serves_fabric && !seat_is_taken_.load(std::memory_order_acquire)); });
    }
  }
}

void TaskPool::wait_for_children(Thread& thread) {
  const Task& own = *thread.task;
  wait(thread, Pick::children, nullptr, true,
       [&] { return own.children.load(std::memory_order_acquire) == 0; });
}

void TaskPool::wait_for_dependences(Thread& thread, std::span<const Dependence> items) {
  if (items.empty() || thread.task->depends == nullptr) return;
  Task probe;  // without a function: it only waits
  {
    const std::lock_guard lock(lock_);
    thread.task->depends->add(probe, items, false);
  }
  wait(thread, Pick::children, nullptr, true,
       [&] { return probe.waits_for.load(std::memory_order_acquire) == 0; });
  // Whoever made it so may still be at the successors that it is one of.
  const std::lock_guard lock(lock_);
}

void TaskPool::wait_for_event(Thread& thread, const Task& task) {
  // Whoever fulfils it wakes those who wait in the fabric.
  const FabricWait here(*this);
  const auto is_fulfilled = [&] { return task.ends_to_come.load(std::memory_order_acquire) == 1; };
  while (!is_fulfilled()) {
    const std::uint32_t answered = recall_changes_.load(std::memory_order_acquire);
    if (Task* const child = take(Pick::children, &task, nullptr)) {
      run(thread, *child);
    } else if (Task* const other = take(Pick::any, nullptr, nullptr)) {
      run(thread, *other);
    } else {
      if (returned_count_.load(std::memory_order_acquire) != 0) settle_returned();
      if (asker_count_.load(std::memory_order_relaxed) != 0) answer_askers();
      recall([](const Task&) { return true; });  // any may be what fulfils it
      host_.wait_in_fabric([&] {
        return is_fulfilled() || queued_.load(std::memory_order_acquire) != 0 ||
               returned_count_.load(std::memory_order_acquire) != 0 ||
               recall_changes_.load(std::memory_order_acquire) != answered ||
               asker_count_.load(std::memory_order_acquire) != 0;
      });
    }
  }
}

void TaskPool::wait_for_group(Thread& thread, const TaskGroup& group) {
  wait(thread, Pick::group, &group, true, [&] { return group.left.load(std::memory_order_acquire) == 0; });
  const std::lock_guard lock(lock_);  // the same
}

void TaskPool::wait_at_barrier(Thread& thread, FunctionRef<bool()> condition) {
  wait(thread, Pick::any, nullptr, false, condition);
}

void TaskPool::drain(Thread& thread) {
  if (left_.load(std::memory_order_acquire) == 0) return;
  wait(thread, Pick::any, nullptr, true, [this] { return left_.load(std::memory_order_acquire) == 0; });
}

bool TaskPool::can_help() const noexcept {
  return queued_.load(std::memory_order_acquire) != 0 ||
         returned_count_.load(std::memory_order_acquire) != 0 ||
         asker_count_.load(std::memory_order_acquire) != 0 || may_ask() || can_recall();
}

void TaskPool::help(Thread& thread) {
  const bool has_returned = returned_count_.load(std::memory_order_acquire) != 0;
  if (has_returned && settling_.is_due(host_.now_ns())) settle_returned();
  if (asker_count_.load(std::memory_order_acquire) != 0) answer_askers();
  if (Task* const task = take(Pick::any, nullptr, nullptr)) return run(thread, *task);
  if (has_returned) settle_returned();
  if (may_ask()) ask();
  recall_for(Pick::any, nullptr, nullptr);
}

}  // namespace craton::omp
