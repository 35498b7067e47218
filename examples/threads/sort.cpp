// Sorts numbers by samples, with std::thread: each thread sorts its share and picks samples of it; one
// chooses what divides the numbers among the threads by all samples; each collects what is its own from all
// shares, and merges it. (Shi and Schaeffer, Parallel Sorting by Regular Sampling, JPDC 14, 1992.)
//
//   g++ -std=c++20 -O2 -pthread sort.cpp -o sort
//   ./sort [numbers]        16,777,216; as many threads as the machine runs at a time
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

namespace {

std::uint64_t mix(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

class Sorter {
 public:
  Sorter(std::size_t numbers, std::size_t threads)
      : threads_(threads),
        numbers_(numbers),
        sorted_(numbers),
        samples_(threads * threads),
        ends_(threads),
        meeting_(static_cast<std::ptrdiff_t>(threads)) {}

  /// The part of thread `self`.
  void work(std::size_t self) {
    const auto begin = numbers_.begin() + offset(self);
    const auto end = numbers_.begin() + offset(self + 1);
    for (auto each = begin; each != end; ++each)
      *each = mix(static_cast<std::uint64_t>(each - numbers_.begin()));
    meeting_.arrive_and_wait();
    if (self == 0) start_ = std::chrono::steady_clock::now();

    std::sort(begin, end);
    for (std::size_t i = 0; i < threads_; ++i)
      samples_[self * threads_ + i] =
          begin[(end - begin) * static_cast<std::ptrdiff_t>(i) / static_cast<std::ptrdiff_t>(threads_)];
    meeting_.arrive_and_wait();
    if (self == 0) std::sort(samples_.begin(), samples_.end());
    meeting_.arrive_and_wait();

    // Where the numbers of each thread end in this share.
    std::vector<std::size_t>& mine = ends_[self];
    for (std::size_t i = 1; i < threads_; ++i) {
      const std::uint64_t divider = samples_[i * threads_ + threads_ / 2];
      mine.push_back(static_cast<std::size_t>(std::lower_bound(begin, end, divider) - numbers_.begin()));
    }
    mine.push_back(static_cast<std::size_t>(end - numbers_.begin()));
    meeting_.arrive_and_wait();
    merge(self);
    meeting_.arrive_and_wait();
    if (self == 0)
      seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  double seconds() const { return seconds_; }
  /// In order, and the same numbers as there were: their sum and their exclusive or are.
  bool is_right() const {
    std::uint64_t sum = 0;
    std::uint64_t parity = 0;
    for (std::size_t i = 0; i < sorted_.size(); ++i) {
      sum += mix(i) - sorted_[i];
      parity ^= mix(i) ^ sorted_[i];
    }
    return sum == 0 && parity == 0 && std::is_sorted(sorted_.begin(), sorted_.end());
  }

 private:
  std::ptrdiff_t offset(std::size_t self) const {
    return static_cast<std::ptrdiff_t>(numbers_.size() * self / threads_);
  }
  std::size_t begin_of(std::size_t share, std::size_t part) const {
    return part == 0 ? static_cast<std::size_t>(offset(share)) : ends_[share][part - 1];
  }

  void merge(std::size_t self) {
    std::size_t first = 0;
    for (std::size_t share = 0; share < threads_; ++share)
      for (std::size_t part = 0; part < self; ++part) first += ends_[share][part] - begin_of(share, part);
    const auto begin = sorted_.begin() + static_cast<std::ptrdiff_t>(first);
    auto end = begin;
    for (std::size_t share = 0; share < threads_; ++share) {
      const auto middle = end;
      end = std::copy(numbers_.begin() + static_cast<std::ptrdiff_t>(begin_of(share, self)),
                      numbers_.begin() + static_cast<std::ptrdiff_t>(ends_[share][self]), middle);
      std::inplace_merge(begin, middle, end);
    }
  }

  const std::size_t threads_;
  std::vector<std::uint64_t> numbers_;
  std::vector<std::uint64_t> sorted_;
  std::vector<std::uint64_t> samples_;
  std::vector<std::vector<std::size_t>> ends_;
  std::barrier<> meeting_;
  std::chrono::steady_clock::time_point start_;
  double seconds_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  std::size_t numbers = std::size_t{1} << 24U;
  if (count > 1) numbers = std::strtoul(arguments[1], nullptr, 10);
  const std::size_t threads = std::max(std::thread::hardware_concurrency(), 1U);
  if (count > 2 || numbers < threads * threads || numbers > std::size_t{1} << 32U) {
    std::fprintf(stderr, "%s [numbers]: from %zu to 2^32\n", arguments[0], threads * threads);
    return 2;
  }
  Sorter sorter(numbers, threads);
  {
    std::vector<std::jthread> started;
    for (std::size_t i = 0; i < threads; ++i) started.emplace_back([&sorter, i] { sorter.work(i); });
  }
  const bool is_right = sorter.is_right();
  std::printf("%zu numbers sorted: %zu threads, %.3f s, %.1f million a second\n", numbers, threads,
              sorter.seconds(), static_cast<double>(numbers) / sorter.seconds() * 1e-6);
  std::puts(is_right ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  return is_right ? 0 : 1;
}
