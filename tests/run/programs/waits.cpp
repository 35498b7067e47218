/// \file
/// What threads of C++20 wait on, used between ranks: atomics, latches, barriers, semaphores, futures, and
/// locks with a time limit.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <pthread.h>

#include "check.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

int threads = 1;

void atomics() {
  static std::atomic<int> word;
  static std::atomic<long> wide;
  static std::atomic<short> narrow;
  static std::atomic_flag flag;
  word = 0;
  wide = 0;
  narrow = 0;
  flag.clear();
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() != 0) {
      word.wait(0);
      wide.wait(0);
      narrow.wait(0);
      flag.wait(false);
    } else {
      const auto moment = [] { std::this_thread::sleep_for(milliseconds(5)); };
      moment();
      word = 1;
      word.notify_all();
      moment();
      wide = 1;
      wide.notify_all();
      moment();
      narrow = 1;
      narrow.notify_all();
      moment();
      flag.test_and_set();
      flag.notify_all();
    }
  }
  check_int("atomic waits", word + wide + narrow + flag.test());
  // A turn that goes round.
  static std::atomic<int> turn;
  turn = 0;
#pragma omp parallel
  {
    take_part();
    for (int round = 0; round < 5; ++round) {
      const int mine = round * threads + omp_get_thread_num();
      for (int seen = turn.load(); seen != mine; seen = turn.load()) turn.wait(seen);
      turn.fetch_add(1);
      turn.notify_all();
    }
  }
  check_int("turns", turn);
}

void latches() {
  std::latch start(threads);
  std::barrier<> round(threads);
  std::vector<int> steps(static_cast<std::size_t>(threads));
  int wrong = 0;
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    start.arrive_and_wait();
    for (int i = 1; i <= 5; ++i) {
      steps[static_cast<std::size_t>(omp_get_thread_num())] = i;
      // A barrier's end is a plain store, and a plain load sees it: what was written before needs fences.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      round.arrive_and_wait();
      std::atomic_thread_fence(std::memory_order_seq_cst);
      for (const int step : steps) wrong += step != i;
      round.arrive_and_wait();
    }
  }
  check_int("steps that a barrier did not hold back", wrong);
}

void semaphores() {
  std::counting_semaphore<> items(0);
  std::binary_semaphore lock(1);
  long long taken = 0;
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == 0) {
      for (int i = 0; i < 10 * threads; ++i) items.release();
    }
    for (int i = 0; i < 10; ++i) {
      items.acquire();
      lock.acquire();
      ++taken;
      lock.release();
    }
#pragma omp barrier
#pragma omp single
    if (items.try_acquire_for(milliseconds(1))) taken = -1;
  }
  check_int("taken from a semaphore", taken);
}

void limits() {
  std::timed_mutex mutex;
  std::recursive_timed_mutex recursive;
  std::shared_timed_mutex readers;
  std::shared_mutex other;
  long long sums[4] = {};
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 5; ++i) {
      while (!mutex.try_lock_for(milliseconds(50))) continue;
      ++sums[0];
      mutex.unlock();
      while (!recursive.try_lock_until(system_clock::now() + milliseconds(50))) continue;
      recursive.lock();
      ++sums[1];
      recursive.unlock();
      recursive.unlock();
      while (!readers.try_lock_until(steady_clock::now() + milliseconds(50))) continue;
      ++sums[2];
      readers.unlock();
      while (!readers.try_lock_shared_for(milliseconds(50))) continue;
      readers.unlock_shared();
      other.lock();
      ++sums[3];
      other.unlock();
    }
  }
  for (const long long sum : sums) check_int("sum under a lock with a limit", sum);
  mutex.lock();
  int late = 0;
#pragma omp parallel reduction(+ : late)
  {
    take_part();
    if (omp_get_thread_num() != 0) late += !mutex.try_lock_for(milliseconds(10));
  }
  mutex.unlock();
  check_int("limits that passed", late);
}

void futures() {
  std::vector<std::promise<int>> promises(static_cast<std::size_t>(threads));
  std::vector<std::future<int>> results;
  for (auto& promise : promises) results.push_back(promise.get_future());
  long long sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    const int self = omp_get_thread_num();
    promises[static_cast<std::size_t>(self)].set_value(self);
    sum += results[static_cast<std::size_t>((self + 1) % threads)].get();
  }
  check_int("values of promises", sum);
  std::once_flag once;
  static int calls;
  calls = 0;
#pragma omp parallel
  {
    take_part();
    std::call_once(once, [] { ++calls; });
  }
  check_int("calls once", calls);
}

/// Objects of pthreads that are destroyed as soon as the standard lets them, while others are on their way
/// out.
void ends() {
  // Two that take turns: who is told so destroys one, and makes it anew, before all come to the other.
  static pthread_barrier_t barriers[2];
  for (pthread_barrier_t& each : barriers)
    pthread_barrier_init(&each, nullptr, static_cast<unsigned>(threads));
  int made = 0;
#pragma omp parallel reduction(+ : made)
  {
    take_part();
    for (int i = 0; i < 40; ++i) {
      pthread_barrier_t* const barrier = &barriers[i % 2];
      if (pthread_barrier_wait(barrier) != PTHREAD_BARRIER_SERIAL_THREAD) continue;
      pthread_barrier_destroy(barrier);
      pthread_barrier_init(barrier, nullptr, static_cast<unsigned>(threads));
      ++made;
    }
  }
  for (pthread_barrier_t& each : barriers) pthread_barrier_destroy(&each);
  check_int("barriers made anew", made);
  struct Gate {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
    int waiting = 0;
    bool is_open = false;
  };
  static Gate gate;
  int spoilt = 0;
  for (int i = 0; i < 10; ++i) {
    gate = Gate();
#pragma omp parallel
    {
      take_part();
      pthread_mutex_lock(&gate.mutex);
      if (++gate.waiting < threads) {
        while (!gate.is_open) pthread_cond_wait(&gate.opened, &gate.mutex);
        pthread_mutex_unlock(&gate.mutex);
      } else {
        gate.is_open = true;
        pthread_cond_broadcast(&gate.opened);
        pthread_mutex_unlock(&gate.mutex);
        pthread_cond_destroy(&gate.opened);
        std::memset(&gate.opened, 0x5a, sizeof gate.opened);
      }
    }
    for (std::size_t byte = 0; byte < sizeof gate.opened; ++byte)
      spoilt += reinterpret_cast<const unsigned char*>(&gate.opened)[byte] != 0x5a;
  }
  check_int("bytes written after the end of a condition", spoilt);
}

}  // namespace

int main() {
#pragma omp parallel
#pragma omp master
  threads = omp_get_num_threads();
  atomics();
  latches();
  semaphores();
  limits();
  futures();
  ends();
  return finish();
}
