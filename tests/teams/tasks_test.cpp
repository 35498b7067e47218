// Trees of tasks, with groups, dependences, locks, events and barriers, over ranks that lend them to each
// other: each runs once, after what it waits for, and finds what was written before; who waits goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "omp/depends.hpp"
#include "schedules.hpp"
#include "sim_team.hpp"

namespace craton::omp::test {

namespace {

constexpr std::array<const char*, 8> task_counts = {
    "run by another rank", "group", "dependence", "wait with a lock", "event", "priority", "run at once",
    "wait for dependences"};

class TaskRun {
 public:
  explicit TaskRun(std::uint64_t seed)
      : seed_(seed),
        team_(seed, {.ranks = ranks_of(seed),
                     .threads_a_rank = threads_of(seed),
                     .given = [this](void* block) { end_block(block); }}) {}

  std::string go() {
    has_many_ = random().one_in(100);
    has_locks_ = random().one_in(2);
    has_events_ = random().one_in(3);
    std::vector<RegionSize> regions(random().between(1, 3));
    for (RegionSize& region : regions) {
      region.ranks = random().one_in(4) ? static_cast<Rank>(random().between(2, team_.size())) : team_.size();
      region.threads = region.ranks * team_.threads_a_rank();
    }
    barriers_.resize(regions.size() + 1);
    for (std::size_t& barriers : barriers_) barriers = random().below(3);
    team_.spawn_threads(regions, [this](std::size_t region) { run_thread(region); });
    std::string failure = team_.run();
    for (const Node& node : nodes_)
      if (failure.empty() && (!node.has_ended || node.blocks != 0)) failure = "a task is left, or its block";
    team_.abandon();
    return failure.empty() ? failure : "seed " + std::to_string(seed_) + ", " + failure;
  }

  Seen seen;

 private:
  static Rank ranks_of(std::uint64_t seed) { return static_cast<Rank>(2 + seed % 3); }
  static std::uint32_t threads_of(std::uint64_t seed) { return static_cast<std::uint32_t>(1 + seed / 3 % 2); }

  /// A task of the program.
  struct Node {
    TaskRun* run;
    Rank maker;
    std::size_t depth;
    bool may_lock;
    bool is_under_lock;  ///< somebody has the lock who waits for this
    Known known{};       ///< to who made it; in the end what it knew itself
    bool has_begun = false, has_run = false, has_ended = false;
    int blocks = 0;  ///< that the pool has, and is to give back
    Task* task = nullptr;
    bool has_event = false;
    Node* fulfils = nullptr;  ///< the event of that one
    std::vector<const Node*> before{};
    std::vector<const Node*> children{};
  };
  /// What the children of a node depend on each other by.
  struct Uses {
    const Node* writer = nullptr;
    std::vector<const Node*> readers;
  };
  using AllUses = std::map<const void*, Uses>;
  struct Lock {
    bool is_held = false;
    std::vector<fabric::sim::Fiber*> waiting;
  };

  Random& random() { return team_.random(); }
  void end_block(void* block) { --static_cast<Node*>(block)->blocks; }

  void run_thread(std::size_t region) {
    Node root{.run = this,
              .maker = team_.current().rank,
              .depth = 0,
              .may_lock = has_locks_,
              .is_under_lock = false};
    for (std::size_t barrier = 0;; ++barrier) {
      make_and_wait(root);
      if (barrier == barriers_[region]) return;
      team_.team().meet(0);
      expect_ended(root.children);
    }
  }

  /// The code of a task.
  static void run_node(void* block) {
    auto& node = *static_cast<Node*>(block);
    node.run->run_one(node);
  }
  void run_one(Node& node) {
    team_.require(!node.has_begun, "a task is run again");
    node.has_begun = true;
    team_.know_at_least(node.known);
    expect_ended(node.before);
    if (team_.current().rank != node.maker) ++seen["run by another rank"];
    team_.wrote();
    if (random().one_in(3)) team_.compute();
    if (node.depth < 3) make_and_wait(node);
    if (node.fulfils != nullptr) fulfil(*node.fulfils);
    team_.wrote();
    node.known = team_.known();
    node.has_run = true;
    if (!node.has_event) node.has_ended = true;
  }

  void fulfil(Node& other) {
    ++seen["event"];
    team_.wrote();
    other.has_event = false;  // its end, if it has run
    fulfilled_by_[&other] = team_.known();
    if (other.has_run) other.has_ended = true;
    team_.fulfil(other.maker, *other.task);
  }

  void make_and_wait(Node& node) {
    AllUses uses;
    std::size_t children = random().below(node.depth == 0 ? 6 : 4);
    if (has_many_) children = node.depth == 0 ? 600 : 0;
    const bool locks = node.may_lock && random().one_in(3);
    // docs/openmp-runtime.md says why there is no group that somebody waits for with a lock.
    const bool groups = !locks && !node.is_under_lock && random().one_in(4);
    if (locks) take_lock();
    const bool is_under_lock = node.is_under_lock || locks;
    const std::unique_ptr<TaskGroup> group = groups ? begin_group() : nullptr;
    const std::size_t first = node.children.size();
    for (std::size_t i = 0; i < children; ++i) {
      if (nodes_.size() > 60 && !has_many_) break;
      make_some(node, is_under_lock, uses);
      team_.maybe_switch();
      if (!has_many_ && random().one_in(8)) wait_for_children(node);
    }
    if (groups) {
      ++seen["group"];
      team_.pool().wait_for_group(team_.thread(), *group);
      team_.thread().task->group = group->outer;
      for (std::size_t i = first; i < node.children.size(); ++i) expect_all_ended(*node.children[i]);
    }
    if (locks) {
      ++seen["wait with a lock"];
      wait_for_children(node);
      give_lock();
    }
    // Dependences are of the children of one task: those made next know nothing of these.
    if (random().one_in(2) || !uses.empty()) wait_for_children(node);
  }

  void make_some(Node& node, bool is_under_lock, AllUses& uses) {
    Node& child = add_node(node, is_under_lock);
    if (has_events_ && random().one_in(4)) {
      child.has_event = true;
      make(child, {});
      if (random().one_in(2)) return fulfil(child);
      Node& other = add_node(node, is_under_lock);
      other.fulfils = &child;
      return make(other, {});
    }
    std::vector<Dependence> items;
    if (random().one_in(3)) items = some_items(uses, child);
    make(child, items);
  }

  Node& add_node(Node& parent, bool is_under_lock) {
    nodes_.push_back({.run = this,
                      .maker = team_.current().rank,
                      .depth = parent.depth + 1,
                      .may_lock = parent.may_lock && !is_under_lock,
                      .is_under_lock = is_under_lock});
    parent.children.push_back(&nodes_.back());
    return nodes_.back();
  }

  std::vector<Dependence> some_items(AllUses& uses, Node& child) {
    static constexpr std::array<char, 3> addresses{};
    std::vector<Dependence> items;
    for (const char& address : addresses) {
      if (random().one_in(2)) continue;
      const bool writes = random().one_in(2);
      items.push_back({.address = &address, .writes = writes});
      Uses& used = uses[&address];
      if (used.writer != nullptr) child.before.push_back(used.writer);
      if (!writes) {
        used.readers.push_back(&child);
        continue;
      }
      child.before.insert(child.before.end(), used.readers.begin(), used.readers.end());
      used = {.writer = &child, .readers = {}};
    }
    if (!items.empty()) ++seen["dependence"];
    return items;
  }

  /// As run_task() does.
  void make(Node& child, const std::vector<Dependence>& items) {
    TaskPool& pool = team_.pool();
    Thread& thread = team_.thread();
    team_.wrote();
    child.known = team_.known();
    auto task = std::make_unique<Task>();
    task->parent = thread.task;
    task->group = thread.task->group;
    task->loan = thread.task->loan;
    child.task = task.get();
    if (child.has_event) task->ends_to_come = 2;
    if (!child.has_event && pool.is_full()) {
      ++seen["run at once"];
      pool.wait_for_dependences(thread, items);
      pool.serve_others();
      Task* const before = std::exchange(thread.task, task.get());
      run_one(child);
      thread.task = before;
      return pool.end_undeferred(std::move(task));
    }
    if (child.has_event) task->pool = &pool;
    task->function = &TaskRun::run_node;
    task->block = task->allocation = &child;
    task->block_bytes = sizeof child;
    ++child.blocks;
    if (random().one_in(8)) {
      ++seen["priority"];
      task->priority = 1;
    }
    pool.add(std::move(task), items);
    // One that only reads waits for those that write, not for others that read.
    const auto writes = [](const Dependence& item) { return item.writes; };
    if (std::any_of(items.begin(), items.end(), writes) && random().one_in(8)) {
      ++seen["wait for dependences"];
      pool.wait_for_dependences(thread, items);
      expect_ended({&child});
    }
  }

  std::unique_ptr<TaskGroup> begin_group() {
    Task& task = *team_.thread().task;
    auto group = std::make_unique<TaskGroup>();
    group->outer = task.group;
    task.group = group.get();
    return group;
  }

  void wait_for_children(const Node& node) {
    team_.pool().wait_for_children(team_.thread());
    expect_ended(node.children);
  }

  void expect_ended(const std::vector<const Node*>& nodes) {
    for (const Node* const node : nodes) {
      team_.require(node->has_ended, "a wait ends before a task has");
      team_.know_at_least(node->known);
      if (const auto found = fulfilled_by_.find(node); found != fulfilled_by_.end())
        team_.know_at_least(found->second);
    }
  }
  void expect_all_ended(const Node& node) {
    expect_ended({&node});
    for (const Node* const child : node.children) expect_all_ended(*child);
  }

  void take_lock() {
    while (lock_.is_held) {
      team_.sleep_among(lock_.waiting, "waiting for a lock");
      team_.maybe_switch();
    }
    lock_.is_held = true;
  }
  void give_lock() {
    lock_.is_held = false;
    team_.wake_all(lock_.waiting);
  }

  const std::uint64_t seed_;
  std::deque<Node> nodes_;
  std::map<const Node*, Known> fulfilled_by_;
  std::vector<std::size_t> barriers_;  ///< of each region
  bool has_many_ = false, has_locks_ = false, has_events_ = false;
  Lock lock_;
  SimTeam team_;
};

class TaskPrograms : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TaskPrograms, RunEachTaskOnce) {
  const Schedules all = run_schedules<TaskRun>(GetParam(), schedules_wanted(40'000, 500));
  expect_names_seen(all, task_counts);
}

INSTANTIATE_TEST_SUITE_P(Part, TaskPrograms, testing::Range(std::uint64_t{0}, schedule_parts));

}  // namespace

}  // namespace craton::omp::test
