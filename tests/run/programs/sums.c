/// \file
/// Atomic updates right before a meeting: of reductions, and of programs that tell each other something by
/// them. Compilers make the same instructions of both.
#include <pthread.h>

#include "check.h"

static long turn;
static long done;
static double weight;
static float product = 1;
static unsigned short bits;
static unsigned char set;
static long order[most_threads];

static long read_long(const long* from) {
  long value;
#pragma omp atomic read
  value = *from;
  return value;
}

/// Each thread waits for the one before it, and tells the next one at the end of the region.
static void take_turns(long step) {
  turn = 0;
  const long rounds = 5;
  for (long round = 0; round < rounds; ++round) {
#pragma omp parallel
    {
      take_part();
      const int self = omp_get_thread_num();
      while (read_long(&turn) != (round * omp_get_num_threads() + self) * step) usleep(50);
      order[self] = read_long(&turn) / step;
#pragma omp atomic
      turn += step;
    }
  }
  long wrong = 0;
  for (int i = 0; i < omp_get_max_threads(); ++i)
    wrong += order[i] != (rounds - 1) * omp_get_max_threads() + i;
  check_int("wrong turns at ends of regions", wrong);
}

/// The first thread waits for all others before it comes to the barrier that they are at.
static void wait_before_barrier(long step) {
  done = 0;
  weight = 0;
  long seen = 0;
  double seen_weight = 0;
#pragma omp parallel
  {
    take_part();
    const long others = omp_get_num_threads() - 1;
    if (omp_get_thread_num() == 0) {
      while (read_long(&done) != others * step) usleep(50);
      seen = others * step - read_long(&done);
    } else {
#pragma omp atomic
      done += step;
    }
#pragma omp barrier
    if (omp_get_thread_num() == 0) {
      double now = 0;
      while (now != (double)(others * step)) {
        usleep(50);
#pragma omp atomic read
        now = weight;
      }
      seen_weight = now - (double)(others * step);
    } else {
#pragma omp atomic
      weight += (double)step;
    }
#pragma omp barrier
    if (omp_get_thread_num() == 0) seen += read_long(&done) - others * step;
  }
  check_int("sums that a thread waits for", seen);
  check_real("sums of reals that a thread waits for", seen_weight);
}

/// Sums that all see after the meeting, and use for the next.
static void sum_again_and_again(void) {
  static double dot;
  static long count;
  double* const heap = malloc(sizeof *heap);
  *heap = 0;
  double on_stack = 1;
  double last = 0;
  long wrong = 0;
#pragma omp parallel
  {
    take_part();
    for (int round = 1; round <= 200; ++round) {
#pragma omp single
      {
        dot = 0;
        count = 0;
      }
#pragma omp for schedule(static) reduction(+ : dot)
      for (int i = 0; i < 64; ++i) dot += round * (i + 1);
      if (dot != round * 2080.0) {
#pragma omp atomic
        ++wrong;
      }
#pragma omp for schedule(static) reduction(+ : count) reduction(max : last)
      for (int i = 0; i < 64; ++i) {
        count += i;
        if (dot > last) last = dot;
      }
      if (count != 2016) {
#pragma omp atomic
        ++wrong;
      }
#pragma omp barrier
    }
#pragma omp atomic
    *heap += on_stack;
  }
  check_int("wrong sums", wrong);
  check_real("the last sum", last);
  check_int("a sum on the heap less threads", (long)*heap - omp_get_max_threads());
  free(heap);
}

/// One of each operation and size that has instructions of its own, at ends of regions.
static void combine_all_kinds(void) {
  product = 1;
  bits = 0xffff;
  set = 0;
  unsigned flip = 0;
  long difference = 0;
#pragma omp parallel for reduction(* : product)
  for (int i = 0; i < 24; ++i) {
    take_part();
    product *= i % 2 == 0 ? 2.0F : 0.5F;
  }
  check_real("a product", product);
#pragma omp parallel for reduction(& : bits)
  for (int i = 0; i < 24; ++i) {
    take_part();
    bits = (unsigned short)(bits & ~(1U << i % 12));
  }
  check_int("bits in common", bits);
#pragma omp parallel for reduction(| : set)
  for (int i = 0; i < 24; ++i) {
    take_part();
    set = (unsigned char)(set | 1U << i % 7);
  }
  check_int("bits of any", set);
#pragma omp parallel for reduction(^ : flip)
  for (int i = 0; i < 25; ++i) {
    take_part();
    flip ^= (unsigned)i * 77;
  }
  check_int("bits of odd many", flip);
#pragma omp parallel for reduction(- : difference)
  for (int i = 0; i < 25; ++i) {
    take_part();
    difference -= i;
  }
  check_int("a difference", difference);
}

int main(int count, char** words) {
  const long step = count > 1 ? atol(words[1]) : 1;  // unknown to the compiler
  take_turns(step);
  wait_before_barrier(step);
  sum_again_and_again();
  combine_all_kinds();
  const int code = finish();
#ifndef __clang__  // libomp's threads keep the process
  pthread_exit(NULL);
#endif
  return code;
}
