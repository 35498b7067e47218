/// \file
/// Atomic objects on the stack of main, which threads of all ranks use by references: locks that are freed by
/// plain stores, and pointers that are looked at by plain loads.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "check_threads.h"

namespace {

/// Taken by an exchange.
class FlagLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

/// Taken by a comparison and exchange.
class WordLock {
 public:
  void lock() {
    for (std::uint32_t expected = 0;
         !word_.compare_exchange_weak(expected, 1, std::memory_order_acquire, std::memory_order_relaxed);
         expected = 0)
      std::this_thread::yield();
  }
  void unlock() { word_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> word_{0};
};

/// Taken by a bit beside others, which the holder changes by plain stores as well.
class BitLock {
 public:
  void lock() {
    while ((word_.fetch_or(1, std::memory_order_acquire) & 1) != 0) std::this_thread::yield();
  }
  void unlock() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  std::uint64_t times() const { return word_.load() / 2; }

 private:
  std::atomic<std::uint64_t> word_{0};
};

struct Numbers {
  std::array<long, 700> all;  // more than a page
};

void add_one(Numbers& numbers) {
  for (long& number : numbers.all) ++number;
}

/// \returns the number of rounds that all numbers tell of, if they are the same
long rounds_of(const Numbers& numbers) {
  for (const long number : numbers.all)
    if (number != numbers.all[0]) return -1;
  return numbers.all[0];
}

template <typename Body>
void with_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int self = 0; self < count; ++self) {
    threads.emplace_back([&body, self, count] {
      meet(count);
      body(static_cast<std::size_t>(self));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr int rounds = 25;

template <typename Lock>
void count_under(const char* name, int threads, Lock& lock) {
  const auto numbers = std::make_unique<Numbers>();
  with_threads(threads, [&](std::size_t) {
    for (int round = 0; round < rounds; ++round) {
      lock.lock();
      add_one(*numbers);
      lock.unlock();
    }
  });
  check_int(name, rounds_of(*numbers));
}

struct Node {
  Node* next;
  long number;
  std::array<long, 60> copies;
};

bool is_right(const Node& node) {
  bool right = true;
  for (const long copy : node.copies) right = right && copy == node.number;
  return right;
}

/// All push, and pop what others have pushed; what was popped is not pushed again.
void push_and_pop(int threads) {
  constexpr long each = 40;
  const auto nodes = std::make_unique<Node[]>(static_cast<std::size_t>(threads) * each);
  const auto sums = std::make_unique<long[]>(static_cast<std::size_t>(threads));
  const auto counts = std::make_unique<long[]>(static_cast<std::size_t>(threads));
  std::atomic<Node*> head{nullptr};
  with_threads(threads, [&](std::size_t self) {
    const auto push = [&head](Node& node) {
      node.next = head.load(std::memory_order_relaxed);
      while (!head.compare_exchange_weak(node.next, &node, std::memory_order_release,
                                         std::memory_order_relaxed)) {
      }
    };
    const auto pop = [&head]() -> const Node* {
      Node* node = head.load(std::memory_order_acquire);
      while (node != nullptr && !head.compare_exchange_weak(node, node->next, std::memory_order_acquire)) {
      }
      return node;
    };
    for (long i = 0; i < each; ++i) {
      Node& node = nodes[self * each + static_cast<std::size_t>(i)];
      node.number = static_cast<long>(self) * each + i;
      node.copies.fill(node.number);
      push(node);
      if (i % 2 == 0) continue;
      if (const Node* const popped = pop(); popped != nullptr) {
        ++counts[self];
        sums[self] += is_right(*popped) ? popped->number : -1'000'000;
      }
    }
  });
  long left = 0;
  long sum = 0;
  for (const Node* node = head.load(); node != nullptr; node = node->next) {
    ++left;
    sum += node->number;
  }
  for (std::size_t self = 0; self < static_cast<std::size_t>(threads); ++self) {
    left += counts[self];
    sum += sums[self];
  }
  check_int("nodes pushed", left);
  check_int("sum of nodes", sum);
}

}  // namespace

int main() {
  const int threads = thread_count();
  FlagLock flag;
  count_under("under a flag", threads, flag);
  WordLock word;
  count_under("under a word", threads, word);
  BitLock bit;
  count_under("under a bit", threads, bit);
  check_int("rounds of the bit", static_cast<long>(bit.times()));
  push_and_pop(threads);
  return finish();
}
