/// \file
/// Threads that hand each other data by plain stores and loads of flags, none of which is a
/// read-modify-write: release and acquire of C++ and OpenMP, and volatile, as they are on x86-64.
#include <sched.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <deque>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int words = 1500;  // some pages for each thread
constexpr int rounds = 15;

/// On pages of its own, so that no read-modify-write reaches it.
template <typename Value>
struct alignas(4096) Alone {
  Value value{};
};

std::vector<std::vector<int>> buffers;

void fill(int self, int round) {
  for (int i = 0; i < words; ++i)
    buffers[static_cast<std::size_t>(self)][static_cast<std::size_t>(i)] = round * 100 + self;
}
int count_wrong(int other, int round) {
  int wrong = 0;
  for (int i = 0; i < words; ++i)
    wrong += buffers[static_cast<std::size_t>(other)][static_cast<std::size_t>(i)] != round * 100 + other;
  return wrong;
}

struct Flags {
  Alone<std::atomic<int>> filled[most_threads];
  Alone<std::atomic<int>> read[most_threads];
};

/// Each thread takes what the one before it has filled, when that is so, and says that it has.
template <typename Wait>
void pass_round(const char* name, Flags& flags, const Wait& wait) {
  for (auto& each : flags.filled) each.value = 0;
  for (auto& each : flags.read) each.value = 0;
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    const int team = omp_get_num_threads();
    const int before = (self + team - 1) % team;
    for (int round = 1; round <= rounds; ++round) {
      wait(flags.read[self].value, round - 1);
      fill(self, round);
      flags.filled[self].value.store(round, std::memory_order_release);
      wait(flags.filled[before].value, round);
      wrong += count_wrong(before, round);
      flags.read[before].value.store(round, std::memory_order_release);
    }
  }
  check_int(name, wrong);
}

/// One thread after the other fills for all others. \param set stores the round in a flag \param wait returns
/// when it is there
template <typename Set, typename Wait>
void pass_to_all(const char* name, const Set& set, const Wait& wait) {
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 1; round <= rounds; ++round) {
      const int from = round % omp_get_num_threads();
      if (self == from) {
        fill(self, round);
        set(round);
      } else {
        wait(round);
        wrong += count_wrong(from, round);
      }
#pragma omp barrier
    }
  }
  check_int(name, wrong);
}

volatile int* volatile_flags;

void pass_by_volatile() {
  // In allocated memory, all in one page.
  const auto flags = std::make_unique<int[]>(4 * 1024);
  volatile_flags = flags.get();
  pass_to_all(
      "a volatile flag in the heap", [](int round) { volatile_flags[1024] = round; },
      [](int round) {
        while (volatile_flags[1024] < round) continue;
      });
}

Alone<int> plain_flag;

void pass_by_openmp() {
  pass_to_all(
      "atomic write and read of OpenMP",
      [](int round) {
#pragma omp atomic write release
        plain_flag.value = round;
      },
      [](int round) {
        for (int found = 0; found < round;) {
#pragma omp atomic read acquire
          found = plain_flag.value;
        }
      });
}

struct Parcel {
  explicit Parcel(int number) : numbers(static_cast<std::size_t>(words), number) {}
  std::vector<int> numbers;
};

/// Each thread allocates what the next one frees.
void hand_pointers() {
  static Alone<std::atomic<Parcel*>> slots[most_threads];
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    const int next = (self + 1) % omp_get_num_threads();
    for (int round = 1; round <= rounds; ++round) {
      while (slots[next].value.load(std::memory_order_acquire) != nullptr) std::this_thread::yield();
      slots[next].value.store(new Parcel(round * 100 + self), std::memory_order_release);
      Parcel* found = nullptr;
      while ((found = slots[self].value.load(std::memory_order_acquire)) == nullptr) continue;
      const int from = (self + omp_get_num_threads() - 1) % omp_get_num_threads();
      for (const int number : found->numbers) wrong += number != round * 100 + from;
      slots[self].value.store(nullptr, std::memory_order_release);
      delete found;
    }
  }
  check_int("pointers to what was allocated", wrong);
}

/// A queue of one thread that puts and one that takes.
struct Queue {
  static constexpr unsigned capacity = 8;
  Alone<std::atomic<unsigned>> put;
  Alone<std::atomic<unsigned>> taken;
  Alone<int> places[capacity];
};

void use_queues() {
  const auto queues = std::make_unique<Queue[]>(most_threads);
  constexpr unsigned most = 200;
  long long sum = 0;
  int wrong = 0;
#pragma omp parallel reduction(+ : sum, wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    Queue& to = queues[(self + 1) % omp_get_num_threads()];
    Queue& from = queues[self];
    for (unsigned number = 0; number < most; ++number) {
      while (number - to.taken.value.load(std::memory_order_acquire) == Queue::capacity) continue;
      to.places[number % Queue::capacity].value = static_cast<int>(number * 3 + 1);
      to.put.value.store(number + 1, std::memory_order_release);
      if (number < Queue::capacity / 2) continue;
      const unsigned taken = number - Queue::capacity / 2;
      while (from.put.value.load(std::memory_order_acquire) == taken) continue;
      const int found = from.places[taken % Queue::capacity].value;
      wrong += found != static_cast<int>(taken * 3 + 1);
      sum += found;
      from.taken.value.store(taken + 1, std::memory_order_release);
    }
  }
  check_int("a queue for one that puts and one that takes", wrong);
  check_int("the sum of what was taken", sum);
}

Alone<std::atomic<int>> waiting;
Alone<std::atomic<bool>> sense;

/// A barrier as programs make them: who comes last turns the sense.
void meet_by_sense() {
  waiting.value = 0;
  sense.value = false;
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    const int team = omp_get_num_threads();
    bool mine = true;
    const auto barrier = [&] {
      if (waiting.value.fetch_add(1, std::memory_order_acq_rel) == team - 1) {
        waiting.value.store(0, std::memory_order_relaxed);
        sense.value.store(mine, std::memory_order_release);
      } else {
        for (int looks = 0; sense.value.load(std::memory_order_acquire) != mine; ++looks)
          if (looks > 100) sched_yield();
      }
      mine = !mine;
    };
    for (int round = 1; round <= rounds; ++round) {
      fill(self, round);
      barrier();
      for (int other = 0; other < team; ++other) wrong += count_wrong(other, round);
      barrier();
    }
  }
  check_int("a barrier that turns a sense", wrong);
}

/// C++20's own waits.
void wait_and_notify() {
  static Alone<std::atomic<int>> filled;
  filled.value = 0;
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 1; round <= rounds; ++round) {
      if (self == 0) {
        fill(0, round);
        filled.value.store(round, std::memory_order_release);
        filled.value.notify_all();
      } else {
        filled.value.wait(round - 1, std::memory_order_acquire);
        wrong += count_wrong(0, round);
      }
#pragma omp barrier
    }
  }
  check_int("waits of C++20", wrong);
}

/// A barrier of C++20 ends by a store, and a latch by the last decrement, and each wait by a load.
void meet_as_cpp_does(const char* name, std::barrier<>& barrier, std::deque<std::latch>& latches) {
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    const int team = omp_get_num_threads();
    for (int round = 1; round <= rounds; ++round) {
      fill(self, round);
      barrier.arrive_and_wait();
      for (int other = 0; other < team; ++other) wrong += count_wrong(other, round);
      latches[static_cast<std::size_t>(round - 1)].arrive_and_wait();
    }
  }
  check_int(name, wrong);
}

}  // namespace

int main() {
  for (int i = 0; i < most_threads; ++i) buffers.emplace_back(static_cast<std::size_t>(words));
  static Flags flags;
  const auto spin = [](const std::atomic<int>& flag, int least) {
    while (flag.load(std::memory_order_acquire) < least) continue;
  };
  const auto yield = [](const std::atomic<int>& flag, int least) {
    while (flag.load(std::memory_order_acquire) < least) std::this_thread::yield();
  };
  pass_round("a ring of flags", flags, spin);
  pass_round("a ring that lets others run", flags, yield);
  pass_round("a ring that looks less and less often", flags, [](const std::atomic<int>& flag, int least) {
    for (int moments = 1; flag.load(std::memory_order_acquire) < least;) {
      for (int i = 0; i < moments; ++i) __builtin_ia32_pause();
      if (moments < 1000) moments *= 2;
    }
  });
  pass_round("a ring that sleeps", flags, [](const std::atomic<int>& flag, int least) {
    while (flag.load(std::memory_order_acquire) < least) usleep(20);
  });
  Flags of_main;
  pass_round("a ring of flags on a stack", of_main, spin);
  pass_round("a ring of flags on a stack that lets others run", of_main, yield);
  pass_by_volatile();
  pass_by_openmp();
  hand_pointers();
  use_queues();
  meet_by_sense();
  wait_and_notify();
  // Latches can neither be copied nor begin by themselves.
  const int team = omp_get_max_threads();
  std::barrier<> barrier(team);
  std::deque<std::latch> latches;
  for (int i = 0; i < rounds; ++i) latches.emplace_back(team);
  meet_as_cpp_does("a latch in the heap and a barrier on a stack", barrier, latches);
  const auto in_heap = std::make_unique<std::barrier<>>(team);
  latches.clear();
  for (int i = 0; i < rounds; ++i) latches.emplace_back(team);
  meet_as_cpp_does("a latch and a barrier in the heap", *in_heap, latches);
  return finish();
}
