/// \file
/// Critical regions, barriers and flushes.
#include "check.h"

#include <string.h>

static long long counter;
static long long others[4];
static int grid[most_threads][100];
static int flags[most_threads];
static int cargo[most_threads];

struct List {
  struct List* next;
  int value;
};
static struct List nodes[2000];
static struct List* head;
static int nodes_used;

static void count_in_critical(void) {
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 100; ++i) {
#pragma omp critical
      counter += i;
    }
  }
  check_int("critical", counter);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 100; ++i) {
#pragma omp critical(first)
      others[0] += i;
#pragma omp critical(second)
      others[1] += i;
#pragma omp critical(hinted) hint(omp_sync_hint_contended)
      others[2] += i;
#pragma omp critical(outer)
      {
        ++others[3];
#pragma omp critical(inner)
        ++others[3];
      }
    }
  }
  check_int("named critical", others[0] + others[1] + others[2]);
  check_int("critical in critical", others[3]);
}

static void order_by_critical(void) {
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 50; ++i) {
#pragma omp critical
      {
        struct List* const node = &nodes[nodes_used++];
        node->value = i;
        node->next = head;
        head = node;
      }
    }
  }
  int length = 0;
  int sum = 0;
  for (const struct List* node = head; node != NULL; node = node->next) {
    ++length;
    sum += node->value;
  }
  check_int("a list built in critical", length * 10000 + sum);
  // What was written before a critical region is seen by those who enter later.
  int turn = 0;
  int trail[40];
  memset(trail, -1, sizeof trail);
#pragma omp parallel
  {
    take_part();
    for (int is_done = 0; !is_done;) {
#pragma omp critical
      {
        is_done = turn >= 40;
        if (!is_done && turn % omp_get_num_threads() == omp_get_thread_num()) {
          trail[turn] = turn == 0 ? 1 : (trail[turn - 1] * 5 + 1) % 10007;
          ++turn;
        }
      }
      usleep(20);
    }
  }
  check_int("turns in critical", trail[39]);
}

static void meet_at_barriers(void) {
  int wrong = 0;
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    for (int step = 1; step <= 100; ++step) {
      grid[self][step - 1] = step * (self + 1);
#pragma omp barrier
      for (int other = 0; other < omp_get_num_threads(); ++other) {
        if (grid[other][step - 1] != step * (other + 1)) {
#pragma omp atomic
          ++wrong;
        }
      }
#pragma omp barrier
    }
  }
  check_int("barriers", wrong);
  // A value travels round the team, one step a barrier.
  double hot = 1;
#pragma omp parallel
  {
    take_part();
    for (int step = 0; step < 4 * omp_get_num_threads(); ++step) {
      if (step % omp_get_num_threads() == omp_get_thread_num()) hot = hot * 2 + 1;
#pragma omp barrier
    }
  }
  check_real("a value handed on by barriers", hot);
}

static void wait_for_flags(void) {
  const int team = omp_get_max_threads();
  // Flags with flushes, in a ring: each waits for its neighbour's.
#pragma omp parallel
  {
    take_part();
    const int self = omp_get_thread_num();
    const int threads = omp_get_num_threads();
    for (int lap = 1; lap <= 5; ++lap) {
      if (self > 0 || lap > 1) {
        const int before = (self + threads - 1) % threads;
        const int awaited = self == 0 ? lap - 1 : lap;
        for (int seen = 0; seen < awaited;) {
#pragma omp flush
#pragma omp atomic read
          seen = flags[before];
        }
#pragma omp flush
        cargo[self] = cargo[before] + 1;
      }
#pragma omp flush
#pragma omp atomic write
      flags[self] = lap;
#pragma omp flush
    }
  }
  check_int("a ring of flags with flushes", cargo[team - 1]);
}

int main(void) {
  count_in_critical();
  order_by_critical();
  meet_at_barriers();
  wait_for_flags();
  return finish();
}
