/// \file
/// Makes more locks than there are, of any program.
#include <omp.h>
#include <stdio.h>

int main(void) {
  static omp_lock_t lock;
  for (int i = 0; i < 2000000; ++i) omp_init_lock(&lock);
  puts("there are more");
  return 0;
}
