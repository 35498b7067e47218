/// \file
/// The mutexes and conditions of the standard library in regions.
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <vector>

#include "check.h"

int main() {
  std::mutex mutex;
  std::vector<int> guarded;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 200; ++i) {
      const std::lock_guard<std::mutex> lock(mutex);
      guarded.push_back(i);
    }
  }
  check_int("mutex",
            std::accumulate(guarded.begin(), guarded.end(), 0LL) + static_cast<long long>(guarded.size()));
  std::recursive_mutex recursive;
  std::shared_mutex readers;
  int twice = 0;
  int reads = 0;
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    take_part();
    for (int i = 0; i < 20; ++i) {
      {
        const std::lock_guard<std::recursive_mutex> outer(recursive);
        const std::lock_guard<std::recursive_mutex> inner(recursive);
        ++twice;
      }
      if (i % 5 == 0) {
        const std::unique_lock<std::shared_mutex> lock(readers);
        ++reads;
      } else {
        const std::shared_lock<std::shared_mutex> lock(readers);
        right += reads >= 0 && reads <= 8 * most_threads;
      }
    }
  }
  check_int("recursive and shared mutexes", twice * 1000 + reads + right);
  std::once_flag once;
  int calls = 0;
#pragma omp parallel
  {
    take_part();
    std::call_once(once, [&] { ++calls; });
  }
  check_int("call_once", calls);

  std::condition_variable changed;
  int turn = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const int threads = omp_get_num_threads();
    for (int lap = 0; lap < 5; ++lap) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return turn % threads == self; });
      ++turn;
      changed.notify_all();
    }
  }
  check_int("condition", turn);
  return finish();
}
