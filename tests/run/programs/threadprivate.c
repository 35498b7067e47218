/// \file
/// Threadprivate variables: one for each thread, kept between regions, copied into them.
#include "check.h"

#include <string.h>

struct State {
  int number;
  double values[100];
};

static int word;
static struct State state = {4, {0.25}};
static __thread int thread_word = 6;
int* others[most_threads];
#pragma omp threadprivate(word, state)

static void add(int amount) {
  static int calls;
#pragma omp threadprivate(calls)
  calls += amount;
  word = calls;
}

int main(void) {
  omp_set_dynamic(0);
  long long sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    sum += word + state.number + (int)(state.values[0] * 4) + thread_word;
    word = omp_get_thread_num() + 1;
    state.number = 10 * omp_get_thread_num();
    thread_word = -1;
  }
  check_int("initial values", sum);
  sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    sum += (word == omp_get_thread_num() + 1) + (state.number == 10 * omp_get_thread_num());
    sum += thread_word;
  }
  check_int("kept between regions", sum);
  word = 99;
  state.number = 3;
  for (int i = 0; i < 100; ++i) state.values[i] = i;
  sum = 0;
#pragma omp parallel copyin(word, state) reduction(+ : sum)
  {
    take_part();
    sum += word + state.number + (int)state.values[99];
    word += omp_get_thread_num();
  }
  check_int("copyin", sum);
  check_int("the master's own", word);
  sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    sum += word;
  }
  check_int("after copyin", sum);
  sum = 0;
  word = 1000;
#pragma omp parallel for copyin(word) schedule(static) reduction(+ : sum)
  for (int i = 0; i < 100; ++i) {
    take_part();
    sum += word + i;
  }
  check_int("copyin for a loop", sum);
#pragma omp parallel
  {
    take_part();
    add(2);
    add(omp_get_thread_num());
#pragma omp barrier
    add(5);
  }
  sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    sum += word;
  }
  check_int("static local", sum);
  // Threads write to each other's.
  sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    take_part();
    const int self = omp_get_thread_num();
    others[self] = &word;
    word = 0;
#pragma omp barrier
    *others[(self + 1) % omp_get_num_threads()] = 100 + self;
#pragma omp barrier
    sum += word * (self + 1);
  }
  check_int("written by a neighbour", sum);
  return finish();
}
