/// \file
/// Contexts, and jumps that restore a mask of signals, in memory that threads of other ranks write beside
/// them.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "check.h"

enum { rounds = 20, stack_bytes = 65536 };

struct coroutine {
  ucontext_t context;
  volatile int steps;
  volatile int failures;
  volatile int neighbours;
};
static struct coroutine* of_thread[most_threads];
static ucontext_t backs[most_threads];

static int is_blocked(void) {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, NULL, &now);
  return sigismember(&now, SIGUSR1);
}

static void block(void) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
}

/* Its mask is its own. */
static void run(int thread) {
  struct coroutine* const self = of_thread[thread];
  volatile double sum = 0;
  block();
  for (int i = 0; i < rounds - 1; ++i) {
    sum += i;
    self->steps += 1;
    self->failures += swapcontext(&self->context, &backs[thread]) != 0;
    self->failures += !is_blocked();
  }
  self->steps += sum == (rounds - 1) * (rounds - 2) / 2;
}

static struct coroutine* make_coroutine(int thread) {
  struct coroutine* const made = aligned_alloc(4096, 4096);
  memset(made, 0, sizeof *made);
  getcontext(&made->context);
  made->context.uc_stack.ss_sp = aligned_alloc(4096, stack_bytes);
  made->context.uc_stack.ss_size = stack_bytes;
  made->context.uc_link = &backs[thread];
  makecontext(&made->context, (void (*)(void))run, 1, thread);
  return made;
}

static void coroutines(void) {
  int steps = 0;
  int failures = 0;
  int neighbours = 0;
#pragma omp parallel reduction(+ : steps, failures, neighbours)
  {
    take_part();
    const int self = omp_get_thread_num();
    of_thread[self] = make_coroutine(self);
    for (int i = 0; i < rounds; ++i) {
#pragma omp barrier
      of_thread[(self + 1) % omp_get_num_threads()]->neighbours += 1;
#pragma omp barrier
      failures += swapcontext(&backs[self], &of_thread[self]->context) != 0;
      failures += is_blocked();
    }
    steps = of_thread[self]->steps;
    failures += of_thread[self]->failures;
    neighbours = of_thread[self]->neighbours;
#pragma omp barrier
    free(of_thread[self]->context.uc_stack.ss_sp);
    free(of_thread[self]);
  }
  check_int("steps of coroutines", steps);
  check_int("which failed", failures);
  check_int("beside them", neighbours);
}

/* A context is entered again and again. */
static volatile int laps_of[most_threads];

static void loop(void) {
  int laps = 0;
#pragma omp parallel reduction(+ : laps)
  {
    take_part();
    ucontext_t* const start = aligned_alloc(4096, 4096);
    volatile int* const lap = &laps_of[omp_get_thread_num()];
    getcontext(start);
    *lap += 1;
    if (*lap < 10) setcontext(start);
    laps = *lap;
    free(start);
  }
  check_int("laps", laps);
}

/* The registers end one page, and the mask begins the next, where a neighbour writes. */
static char* jumps_of[most_threads];

static void jumps(void) {
  int restored = 0;
#pragma omp parallel reduction(+ : restored)
  {
    take_part();
    const int self = omp_get_thread_num();
    char* const memory = aligned_alloc(4096, 8192);
    memset(memory, 0, 8192);
    jumps_of[self] = memory;
    sigjmp_buf* const place = (sigjmp_buf*)(memory + 4096 - offsetof(struct __jmp_buf_tag, __saved_mask));
    for (volatile int i = 0; i < rounds; ++i) {
#pragma omp barrier
      jumps_of[(self + 1) % omp_get_num_threads()][8000] += 1;
#pragma omp barrier
      if (sigsetjmp(*place, 1) == 0) {
        block();
#pragma omp barrier
        jumps_of[(self + 1) % omp_get_num_threads()][8000] += 1;
#pragma omp barrier
        siglongjmp(*place, 1);
      }
      restored += !is_blocked();
    }
    restored += memory[8000] == 2 * rounds;
#pragma omp barrier
    free(memory);
  }
  check_int("masks that jumps restore", restored);
}

int main(void) {
  coroutines();
  loop();
  jumps();
  return finish();
}
