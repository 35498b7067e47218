/// \file
/// Atomic instructions that are too short for a jump to replace them, in a program with a handler of its own
/// for the signal that does it instead. Fortran's library sets one in every program.
#include "check.h"

#include <signal.h>

static volatile sig_atomic_t signals = 0;

static void count_signal(int signal) {
  if (signal == SIGTRAP) ++signals;
}

// Both the addition and what comes behind it are jumped to, so its four bytes are all there is.
static void add_one(int* to, long steps) {
  __asm__ volatile(
      "test %1, %1\n\t"
      "je 1f\n\t"
      "nop\n"
      "1: lock addl $1, (%0)\n"
      "2: sub $1, %1\n\t"
      "jg 2b\n"
      : "+r"(to), "+r"(steps)
      :
      : "memory", "cc");
}

int main(void) {
  struct sigaction action = {.sa_handler = count_signal};
  if (sigaction(SIGTRAP, &action, NULL) != 0) return 1;
  static int sum = 0;
  enum { times = 200 };
#pragma omp parallel
  {
    take_part();
    for (int i = 0; i < times; ++i) add_one(&sum, i % 3);
  }
  check_int("sum", sum / omp_get_max_threads());
  check_int("signals", signals);
  raise(SIGTRAP);
  check_int("signals", signals);
  action.sa_handler = SIG_DFL;
  struct sigaction before;
  if (sigaction(SIGTRAP, &action, &before) != 0) return 1;
  check_int("its own handler", before.sa_handler == count_signal);
  return finish();
}
