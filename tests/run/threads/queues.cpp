/// \file
/// Queues from one thread to another, without locks and without an instruction that is atomic on its own:
/// what they order is ordered by release stores and acquire loads, which are plain ones, of threads that do
/// something else between two looks.
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "check_threads.h"

namespace {

struct Item {
  long number;
  std::array<double, 30> values;
  long check;
};

class Queue {
 public:
  bool try_put(std::unique_ptr<Item>& item) {
    const std::size_t at = put_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == room) return false;
    items_[at % room] = std::move(item);
    put_.store(at + 1, std::memory_order_release);
    return true;
  }
  std::unique_ptr<Item> try_take() {
    const std::size_t at = taken_.load(std::memory_order_relaxed);
    if (at == put_.load(std::memory_order_acquire)) return nullptr;
    std::unique_ptr<Item> item = std::move(items_[at % room]);
    taken_.store(at + 1, std::memory_order_release);
    return item;
  }

 private:
  static constexpr std::size_t room = 64;
  static constexpr std::size_t page = 4096;
  alignas(page) std::atomic<std::size_t> taken_{0};
  alignas(page) std::atomic<std::size_t> put_{0};
  alignas(page) std::array<std::unique_ptr<Item>, room> items_;
};

[[gnu::noinline]] double something_else(double from) {
  for (int i = 0; i < 2000; ++i) from = std::sqrt(from + i);
  return from;
}

constexpr long items = 150;

std::unique_ptr<Item> made(long number) {
  auto item = std::make_unique<Item>();
  item->number = number;
  double value = static_cast<double>(number) / 2;
  for (double& each : item->values) each = value++;
  item->check = number * 7;
  return item;
}

bool is_right(const Item& item, long number) {
  double value = static_cast<double>(number) / 2;
  bool right = item.number == number && item.check == number * 7;
  for (const double each : item.values) right = right && each == value++;
  return right;
}

}  // namespace

int main() {
  const int n = thread_count();
  const auto count = static_cast<std::size_t>(n);
  const auto queues = std::make_unique<Queue[]>(count);
  const auto right = std::make_unique<long[]>(count);
  std::vector<std::thread> takers;
  for (std::size_t self = 0; self < count; ++self) {
    takers.emplace_back([&, self] {
      meet(n);
      double other = 0;
      for (long number = 0; number < items;) {
        const std::unique_ptr<Item> item = queues[self].try_take();
        if (item == nullptr) {
          other = something_else(other);
          continue;
        }
        if (is_right(*item, number)) ++right[self];
        ++number;
      }
    });
  }
  std::vector<long> next(count);
  double other = 0;
  for (long left = n * items; left > 0;) {
    for (std::size_t taker = 0; taker < count; ++taker) {
      if (next[taker] == items) continue;
      std::unique_ptr<Item> item = made(next[taker]);
      if (queues[taker].try_put(item)) {
        ++next[taker];
        --left;
      } else {
        other = something_else(other);
      }
    }
  }
  long all = 0;
  for (std::size_t taker = 0; taker < count; ++taker) {
    takers[taker].join();
    all += right[taker];
  }
  check_int("items right", all);
  return finish();
}
