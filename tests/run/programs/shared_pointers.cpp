/// \file
/// std::shared_ptr that all threads load, store and exchange, by the functions of C++11 and the type of
/// C++20.
#include <array>
#include <atomic>
#include <memory>

#include "check.h"

namespace {

constexpr int rounds = 200;

/// All of its numbers are the same.
using Numbers = std::array<int, 32>;

std::shared_ptr<Numbers> make(int number) {
  auto made = std::make_shared<Numbers>();
  made->fill(number);
  return made;
}

bool is_whole(const Numbers& numbers) {
  for (const int number : numbers)
    if (number != numbers[0]) return false;
  return true;
}

void loads_and_stores() {
  std::array<std::shared_ptr<Numbers>, 20> pointers;
  for (auto& pointer : pointers) pointer = make(0);
  int torn = 0;
#pragma omp parallel reduction(+ : torn)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 0; round < rounds; ++round) {
      auto& pointer = pointers[static_cast<std::size_t>(round + self) % pointers.size()];
      const std::shared_ptr<Numbers> found = std::atomic_load(&pointer);
      torn += is_whole(*found) ? 0 : 1;
      std::atomic_store(&pointer, make(round * self));
      const std::shared_ptr<Numbers> before = std::atomic_exchange(&pointer, make(round));
      torn += is_whole(*before) ? 0 : 1;
    }
  }
  check_int("torn", torn);
  long uses = 0;
  for (const auto& pointer : pointers) uses += pointer.use_count();
  check_int("uses", uses);
}

/// Each adds to the number by another object in its place.
void comparisons() {
  auto count = std::make_shared<int>(0);
#pragma omp parallel
  {
    take_part();
    for (int round = 0; round < rounds; ++round) {
      std::shared_ptr<int> seen = std::atomic_load(&count);
      while (!std::atomic_compare_exchange_weak(&count, &seen, std::make_shared<int>(*seen + 1))) {
      }
    }
  }
  check_int("counted", *count - rounds * omp_get_max_threads());
  check_int("uses of the count", count.use_count());
}

void the_type() {
  constexpr int few = rounds / 10;
  std::atomic<std::shared_ptr<int>> count(std::make_shared<int>(0));
#pragma omp parallel
  {
    take_part();
    for (int round = 0; round < few; ++round) {
      std::shared_ptr<int> seen = count.load();
      while (!count.compare_exchange_weak(seen, std::make_shared<int>(*seen + 1))) {
      }
    }
  }
  check_int("counted by the type", *count.load() - few * omp_get_max_threads());
}

}  // namespace

int main() {
  loads_and_stores();
  comparisons();
  the_type();
  return finish();
}
