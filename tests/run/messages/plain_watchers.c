/// \file
/// A program that calls a library by the name of OpenBLAS.
#include <stdio.h>

extern long watch(int* processes);

int main(void) {
  int processes = 0;
  const long wrong = watch(&processes);
  printf("wrong %ld, processes %d\n", wrong, processes);
  return 0;
}
