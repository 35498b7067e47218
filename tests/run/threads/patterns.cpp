/// \file
/// How C++ programs use threads: pools, queues, futures, barriers, tables under locks, lists without, and
/// what ends with a thread.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "check_threads.h"

namespace {

using std::size_t;

/// Takes tasks from one queue, as programs' own pools do.
class Pool {
 public:
  explicit Pool(int threads) : size_(threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(lock_);
      is_over_ = true;
    }
    filled_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  template <typename Body>
  auto add(Body body) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Body>()>>(std::move(body));
    auto result = task->get_future();
    {
      const std::lock_guard lock(lock_);
      tasks_.emplace_back([task] { (*task)(); });
    }
    filled_.notify_one();
    return result;
  }

 private:
  void work() {
    meet(size_);
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock lock(lock_);
        filled_.wait(lock, [this] { return is_over_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  const int size_;
  std::mutex lock_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> tasks_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

void pools(int n) {
  long total = 0;
  {
    Pool pool(n);
    std::vector<std::future<long>> results;
    for (long i = 0; i < 200; ++i) {
      results.push_back(pool.add([i] {
        std::vector<long> numbers(static_cast<size_t>(i));
        std::iota(numbers.begin(), numbers.end(), i);
        return std::accumulate(numbers.begin(), numbers.end(), 0L);
      }));
    }
    for (auto& result : results) total += result.get();
    auto failed = pool.add([]() -> int { throw std::out_of_range("of a task"); });
    try {
      failed.get();
    } catch (const std::out_of_range& error) {
      total += std::strcmp(error.what(), "of a task") == 0 ? 1'000'000'000 : 0;
    }
  }
  check_int("a pool of threads", total);
}

/// A grid whose rows belong to threads, which meet after each step.
void stencil(int n) {
  constexpr size_t side = 130;
  std::vector<double> now(side * side, 0.0);
  std::vector<double> next(side * side, 0.0);
  for (size_t i = 0; i < side; ++i) now[i] = next[i] = 100.0;
  pthread_barrier_t meeting;
  pthread_barrier_init(&meeting, nullptr, static_cast<unsigned>(n));
  std::barrier swap(n, [&]() noexcept { now.swap(next); });
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      const size_t begin = 1 + (side - 2) * static_cast<size_t>(self) / static_cast<size_t>(n);
      const size_t end = 1 + (side - 2) * static_cast<size_t>(self + 1) / static_cast<size_t>(n);
      for (int step = 0; step < 60; ++step) {
        for (size_t i = begin; i < end; ++i) {
          for (size_t j = 1; j < side - 1; ++j) {
            next[i * side + j] = 0.25 * (now[(i - 1) * side + j] + now[(i + 1) * side + j] +
                                         now[i * side + j - 1] + now[i * side + j + 1]);
          }
        }
        if (step % 2 == 0) {
          swap.arrive_and_wait();
          continue;
        }
        if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD) now.swap(next);
        pthread_barrier_wait(&meeting);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pthread_barrier_destroy(&meeting);
  double sum = 0;
  for (const double value : now) sum += value;
  check_int("a stencil with barriers", static_cast<long long>(sum * 1e9));
}

/// Many write a table, and look at it, under a lock for readers and writers.
void table(int n) {
  std::map<std::string, long> counts;
  std::shared_mutex lock;
  std::atomic<long> seen{0};
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      for (int i = 0; i < 100; ++i) {
        const std::string word = "word " + std::to_string((i * 7 + self) % 40);
        if (i % 4 != 0) {
          const std::shared_lock reading(lock);
          const auto found = counts.find(word);
          seen += found != counts.end() && found->second > 0 ? 1 : 0;
        }
        const std::unique_lock writing(lock);
        ++counts[word];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  long total = 0;
  for (const auto& [word, count] : counts) total += count * static_cast<long>(word.size());
  check_int("a table under a lock", total + (seen <= 75L * n ? 1'000'000 : 0));
}

/// A stack that is changed by exchanges alone.
struct Node {
  long value;
  Node* next;
};

void list(int n) {
  std::atomic<Node*> head{nullptr};
  std::latch start(n);
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      start.arrive_and_wait();
      for (long i = 0; i < 100; ++i) {
        Node* const made = new Node{self * 1000 + i, head.load()};
        while (!head.compare_exchange_weak(made->next, made)) continue;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  long total = 0;
  long count = 0;
  for (Node* each = head.load(); each != nullptr; ++count) {
    total += each->value;
    delete std::exchange(each, each->next);
  }
  check_int("a list without locks", total * 1000 + count);
}

/// From thread to thread, in a ring, by flags and by semaphores.
void rings(int n) {
  const auto count = static_cast<size_t>(n);
  std::vector<std::unique_ptr<std::counting_semaphore<>>> turns;
  for (size_t i = 0; i < count; ++i)
    turns.push_back(std::make_unique<std::counting_semaphore<>>(i == 0 ? 1 : 0));
  std::atomic<int> turn{0};
  std::latch half(n);
  std::vector<long> data(4096, 0);
  std::vector<std::thread> threads;
  for (size_t self = 0; self < count; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      for (int round = 0; round < 10; ++round) {
        turns[self]->acquire();
        for (long& each : data) each = (each * 3 + static_cast<long>(self)) % 1000003;
        turns[(self + 1) % count]->release();
      }
      half.arrive_and_wait();
      for (int round = 0; round < 10; ++round) {
        while (turn.load(std::memory_order_acquire) % n != static_cast<int>(self)) std::this_thread::yield();
        for (long& each : data) each = (each * 5 + static_cast<long>(self)) % 1000003;
        turn.store(turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  check_int("data that goes round", std::accumulate(data.begin(), data.end(), 0L));
}

/// Futures of std::async, promises, and threads that are told to stop.
void futures(int n) {
  std::vector<std::future<std::string>> words;
  for (int i = 0; i < n; ++i) {
    words.push_back(std::async(std::launch::async, [n, i] {
      meet(n);
      return std::string(static_cast<size_t>(i) + 30, 'x') + std::to_string(i);
    }));
  }
  size_t total = 0;
  for (auto& word : words) total += word.get().size();
  check_int("results of threads", static_cast<long long>(total));
  std::vector<std::promise<std::unique_ptr<int>>> promises(static_cast<size_t>(n));
  std::vector<std::jthread> threads;
  std::atomic<int> stopped{0};
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i](const std::stop_token& stop) {
      meet(n);
      promises[static_cast<size_t>(i)].set_value(std::make_unique<int>(i));
      std::mutex lock;
      std::condition_variable_any changed;
      std::unique_lock locked(lock);
      changed.wait(locked, stop, [] { return false; });
      ++stopped;
    });
  }
  for (auto& promise : promises) total += static_cast<size_t>(*promise.get_future().get());
  threads.clear();
  check_int("futures", static_cast<long long>(total) * 100 + stopped);
}

/// What is thread-local has constructors and destructors on its own thread.
std::atomic<int> made{0};
std::atomic<int> gone{0};
struct Local {
  Local() : home(std::this_thread::get_id()) { ++made; }
  Local(const Local&) = delete;
  ~Local() { gone += home == std::this_thread::get_id() ? 1 : 0; }
  std::thread::id home;
  std::vector<int> numbers{1, 2, 3};
};
thread_local Local local;

Local& first_use() {
  static Local once;
  return once;
}

void locals(int n) {
  std::atomic<long> total{0};
  std::once_flag flag;
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      local.numbers.push_back(self);
      total += std::accumulate(local.numbers.begin(), local.numbers.end(), 0L);
      total += static_cast<long>(first_use().numbers.size());
      std::call_once(flag, [&] { ++calls; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  check_int("what is local", total * 1000 + calls * 100 + (made - gone));
}

/// Exceptions that a thread gives to who joins it.
void exceptions(int n) {
  std::vector<std::exception_ptr> caught(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&, self] {
      meet(n);
      try {
        throw std::runtime_error("of thread " + std::to_string(self));
      } catch (...) {
        caught[static_cast<size_t>(self)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t total = 0;
  for (const std::exception_ptr& each : caught) {
    try {
      std::rethrow_exception(each);
    } catch (const std::runtime_error& error) {
      total += std::strlen(error.what());
    }
  }
  check_int("exceptions of threads", static_cast<long long>(total));
}

/// Lines of threads come whole, and those of one after the other in that order.
void lines(int n) {
  for (int self = 0; self < n; ++self) {
    std::thread([self] {
      std::printf("line of thread %d, ", self);
      std::printf("in two parts\n");
      std::printf("and one without an end ");
    }).join();
    std::printf("that main ends\n");
  }
  check_int("lines", n);
}

}  // namespace

int main() {
  const int n = thread_count();
  pools(n);
  stencil(n);
  table(n);
  list(n);
  rings(n);
  futures(n);
  locals(n);
  exceptions(n);
  lines(n);
  check_int("threads at a time", std::thread::hardware_concurrency() > 0);
  return finish();
}
