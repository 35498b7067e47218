/// \file
/// Rounding and trapped exceptions, which threads take over from the one that starts them for their first
/// region; what it changes afterwards is its own.
#define _GNU_SOURCE
#include <fenv.h>

#include "check.h"

static int rounds_up(double numerator) {
  volatile double n = numerator;
  volatile double three = 3;
  volatile double down = n / three;
  volatile long double third = (long double)n / (long double)three;
  return (int)(down * 3 > n) + (int)(third * 3 > (long double)n);
}

int main(void) {
  if (fesetround(FE_UPWARD) != 0 || feenableexcept(FE_DIVBYZERO) == -1) return 1;
  int up = 0;
  int trapping = 0;
  int rounded = 0;
#pragma omp parallel reduction(+ : up, trapping, rounded)
  {
    take_part();
    up += fegetround() == FE_UPWARD;
    trapping += fegetexcept() == FE_DIVBYZERO;
    rounded += rounds_up(1);
  }
  check_int("threads that round up", up);
  check_int("threads that trap", trapping);
  check_int("quotients that are rounded up", rounded);

  fesetround(FE_DOWNWARD);
  up = 0;
  int down = 0;
#pragma omp parallel reduction(+ : up, down)
  {
    take_part();
    up += fegetround() == FE_UPWARD;
    down += fegetround() == FE_DOWNWARD;
    if (omp_get_thread_num() == 0) fesetround(FE_TONEAREST);
    if (omp_get_thread_num() == 1) fesetround(FE_TOWARDZERO);
  }
  check_int("threads that still round up", up);
  check_int("threads that round down", down);

  int own = 0;
#pragma omp parallel reduction(+ : own)
  {
    take_part();
    own += fegetround() == (omp_get_thread_num() == 0   ? FE_TONEAREST
                            : omp_get_thread_num() == 1 ? FE_TOWARDZERO
                                                        : FE_UPWARD);
  }
  check_int("threads that round as they chose", own);
  return finish();
}
