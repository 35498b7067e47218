// A task that takes part in a reduction that nobody has: the compiler cannot see that.
#include <stdio.h>

static int sum = 0;

__attribute__((noinline)) static void add(void) {
#pragma omp task in_reduction(+ : sum)
  ++sum;
}

int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
  add();
  printf("sum %d\n", sum);
  return 0;
}
