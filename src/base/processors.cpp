#include "base/processors.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace craton {

namespace {

/// The kernel may have more processors than a cpu_set_t has bits. No memory comes from CPU_ALLOC: the C
/// library takes it from malloc, which in a shared program is not the runtime's own.
constexpr std::size_t most_processors = 16384;
struct Set {
  static constexpr std::size_t bits = 8 * sizeof(unsigned long);
  std::array<unsigned long, most_processors / bits> words{};

  bool has(std::size_t number) const noexcept { return (words[number / bits] >> (number % bits) & 1U) != 0; }
  void add(std::size_t number) noexcept { words[number / bits] |= 1UL << (number % bits); }
  cpu_set_t* kernels() noexcept { return reinterpret_cast<cpu_set_t*>(words.data()); }
};

std::atomic<bool> is_any_bound{false};
constinit thread_local int own_processor = -1;

/// What the calling thread may use. \returns false: the kernel does not say
bool get_allowed(Set& set) noexcept {
  return ::sched_getaffinity(0, sizeof set.words, set.kernels()) == 0;
}

void allow(Set& set) noexcept {
  static_cast<void>(::sched_setaffinity(0, sizeof set.words, set.kernels()));
}

std::vector<std::uint32_t> read_processors() {
  std::vector<std::uint32_t> numbers;
  Set set;
  if (get_allowed(set)) {
    for (std::size_t i = 0; i < most_processors; ++i) {
      if (set.has(i)) numbers.push_back(static_cast<std::uint32_t>(i));
    }
  }
  if (numbers.empty()) numbers.push_back(0);
  return numbers;
}

void allow(const std::vector<std::uint32_t>& numbers) noexcept {
  Set set;
  for (const std::uint32_t number : numbers) {
    if (number < most_processors) set.add(number);
  }
  allow(set);
}

/// From where the kernel may move it on.
void move_to(std::uint32_t number) noexcept {
  Set before;
  if (number >= most_processors || !get_allowed(before) || !before.has(number)) return;
  Set only;
  only.add(number);
  allow(only);
  allow(before);
}

}  // namespace

const std::vector<std::uint32_t>& processors() {
  static const std::vector<std::uint32_t> numbers = read_processors();
  return numbers;
}

void use_processors(const std::vector<std::uint32_t>& numbers) noexcept {
  static_cast<void>(processors());  // as they were before
  is_any_bound.store(true, std::memory_order_release);
  allow(numbers);
}

void settle_on_processor(std::uint32_t number) noexcept {
  own_processor = static_cast<int>(number);
  move_to(number);
}

void leave_processor(int number) noexcept {
  if (number < 0 || own_processor < 0 || own_processor == number || ::sched_getcpu() != number) return;
  move_to(static_cast<std::uint32_t>(own_processor));
}

void use_all_processors() noexcept {
  if (is_any_bound.load(std::memory_order_acquire)) allow(processors());
}

}  // namespace craton
