/// \file
/// Locks that another thread unlocks than the one that has locked them: as SoX has readers and writers, and
/// as programs hand each other the turn.
#include "check.h"

enum { rounds = 60, numbers = 3000 };

static omp_lock_t counts, writers, turns[most_threads];
static int readers, versions[numbers], wrong, written;

static void begin_to_read(void) {
  omp_set_lock(&counts);
  if (++readers == 1) omp_set_lock(&writers);
  omp_unset_lock(&counts);
}
static void end_to_read(void) {
  omp_set_lock(&counts);
  if (--readers == 0) omp_unset_lock(&writers);
  omp_unset_lock(&counts);
}

static void read_and_write(void) {
  omp_init_lock(&counts);
  omp_init_lock(&writers);
#pragma omp parallel reduction(+ : wrong)
  {
    take_part();
    for (int round = 0; round < rounds; ++round) {
      begin_to_read();
      for (int i = 1; i < numbers; ++i) wrong += versions[i] != versions[0];
      end_to_read();
      if (round % 4 != omp_get_thread_num() % 4) continue;
      omp_set_lock(&writers);
      for (int i = 0; i < numbers; ++i) ++versions[i];
      ++written;
      omp_unset_lock(&writers);
    }
  }
  check_int("what readers found wrong", wrong);
  check_text("what writers wrote", versions[0] == written ? "is there" : "is lost");
}

// Each thread waits for its own lock, and unlocks the next one's: a ring.
static void hand_turns(void) {
  const int threads = omp_get_max_threads();
  int sum = 0;
  int notes[most_threads] = {0};
  for (int i = 0; i < threads; ++i) {
    omp_init_lock(&turns[i]);
    omp_set_lock(&turns[i]);
  }
  omp_unset_lock(&turns[0]);
#pragma omp parallel num_threads(threads)
  {
    const int self = omp_get_thread_num();
    take_part();
    for (int round = 0; round < rounds; ++round) {
      omp_set_lock(&turns[self]);
      ++sum;
      notes[self] = sum;
      omp_unset_lock(&turns[(self + 1) % threads]);
    }
  }
  int right = sum == rounds * threads;
  for (int i = 0; i < threads; ++i) right = right && notes[i] == (rounds - 1) * threads + i + 1;
  check_text("turns", right ? "in order" : "not in order");
}

/// As in GCC's library nothing happens; LLVM's ends the program.
static void unlock_what_nobody_holds(void) {
  omp_lock_t lock;
  omp_init_lock(&lock);
#ifndef __clang__
#pragma omp parallel
  {
    take_part();
#pragma omp single
    omp_unset_lock(&lock);
  }
#endif
  check_int("what nobody holds", omp_test_lock(&lock));
}

int main(void) {
  read_and_write();
  hand_turns();
  unlock_what_nobody_holds();
  return finish();
}
