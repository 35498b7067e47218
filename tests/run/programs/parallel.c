/// \file
/// Teams: their sizes and numbers, and what variables of each kind are in them.
#include "check.h"

#include <stdlib.h>
#include <string.h>

static int global_words[most_threads];
static int started = 5;
int bss_words[100000];

struct Record {
  int number;
  double values[40];
  char text[24];
};

static int sum_of(const int* words, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += words[i];
  return sum;
}

static void orphan(int* words) {
#pragma omp for
  for (int i = 0; i < 1000; ++i) words[i] += i;
}

/// Each depth has its frame's variables written by all threads of its region.
static int recurse(int depth) {
  int words[most_threads] = {0};
#pragma omp parallel
  {
    take_part();
    words[omp_get_thread_num()] = depth;
  }
  const int below = depth == 0 ? 0 : recurse(depth - 1);
  return below + sum_of(words, most_threads);
}

static void number_threads(void) {
  const int team = omp_get_max_threads();
  check_int("max threads", team);

  int size = 0;
#pragma omp parallel
  {
    take_part();
    global_words[omp_get_thread_num()] += 1 + omp_get_thread_num();
    if (omp_get_thread_num() == omp_get_num_threads() - 1) size = omp_get_num_threads();
  }
  check_int("team size, written by the last thread", size);
  check_int("thread numbers in a global", sum_of(global_words, most_threads));
}

static void share_memory(void) {
  const int team = omp_get_max_threads();
  int stack_words[most_threads] = {0};
  const int length = 10 * team;
  int vla[length];
  for (int i = 0; i < length; ++i) vla[i] = 0;
  int* const heap = calloc(1000, sizeof *heap);
  static int in_function[most_threads];
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    stack_words[self] = self + 1;
    for (int i = self; i < length; i += omp_get_num_threads()) vla[i] = i;
    for (int i = self; i < 1000; i += omp_get_num_threads()) heap[i] = i;
    for (int i = self; i < 100000; i += omp_get_num_threads()) bss_words[i] = 2;
    in_function[self] = started;
  }
  check_int("stack", sum_of(stack_words, most_threads));
  check_int("variable length array", sum_of(vla, length));
  check_int("heap", sum_of(heap, 1000));
  free(heap);
  check_int("bss", sum_of(bss_words, 100000));
  check_int("static local", sum_of(in_function, most_threads));
}

static void share_or_copy(void) {
  started = 8;
  int seen = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp atomic
    seen += started;
  }
  check_int("initialised global that the master changed", seen);

  int own = 3;
  struct Record record = {7, {0}, "seven and more"};
  record.values[39] = 0.5;
  double wide[300];
  for (int i = 0; i < 300; ++i) wide[i] = i;
  int right = 0;
#pragma omp parallel private(own) firstprivate(record, wide) shared(right)
  {
    take_part();
    own = omp_get_thread_num();
    record.number += own;
    wide[299] += own;
#pragma omp barrier
    const int is_right = record.number == 7 + own && record.values[39] == 0.5 && wide[299] == 299 + own &&
                         strcmp(record.text, "seven and more") == 0;
#pragma omp atomic
    right += is_right;
  }
  check_int("private and firstprivate", right);
  check_int("their originals", own + record.number + (int)wide[299]);
}

static void size_teams(void) {
  const int team = omp_get_max_threads();
  int count = 0;
#pragma omp parallel num_threads(1)
  ++count;
  check_int("one thread", count);
  count = 0;
#pragma omp parallel if (started == 0)
  ++count;
  check_int("if false", count);
  count = 0;
#pragma omp parallel num_threads(team + 3)
  {
    take_part();
#pragma omp atomic
    ++count;
  }
  check_int("more threads than by default", count);
  count = 0;
  for (int threads = 1; threads <= team; ++threads) {
#pragma omp parallel num_threads(threads)
    {
      if (threads == team) take_part();
#pragma omp atomic
      count += 1 + omp_get_thread_num() * omp_get_num_threads();
    }
  }
  for (int threads = team; threads > 0; --threads) {
#pragma omp parallel num_threads(threads)
    {
#pragma omp atomic
      count += omp_get_num_threads();
    }
  }
  check_int("teams of all sizes", count);
  omp_set_num_threads(team + 1);
  count = 0;
#pragma omp parallel
  {
    take_part();
#pragma omp atomic
    ++count;
  }
  check_int("omp_set_num_threads", count);
  omp_set_num_threads(team);
}

static void repeat_regions(void) {
  int turns[most_threads] = {0};
  for (int i = 0; i < 300; ++i) {
#pragma omp parallel
    {
      if (i == 299) take_part();
      turns[omp_get_thread_num()] += i;
    }
  }
  check_int("many regions", sum_of(turns, most_threads));

  int* const shared = calloc(1000, sizeof *shared);
#pragma omp parallel
  {
    take_part();
    orphan(shared);
    orphan(shared);
  }
  check_int("orphaned loops", sum_of(shared, 1000));
  free(shared);
  check_int("recursion", recurse(5));
}

static void touch_memory_of_others(void) {
  // Each thread's stack is written by its neighbour.
  int* published[most_threads] = {0};
  int right = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const int threads = omp_get_num_threads();
    int mine[300];
    for (int i = 0; i < 300; ++i) mine[i] = self;
    published[self] = mine;
#pragma omp barrier
    int* const neighbour = published[(self + 1) % threads];
    int is_right = neighbour[0] == (self + 1) % threads;
    neighbour[299] = 1000 + self;
#pragma omp barrier
    is_right &= mine[299] == 1000 + (self + threads - 1) % threads;
#pragma omp atomic
    right += is_right;
#pragma omp barrier
  }
  check_int("stacks of other threads", right);

  // What one thread allocates another changes, and another frees.
  char* texts[most_threads] = {0};
  right = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const int threads = omp_get_num_threads();
    for (int turn = 0; turn < 20; ++turn) {
      texts[self] = malloc(100 + 50 * turn);
      sprintf(texts[self], "of %d", self);
#pragma omp barrier
      const int other = (self + 1 + turn) % threads;
      char expected[16];
      sprintf(expected, "of %d", other);
      const int is_right = strcmp(texts[other], expected) == 0;
      texts[other] = realloc(texts[other], 5000);
#pragma omp atomic
      right += is_right;
#pragma omp barrier
      free(texts[(self + 2 + turn) % threads]);
#pragma omp barrier
    }
  }
  check_int("blocks that others free", right);

#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    // Neighbouring bytes, written by all at once.
    char* const bytes = (char*)bss_words;
    for (int i = self; i < 40000; i += omp_get_num_threads()) bytes[i] = (char)(i % 100);
  }
  int bytes_right = 0;
  for (int i = 0; i < 40000; ++i) bytes_right += ((char*)bss_words)[i] == i % 100;
  check_int("neighbouring bytes", bytes_right);
}

int main(void) {
  number_threads();
  share_memory();
  share_or_copy();
  size_teams();
  repeat_regions();
  touch_memory_of_others();
  return finish();
}
