/// \file
/// A loop whose iterations wait for each other: the runtime has no entry points for it.
#include <stdio.h>

int main(void) {
  int cells[64] = {1};
#pragma omp parallel for ordered(1)
  for (int i = 1; i < 64; ++i) {
#pragma omp ordered depend(sink : i - 1)
    cells[i] = cells[i - 1] + 1;
#pragma omp ordered depend(source)
  }
  printf("%d\n", cells[63]);
  return 0;
}
