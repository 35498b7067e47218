/// \file
/// Atomic objects on stacks that threads of other ranks synchronise by: data which they guard lies elsewhere.
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int words = 600;  // some pages for all threads together

void wait_for(const auto& is_so) {
  while (!is_so()) std::this_thread::yield();
}

/// Each thread fills a buffer and says so by a store; the others look for it by loads, read it, and say that
/// they have. As Eigen multiplies matrices.
template <typename Word>
void hand_over(const char* name) {
  constexpr int rounds = 12;
  struct Flags {
    std::atomic<Word> filled[most_threads] = {};
  };
  const int team = omp_get_max_threads();
  const auto buffers = std::make_unique<int[]>(static_cast<std::size_t>(team * words));
  Flags flags;
  std::atomic<int> reading[most_threads] = {};
  long long wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 1; round <= rounds; ++round) {
      wait_for([&] { return reading[self] == 0; });
      reading[self] = team - 1;
      for (int i = 0; i < words; ++i) buffers[self * words + i] = round * 100 + self;
      flags.filled[self] = static_cast<Word>(round);
      for (int other = 0; other < team; ++other) {
        if (other == self) continue;
        wait_for([&] { return flags.filled[other] == static_cast<Word>(round); });
        for (int i = 0; i < words; ++i) wrong += buffers[other * words + i] != round * 100 + other;
        reading[other] -= 1;
      }
    }
  }
  check_int(name, wrong);
}

void lock_by_exchange() {
  std::vector<long long> guarded(words);
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 40; ++i) {
      wait_for([&] { return !lock.test_and_set(std::memory_order_acquire); });
      for (auto& each : guarded) ++each;
      lock.clear();  // sequentially consistent: another exchange
    }
  }
  long long sum = 0;
  for (const auto each : guarded) sum += each;
  check_int("a lock that is an exchange", sum);
}

void lock_by_compare() {
  std::vector<long long> guarded(words);
  std::atomic<int> owner{-1};
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 40; ++i) {
      const int self = omp_get_thread_num();
      wait_for([&] {
        int nobody = -1;
        return owner.compare_exchange_strong(nobody, self);
      });
      for (auto& each : guarded) ++each;
      int mine = self;
      owner.compare_exchange_strong(mine, -1);
    }
  }
  long long sum = 0;
  for (const auto each : guarded) sum += each;
  check_int("a lock that is a compare-exchange", sum);
}

void last_one_finds_all() {
  long long sum = 0;
  for (int round = 0; round < 20; ++round) {
    const int team = omp_get_max_threads();
    const auto parts = std::make_unique<int[]>(static_cast<std::size_t>(team * words));
    std::atomic<int> left{team};
#pragma omp parallel
    {
      take_part();
      const int self = omp_get_thread_num();
      for (int i = 0; i < words; ++i) parts[self * words + i] = round + 1;
      if (left.fetch_sub(1) == 1) {
        for (int i = 0; i < team * words; ++i) sum += parts[i];
      }
    }
  }
  check_int("a count of who is left", sum);
}

/// What a thread does between two looks, so that its loop is none that waits only.
[[gnu::noipa]] double work(double value) {
  for (int i = 0; i < 200; ++i) value = value * 0.999 + 1;
  return value;
}

/// Who has the count on its stack looks at it by plain loads, and goes on when nobody is left.
template <typename Word>
void counted_down(const char* name) {
  const int team = omp_get_max_threads();
  const auto parts = std::make_unique<int[]>(static_cast<std::size_t>(team * words));
  long long wrong = 0;
  for (int round = 1; round <= 20; ++round) {
    std::atomic<Word> left{static_cast<Word>(team - 1)};
#pragma omp parallel reduction(+ : wrong)
    {
      take_part();
      const int self = omp_get_thread_num();
      if (self == 0) {
        for (double value = 1; left.load(std::memory_order_acquire) != 0;) value = work(value);
        for (int i = words; i < team * words; ++i) wrong += parts[i] != round;
      } else {
        for (int i = 0; i < words; ++i) parts[self * words + i] = round;
        left.fetch_sub(1, std::memory_order_release);
      }
    }
  }
  check_int(name, wrong);
}

/// The flags lie on the stack of the team's last thread.
void flags_of_another() {
  std::atomic<int>* volatile asked = nullptr;
  std::atomic<std::atomic<int>*> shown{nullptr};
  static int data[words];
  long long seen = 0;
#pragma omp parallel reduction(+ : seen)
  {
    take_part();
    const int self = omp_get_thread_num();
    const int team = omp_get_num_threads();
    if (self == team - 1) {
      std::atomic<int> here[2] = {};
      shown = here;
      if (team > 1) {
        wait_for([&] { return here[0] == 1; });
        for (int i = 0; i < words; ++i) seen += data[i];
        here[1] = 1;
      }
#pragma omp barrier
    } else {
      if (self == 0) {
        wait_for([&] { return shown != nullptr; });
        asked = shown;
        for (int i = 0; i < words; ++i) data[i] = 3;
        asked[0] = 1;
        wait_for([&] { return asked[1] == 1; });
      }
#pragma omp barrier
    }
  }
  check_int("flags on the stack of another thread", omp_get_max_threads() == 1 ? 3LL * words : seen);
}

/// Who comes last lets all go on, by a store that they look for.
void meet_by_hand() {
  const int team = omp_get_max_threads();
  const auto parts = std::make_unique<int[]>(static_cast<std::size_t>(team * words));
  std::atomic<int> arrived{0};
  std::atomic<int> turn{0};
  long long wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int round = 1; round <= 12; ++round) {
      for (int i = 0; i < words; ++i) parts[self * words + i] = round;
      for (int half = 0; half < 2; ++half) {
        const int next = turn + 1;
        if (arrived.fetch_add(1) + 1 == team) {
          arrived = 0;
          turn = next;
        } else {
          wait_for([&] { return turn == next; });
        }
        if (half == 0)
          for (int i = 0; i < team * words; ++i) wrong += parts[i] != round;
      }
    }
  }
  check_int("a barrier made of two words", wrong);
}

}  // namespace

int main() {
  hand_over<std::uint8_t>("buffers handed over by bytes");
  hand_over<std::uint16_t>("by words of 2 bytes");
  hand_over<std::int32_t>("of 4");
  hand_over<std::int64_t>("of 8");
  lock_by_exchange();
  lock_by_compare();
  last_one_finds_all();
  counted_down<std::uint8_t>("a count of who is left, looked at by whose it is, of a byte");
  counted_down<std::uint16_t>("of 2 bytes");
  counted_down<std::int32_t>("of 4");
  counted_down<std::int64_t>("of 8");
  flags_of_another();
  meet_by_hand();
  return finish();
}
