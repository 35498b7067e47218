/// \file
/// Flush to zero, which -ffast-math sets for all threads. Built with and without it.
#include <float.h>

#include "check.h"

int main(void) {
  volatile double least = DBL_MIN;
  int kept = 0;
#pragma omp parallel reduction(+ : kept)
  {
    take_part();
    kept += least * 0.5 != 0;
  }
  check_int("threads that keep numbers below the least normal one", kept);
  return finish();
}
