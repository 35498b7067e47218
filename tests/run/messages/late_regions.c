/// \file
/// A library that is loaded while the program runs (late_regions PATH) has parallel regions, as extensions of
/// Python's have. The program's own region comes after it.
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

int main(int count, char** words) {
  void* const library = count < 2 ? NULL : dlopen(words[1], RTLD_NOW);
  long (*const count_calls)(int) = library == NULL ? NULL : (long (*)(int))dlsym(library, "count_calls");
  if (count_calls == NULL) return 3;
  const long calls = count_calls(50);
  long sum = 0;
#pragma omp parallel reduction(+ : sum)
  sum += omp_get_thread_num();
  printf("%ld calls, sum %ld\n", calls, sum);
  return 0;
}
