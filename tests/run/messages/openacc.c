/// \file
/// A loop of OpenACC, which is in libgomp as well.
#include <stdio.h>

int main(void) {
  int cells[64];
#pragma acc parallel loop copyout(cells)
  for (int i = 0; i < 64; ++i) cells[i] = i;
  printf("%d\n", cells[63]);
  return 0;
}
