/// \file
/// Handlers of signals that use shared memory, while their threads are anywhere: in regions, in barriers, in
/// semaphores.
#include "check.h"

#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static volatile long ticks;
static volatile int values[4];
static volatile int raised[most_threads][16];
static volatile int stack_used[most_threads];
static sem_t posts;
static int numbers[100000];

static void tick(int signal) {
  (void)signal;
  ++ticks;
  sem_post(&posts);
}
static void note(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)context;
  values[0] = info->si_value.sival_int;
}
static void count(int signal) {
  (void)signal;
  ++raised[omp_get_thread_num()][0];
}

static void set(int signal, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, NULL);
}

static void set_timer(long us) {
  const struct itimerval timer = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &timer, NULL);
}

/// A clock that ticks in regions and in what comes between them.
static void tick_in_regions(void) {
  set(SIGALRM, tick, SA_RESTART);
  set_timer(1000);
  const double end = omp_get_wtime() + 20;
  long long sum = 0;
  int rounds = 0;
  for (; (rounds < 100 || ticks < 20) && omp_get_wtime() < end; ++rounds) {
#pragma omp parallel reduction(+ : sum)
    {
      take_part();
#pragma omp for
      for (int i = 0; i < 100000; ++i) {
        numbers[i] += 1;
        sum += numbers[i] - rounds;
      }
    }
  }
  set_timer(0);
  check_int("sums while a clock ticks", sum - 100000LL * rounds);
  check_int("it ticks", ticks >= 20);
}

/// As many posts as ticks; waiting for one is what a handler ends.
static void wait_for_ticks(void) {
  while (sem_trywait(&posts) == 0) continue;
  set_timer(1000);
  for (int i = 0; i < 20; ++i) {
    while (sem_wait(&posts) != 0) continue;
  }
  set_timer(0);
  check_int("posts of a handler", 20);
}

static void raise_in_threads(void) {
  set(SIGUSR1, count, 0);
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < 25; ++i) {
      raise(SIGUSR1);
#pragma omp barrier
    }
  }
  long long sum = 0;
  for (int i = 0; i < most_threads; ++i) sum += raised[i][0];
  check_int("raised by threads", sum);
}

/// With as much on its stack as handlers can have natively on that of a thread.
static void use_stack(int signal) {
  volatile char large[1 << 20];
  for (size_t i = 0; i < sizeof large; i += 512) large[i] = (char)signal;
  stack_used[omp_get_thread_num()] += large[sizeof large - 512] == (char)signal;
}

static void use_large_stacks(void) {
  set(SIGUSR1, use_stack, 0);
#pragma omp parallel
  {
    take_part();
    raise(SIGUSR1);
  }
  int used = 0;
  for (int i = 0; i < most_threads; ++i) used += stack_used[i];
  check_int("handlers with large frames", used);
  set(SIGUSR1, count, 0);
}

static void keep_what_was_set(void) {
  struct sigaction now;
  sigaction(SIGUSR1, NULL, &now);
  check_int("the handler is the one that was set",
            now.sa_handler == count && (now.sa_flags & SA_SIGINFO) == 0);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR2, &action, &now);
  check_int("there was none", now.sa_handler == SIG_DFL);
  const union sigval value = {.sival_int = 4711};
  sigqueue(getpid(), SIGUSR2, value);
  // Any thread of the process may get it.
  for (int i = 0; i < 10000 && values[0] == 0; ++i) usleep(1000);
  check_int("the value of a signal", values[0]);
  set(SIGUSR2, count, (int)SA_RESETHAND);
  raise(SIGUSR2);
  sigaction(SIGUSR2, NULL, &now);
  check_int("a handler for once is gone", now.sa_handler == SIG_DFL);
}

int main(void) {
  sem_init(&posts, 0, 0);
  tick_in_regions();
  wait_for_ticks();
  raise_in_threads();
  use_large_stacks();
  keep_what_was_set();
  return finish();
}
