/// \file
/// An atomic instruction in code that no unwind table tells of, by how it is built.
#include <stdio.h>

int main(void) {
  static int count;
#pragma omp parallel
  {
#pragma omp atomic
    ++count;
  }
  printf("%s\n", count == 0 ? "nobody counted" : "counted");
  return 0;
}
