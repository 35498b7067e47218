/// \file
/// Containers and strings of the standard library, allocated by one thread and freed by another.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "check.h"

namespace {

std::vector<int> global_vector;
std::map<std::string, int> global_map;
std::string global_text = "a text that does not fit into the string itself";

struct Shared {
  std::vector<double> values;
  std::shared_ptr<std::string> name;
};

void combine(std::vector<int>& into, const std::vector<int>& from) {
  into.insert(into.end(), from.begin(), from.end());
}
void add_counts(std::map<int, int>& into, const std::map<int, int>& from) {
  for (const auto& [key, count] : from) into[key] += count;
}
#pragma omp declare reduction(append : std::vector <int> : combine(omp_out, omp_in))
#pragma omp declare reduction(count : std::map <int, int> : add_counts(omp_out, omp_in))
#pragma omp declare reduction(longest       \
                              : std::string \
                              : omp_out = omp_in.size() > omp_out.size() ? omp_in : omp_out)

void grow_in_all_threads() {
  const auto team = static_cast<std::size_t>(omp_get_max_threads());
  global_vector.assign(10000, 1);
#pragma omp parallel for
  for (std::size_t i = 0; i < global_vector.size(); ++i) {
    take_part();
    global_vector[i] += static_cast<int>(i);
  }
  check_int("vector", std::accumulate(global_vector.begin(), global_vector.end(), 0LL));

  std::vector<std::vector<int>> rows(team);
#pragma omp parallel
  {
    take_part();
    const auto self = static_cast<std::size_t>(omp_get_thread_num());
    for (int i = 0; i < 500; ++i) rows[self].push_back(i);
#pragma omp barrier
    std::vector<int> taken = std::move(rows[(self + 1) % team]);
    taken.resize(1000, 2);
#pragma omp barrier
    rows[self] = std::move(taken);
  }
  long long sum = 0;
  for (const auto& row : rows) sum += std::accumulate(row.begin(), row.end(), 0LL);
  check_int("vectors grown by one thread, then another", sum);
  rows.clear();
  rows.shrink_to_fit();

#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 20; ++i) {
      const std::string key = "key number " + std::to_string(i % 7) + " of a map with long keys";
#pragma omp critical
      global_map[key] += 1;
    }
  }
  sum = 0;
  for (const auto& [key, count] : global_map) sum = sum * 31 + count + static_cast<int>(key.size());
  check_int("map", sum);
}

void pass_objects() {
  const auto team = static_cast<std::size_t>(omp_get_max_threads());
  std::list<std::string> queue;
  std::size_t characters = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
#pragma omp critical(queue)
      queue.push_back(std::string(static_cast<std::size_t>(i), 'x'));
    }
#pragma omp barrier
    for (;;) {
      std::string text;
      bool has_text = false;
#pragma omp critical(queue)
      if (!queue.empty()) {
        text = std::move(queue.front());
        queue.pop_front();
        has_text = true;
      }
      if (!has_text) break;
#pragma omp atomic
      characters += text.size();
    }
  }
  check_int("a queue of strings", static_cast<long long>(characters));

  Shared shared{{}, std::make_shared<std::string>("shared by all of them, and counted")};
  std::size_t lengths = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
      const std::shared_ptr<std::string> copy = shared.name;
#pragma omp atomic
      lengths += copy->size();
    }
  }
  check_int("shared pointers", static_cast<long long>(lengths));
  check_int("their count", shared.name.use_count());
  std::vector<std::unique_ptr<std::vector<int>>> owned(team);
#pragma omp parallel
  {
    take_part();
    const auto self = static_cast<std::size_t>(omp_get_thread_num());
    owned[self] = std::make_unique<std::vector<int>>(100, static_cast<int>(self));
#pragma omp barrier
    owned[(self + 1) % team] = std::make_unique<std::vector<int>>(50, 3);
  }
  long long sum = 0;
  for (const auto& each : owned) sum += std::accumulate(each->begin(), each->end(), 0);
  check_int("unique pointers", sum);

  std::vector<std::function<int(int)>> functions(team);
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const std::array<long, 6> captured{self, 1, 2, 3, 4, 5};
    functions[static_cast<std::size_t>(self)] = [captured](int x) {
      return static_cast<int>(captured[0] + captured[5]) * x;
    };
#pragma omp barrier
#pragma omp single
    for (const auto& function : functions) sum += function(10);
  }
  check_int("functions", sum);
}

void reduce_objects() {
  std::vector<int> appended;
#pragma omp parallel for reduction(append : appended)
  for (int i = 0; i < 300; ++i) {
    take_part();
    appended.push_back(i);
  }
  std::sort(appended.begin(), appended.end());
  check_int("reduction of vectors", appended[299] * 1000 + static_cast<int>(appended.size()));
  std::map<int, int> counts;
#pragma omp parallel for reduction(count : counts)
  for (int i = 0; i < 300; ++i) {
    take_part();
    ++counts[i % 11];
  }
  long long sum = 0;
  for (const auto& [value, count] : counts) sum = sum * 7 + value * count;
  check_int("reduction of maps", sum);
  std::string longest;
#pragma omp parallel for reduction(longest : longest) schedule(dynamic)
  for (int i = 0; i < 100; ++i) {
    meet();
    const std::string text(static_cast<std::size_t>((i * 37) % 101), static_cast<char>('a' + i % 26));
    if (text.size() > longest.size()) longest = text;
  }
  check_text("reduction of strings", longest.c_str());
}

void copy_objects() {
  std::string first = global_text;
  std::vector<double> own(100, 0.5);
  double total = 0;
#pragma omp parallel firstprivate(first, own) reduction(+ : total)
  {
    take_part();
    first += std::to_string(omp_get_thread_num());
    own.push_back(omp_get_thread_num());
    total += static_cast<double>(first.size()) + std::accumulate(own.begin(), own.end(), 0.0);
  }
  check_real("firstprivate objects", total);
  std::string last;
#pragma omp parallel for lastprivate(last)
  for (int i = 0; i < 200; ++i) {
    take_part();
    last = "the last of all iterations was number " + std::to_string(i);
  }
  check_text("lastprivate object", last.c_str());
}

void fill_others() {
  const auto team = static_cast<std::size_t>(omp_get_max_threads());
  std::unordered_map<long, std::vector<int>> buckets;
  std::set<long> keys;
#pragma omp parallel
  {
    take_part();
    for (long i = 0; i < 60; ++i) {
#pragma omp critical
      {
        buckets[i % 13].push_back(1);
        keys.insert(i);
      }
    }
  }
  long long sum = 0;
  for (const auto& [key, bucket] : buckets) sum += key * static_cast<long>(bucket.size());
  check_int("unordered map and set", sum * 100 + static_cast<long long>(keys.size()));
  std::vector<std::string> lines(100);
#pragma omp parallel for schedule(static, 1)
  for (int i = 0; i < 100; ++i) {
    take_part();
    std::ostringstream stream;
    stream << "line " << i << " of " << 1.5 * i;
    lines[static_cast<std::size_t>(i)] = stream.str();
  }
  check_text("string streams", (lines[7] + ", " + lines[99]).c_str());
  std::vector<std::deque<int>> sorted(team);
#pragma omp parallel
  {
    take_part();
    auto& mine = sorted[static_cast<std::size_t>(omp_get_thread_num())];
    for (int i = 0; i < 700; ++i) mine.push_front((i * 613) % 701);
    std::sort(mine.begin(), mine.end());
    mine.erase(mine.begin(), mine.begin() + 100);
  }
  sum = 0;
  for (const auto& each : sorted) sum += each.front() + 10 * each.back();
  check_int("sorts in all threads", sum);
}

#ifndef __clang__
/// With libgomp a lock is an int, and destroying it does nothing, so that copies of a lock that is not set
/// are locks.
class Lock {
 public:
  Lock() { omp_init_lock(&lock_); }
  Lock(const Lock&) = default;
  Lock& operator=(const Lock&) = default;
  ~Lock() { omp_destroy_lock(&lock_); }
  void set() { omp_set_lock(&lock_); }
  bool test() { return omp_test_lock(&lock_) != 0; }
  void unset() { omp_unset_lock(&lock_); }

 private:
  omp_lock_t lock_;
};
struct Account {
  Lock lock;
  long value = 1000;
};

/// Of locks of their own all can be set by one thread.
template <typename Locked>
std::size_t count_apart(std::vector<Locked>& all) {
  std::vector<Locked*> set;
  for (Locked& one : all) {
    if (one.lock.test()) set.push_back(&one);
  }
  for (Locked* one : set) one->lock.unset();
  return set.size();
}

void move_between(std::vector<Account>& accounts) {
  const std::size_t size = accounts.size();
#pragma omp parallel
  {
    take_part();
#pragma omp for schedule(static, 1)
    for (std::size_t i = 0; i < 200; ++i) {
      const std::size_t one = i % size;
      const std::size_t other = (i * 3 + 1) % size;
      if (one == other) continue;
      accounts[std::min(one, other)].lock.set();
      accounts[std::max(one, other)].lock.set();
      accounts[one].value -= static_cast<long>(i);
      accounts[other].value += static_cast<long>(i);
      accounts[one].lock.unset();
      accounts[other].lock.unset();
    }
  }
}

void copy_locks() {
  std::vector<Account> accounts;
  for (int i = 0; i < 100; ++i) accounts.push_back(Account());
  const std::size_t apart = count_apart(accounts);
  check_int("locks that were copied", static_cast<long long>(apart));
  if (apart != accounts.size()) return;
  move_between(accounts);
  // Used ones are copied where there is more room.
  for (int i = 0; i < 200; ++i) accounts.push_back(Account());
  move_between(accounts);
  check_int("used locks that were copied", static_cast<long long>(count_apart(accounts)));
  long sum = 0;
  for (const Account& account : accounts) sum = sum * 7 % 1000003 + account.value;
  check_int("what they guard", sum);
  accounts.clear();
  std::vector<Account> others(500);
  check_int("locks made after copies were destroyed", static_cast<long long>(count_apart(others)));
}
#endif

}  // namespace

int main() {
  grow_in_all_threads();
  pass_objects();
  reduce_objects();
  copy_objects();
  fill_others();
#ifndef __clang__
  copy_locks();
#endif
  return finish();
}
