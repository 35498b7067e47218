/// \file
/// Programs that wait for each other on plain variables: what docs/run.md says that they may rely on.
#include "check.h"

// Alone in their page: no atomic instruction reaches it.
static struct { _Alignas(4096) volatile int value; } alone;
#define flag alone.value
static volatile int bell[most_threads];
static volatile double line[most_threads][64];
static int data[1000];

static void wait_for_flag(void) {
  int seen = 0;
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == 0) {
      for (int i = 0; i < 1000; ++i) data[i] = i;
#pragma omp flush
      flag = 1;
#pragma omp flush
    } else {
      while (flag == 0) {
#pragma omp flush
      }
#pragma omp flush
      int sum = 0;
      for (int i = 0; i < 1000; ++i) sum += data[i];
#pragma omp atomic
      seen += sum;
    }
  }
  check_int("a flag with flushes", seen);

  flag = 0;
  seen = 0;
#pragma omp parallel
  {
    take_part();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) {
      flag = 5;
    } else {
      while (flag == 0) continue;
#pragma omp atomic
      seen += flag;
    }
  }
  check_int("a volatile flag without a flush", seen);
}

/// Who waits takes a lock that nobody else takes, and so publishes, but acquires nothing.
static void wait_with_own_lock(void) {
  omp_lock_t own[most_threads];
  const int team = omp_get_max_threads();
  for (int i = 0; i < team; ++i) omp_init_lock(&own[i]);
  int seen = 0;
  flag = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    if (self == omp_get_num_threads() - 1) {
      usleep(50000);
      flag = 7;
    } else {
      while (flag == 0) {
        omp_set_lock(&own[self]);
        omp_unset_lock(&own[self]);
      }
#pragma omp atomic
      seen += flag;
    }
  }
  for (int i = 0; i < team; ++i) omp_destroy_lock(&own[i]);
  check_int("a volatile flag, and a lock of one's own", seen);
}

static void run_pipeline(void) {
  const int team = omp_get_max_threads();
  // A pipeline: data, then the flag, with a flush between them on both sides.
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int step = 0; step < 4; ++step) {
      if (self > 0) {
        while (bell[self - 1] <= step) {
#pragma omp flush
        }
#pragma omp flush
      }
      for (int i = 0; i < 64; ++i) {
        const double before = self > 0 ? line[self - 1][i] : i;
        line[self][i] += before + step;
      }
#pragma omp flush
      bell[self] = step + 1;
#pragma omp barrier
    }
  }
  check_real("a pipeline of volatile flags", line[team - 1][63]);
}

static void spin_on_own_lock(void) {
  // A lock made of an exchange, as programs make them.
  static int lock_word;
  int inside = 0;
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 20; ++i) {
      while (__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE) != 0) {
        while (__atomic_load_n(&lock_word, __ATOMIC_RELAXED) != 0) usleep(20);
      }
      ++inside;
      __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
    }
  }
  check_int("a lock of our own", inside);
}

/// What is counted lies on the stack of main: no notice tells of it.
static void take_turns(void) {
  static struct { _Alignas(4096) int now; } turn;
  int count = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const int team = omp_get_num_threads();
    for (int i = 0; i < 20; ++i) {
      while (__atomic_load_n(&turn.now, __ATOMIC_ACQUIRE) % team != self) usleep(20);
      ++count;
      __atomic_fetch_add(&turn.now, 1, __ATOMIC_ACQ_REL);
    }
  }
  check_int("turns by an atomic", count);
}

int main(void) {
  wait_for_flag();
  wait_with_own_lock();
  run_pipeline();
  spin_on_own_lock();
  take_turns();
  return finish();
}
